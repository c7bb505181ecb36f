"""Routes of pages: a refusal is a page too, and whoever is not signed in is asked to."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any
from urllib.parse import parse_qs, urlencode

from fastapi import APIRouter, Depends
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ett_service.api.problems import Problem, ProblemKind, problem_of
from ett_service.fleet.scope import BadQuestion
from ett_service.pages.ask import Ask, Refusal
from ett_service.pages.render import HEADERS, page
from ett_service.pages.sessions import (
    MOST_FORM_BYTES,
    NotSignedIn,
    Session,
    check_form,
    session_of,
    state_of,
)
from ett_service.storage.engine.errors import StorageUnavailable

_EXPECTED = (Problem, BadQuestion, RequestValidationError, HTTPException, StorageUnavailable)

_FILTER = ("dimension", "is")  # of a form without scripts: together one condition of `where`

_SENTENCES = {
    403: "The key that you are signed in with may not do this.",
    404: "There is nothing here, or nothing that your key may see.",
    422: "The address of this page cannot be read.",
    503: "The database cannot be reached. Try again in a moment.",
}


class PageRoute(APIRoute):
    """Answers refusals with pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the route."""
        inner = super().get_route_handler()

        async def answer(request: Request) -> Response:
            if (address := _plain_address(request)) is not None:
                return RedirectResponse(address, 303, HEADERS)
            try:
                return await inner(request)
            except NotSignedIn:
                return _to_sign_in(request)
            except Refusal as refusal:
                return refused(request, refusal.status, refusal.problem)
            except _EXPECTED as error:
                problem = problem_of(error)
                members = {"detail": problem.detail, "title": problem.kind.title}
                return refused(request, problem.kind.status, members | problem.members)

        return answer


def _plain_address(request: Request) -> str | None:
    """Return the address without what a form left empty, its filter among the others.

    None where it is as it should be.
    """
    given = request.query_params.multi_items()
    members = dict(given)
    name, text = members.get("dimension"), members.get("is")
    plain = [(name, text) for name, text in given if text and name not in _FILTER]
    if name and text:
        plain = [*dict.fromkeys((*plain, ("where", f"{name}:{text}")))]
    if request.method != "GET" or plain == given:
        return None
    path = request.scope["raw_path"].decode("ascii")
    return f"{path}?{urlencode(plain)}" if plain else path


def router() -> APIRouter:
    """Return a router of pages."""
    return APIRouter(include_in_schema=False, route_class=PageRoute)


def _to_sign_in(request: Request) -> Response:
    if request.method != "GET" or request.headers.get("sec-fetch-mode", "navigate") != "navigate":
        return refused(request, 401, {"title": "Sign in first"})
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    query = f"?{urlencode({'next': here})}" if here != "/" else ""
    return RedirectResponse(f"/sign-in{query}", 303)


def refused(request: Request, status: int, problem: Any) -> Response:
    """Say on a page what was refused, and what may be sent instead."""
    try:
        session = session_of(request)
    except (NotSignedIn, StorageUnavailable):
        session = None
    return page(
        request,
        "refused.html",
        session,
        status=status,
        title=problem.get("title") or "Refused",
        sentence=problem.get("detail") or _SENTENCES.get(status, ""),
        faults=() if problem.get("detail") else problem.get("errors") or (),
    )


SignedIn = Annotated[Session, Depends(session_of)]


def _asker(request: Request, session: SignedIn) -> Ask:
    return Ask(request, session.key)


Asking = Annotated[Ask, Depends(_asker)]


async def form_of(request: Request) -> dict[str, str]:
    """Read the form that a browser sent; of several values of a name the last.

    Raises:
        Problem: 413.
    """
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_FORM_BYTES:
            raise Problem(ProblemKind.TOO_LARGE, headers={"Connection": "close"})
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=200)
    return {name: values[-1] for name, values in fields.items()}


async def own_form(request: Request, session: SignedIn) -> dict[str, str]:
    """Read a form of this session.

    Raises:
        Problem: 403, 413.
    """
    form = await form_of(request)
    check_form(request, session, form.get("token", ""))
    return form


OwnForm = Annotated[dict[str, str], Depends(own_form)]


def now_of(request: Request) -> int:
    """Tell the time in microseconds."""
    return state_of(request).now_us()
