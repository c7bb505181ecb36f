"""Signing in with a key or a link, signing out, light or dark, and the key of a first trainer."""

from typing import Annotated

from fastapi import Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ett_service.api.problems import Problem, ProblemKind
from ett_service.pages.ask import Ask, Question
from ett_service.pages.render import HEADERS, THEME, THEMES, page
from ett_service.pages.route import Asking, OwnForm, SignedIn, form_of, router
from ett_service.pages.sessions import (
    READING,
    CookieKind,
    check_own_site,
    cookie_kind,
    is_loopback,
    next_page,
    sign_in,
    sign_out,
    state_of,
)
from ett_service.storage.record.keys import Key, find_key, standing_key

ROUTER = router()

_YEAR_S = 366 * 86_400

_NO_COOKIE = (
    "Browsers keep sessions safe over HTTPS only. Serve these pages through HTTPS, or set "
    "public_url to this address if plain HTTP is meant."
)
_BAD_KEY = "This is not a key that is in force."
_NO_READER = "This key sends events and may not read. Use one of scope read or fleet."
_USED = "This link was used before, or is of an earlier start of the server. Sign in with a key."


@ROUTER.get("/sign-in")
async def show_sign_in(
    request: Request,
    ticket: Annotated[str, Query(max_length=100)] = "",
    next_: Annotated[str, Query(alias="next", max_length=2000)] = "/",
) -> Response:
    """Show the form, or sign in by a link: on this machine, once."""
    kind = cookie_kind(request)
    if kind is None:
        return _form(request, next_, _NO_COOKIE, status=403)
    if not ticket:
        return _form(request, next_)
    client = request.client.host if request.client else None
    is_here = is_loopback(client) and is_loopback(request.url.hostname)
    prefix = state_of(request).sessions.redeem(ticket) if is_here else None
    key = await run_in_threadpool(_standing, request, prefix) if prefix else None
    if key is None:
        return _form(request, next_, _USED, status=403)
    return await _signed_in(request, kind, key, next_)


@ROUTER.post("/sign-in")
async def take_sign_in(request: Request) -> Response:
    """Sign in with a key."""
    check_own_site(request)
    form = await form_of(request)
    target, kind = form.get("next", "/"), cookie_kind(request)
    if kind is None:
        return _form(request, target, _NO_COOKIE, status=403)
    key = await run_in_threadpool(_find, request, form.get("key", "").strip())
    if key is None or key.scopes.isdisjoint(READING):
        fault = _BAD_KEY if key is None else _NO_READER
        return _form(request, target, fault, status=401 if key is None else 403)
    return await _signed_in(request, kind, key, target)


def _standing(request: Request, prefix: str) -> Key | None:
    state = state_of(request)
    with state.store.reading() as conn:
        return standing_key(conn, prefix, state.now_us())


def _find(request: Request, text: str) -> Key | None:
    state = state_of(request)
    with state.store.reading() as conn:
        return find_key(conn, text, state.now_us())


def _form(request: Request, target: str, fault: str = "", *, status: int = 200) -> Response:
    return page(request, "sign_in.html", status=status, fault=fault, target=next_page(target))


async def _signed_in(request: Request, kind: CookieKind, key: Key, target: str) -> Response:
    if "admin" in key.scopes and key.project not in state_of(request).first_keys:
        ask = Ask(request, key)
        if not (await ask(Question("/v1/jobs", {"limit": 1})))["jobs"]:
            await make_first_key(request, ask, key.project)
    response = RedirectResponse(next_page(target), 303, HEADERS)
    sign_in(request, response, kind, key.prefix)
    return response


@ROUTER.post("/sign-out")
def take_sign_out(request: Request, _: OwnForm) -> Response:
    """End the session of this browser."""
    response = RedirectResponse("/sign-in", 303, HEADERS)
    sign_out(request, response)
    return response


@ROUTER.post("/theme")
async def choose_theme(request: Request) -> Response:
    """Keep the choice of light or dark in this browser."""
    check_own_site(request)
    form = await form_of(request)
    theme = form.get("theme")
    if theme not in (*THEMES, "system"):
        raise Problem(ProblemKind.VALIDATION_FAILED, "It is light, dark or system.")
    response = RedirectResponse(next_page(form.get("next")), 303, HEADERS)
    if theme == "system":
        response.delete_cookie(THEME, path="/", samesite="lax")
    else:
        response.set_cookie(THEME, theme, max_age=_YEAR_S, path="/", httponly=True, samesite="lax")
    return response


@ROUTER.post("/first-key")
async def take_first_key(request: Request, session: SignedIn, ask: Asking, _: OwnForm) -> Response:
    """Make a key, and show the lines with it."""
    await make_first_key(request, ask, session.key.project)
    return RedirectResponse("/", 303, HEADERS)


async def make_first_key(request: Request, ask: Ask, project: str) -> None:
    """Make a key that writes and reads, and keep it in memory for the first page.

    Raises:
        Refusal: The one who asks may not.
    """
    body = {"project": project, "name": "first trainer", "scopes": ["write", "read"]}
    made = await ask.write("POST", Question("/v1/keys"), body)
    state_of(request).first_keys[project] = made["key"]
