"""Whom a page is for: the cookie of a browser, and what it may be used for.

Over HTTPS the cookie is ``__Host-ett``. Browsers differ in whether they take a ``Secure`` cookie
from plain HTTP on loopback, so there it is a plain one, with the port in its name: cookies of one
host are shared by all its ports. Plain HTTP elsewhere has none, unless ``public_url`` says that it
is meant.
"""

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from ett_service.api.problems import Problem, ProblemKind
from ett_service.api.state import AppState
from ett_service.core.intervals import SECOND_US
from ett_service.storage.record.keys import Key
from ett_service.storage.record.sessions import LIFETIME_US, form_token, is_form_token

READING = frozenset({"read", "fleet"})
MOST_FORM_BYTES = 64 << 10


class NotSignedIn(Exception):
    """The page needs a session, and the request has none that is in force."""


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that is signed in, and the key that it speaks for."""

    key: Key
    text: str

    @property
    def form_token(self) -> str:
        """What its forms carry."""
        return form_token(self.text)

    def may(self, *scopes: str) -> bool:
        """Whether the key has one of *scopes*."""
        return not self.key.scopes.isdisjoint(scopes)


@dataclass(frozen=True, slots=True)
class CookieKind:
    """What a cookie is called, and whether it is for HTTPS only."""

    name: str
    secure: bool


def state_of(request: Request) -> AppState:
    """Return what the application runs on."""
    state: AppState = request.state.app
    return state


def cookie_kind(request: Request) -> CookieKind | None:
    """Return which cookie a browser takes at the address of this request; None for none."""
    public = state_of(request).notifications.public_url
    if is_loopback(request.url.hostname):
        return CookieKind(f"ett-{request.url.port or 80}", secure=False)
    if request.url.scheme == "https" or public.startswith("https://"):
        return CookieKind("__Host-ett", secure=True)
    if public.startswith("http://") and urlsplit(public).hostname == request.url.hostname:
        return CookieKind("ett", secure=False)
    return None


def is_loopback(host: str | None) -> bool:
    """Whether *host* is this machine by any of its names."""
    if host in {None, "localhost"}:
        return host == "localhost"
    try:
        return ip_address(host or "").is_loopback
    except ValueError:
        return False


def session_of(request: Request) -> Session:
    """Return the session of the request.

    Raises:
        NotSignedIn: It has none, or one that is over.
    """
    kind = cookie_kind(request)
    text = "" if kind is None else request.cookies.get(kind.name, "")
    state = state_of(request)
    if text:
        with state.store.reading() as conn:
            key = state.sessions.key_of(conn, text, state.now_us())
        if key is not None and not key.scopes.isdisjoint(READING):
            request.state.key_prefix = key.prefix
            return Session(key, text)
    raise NotSignedIn


def sign_in(request: Request, response: Response, kind: CookieKind, prefix: str) -> None:
    """Give the browser a session of the key that begins with *prefix*."""
    state = state_of(request)
    response.set_cookie(
        kind.name,
        state.sessions.open(prefix, state.now_us()),
        max_age=LIFETIME_US // SECOND_US,
        path="/",
        secure=kind.secure,
        httponly=True,
        samesite="lax",
    )


def sign_out(request: Request, response: Response) -> None:
    """Take the session from the browser."""
    kind = cookie_kind(request)
    if kind is not None:
        response.delete_cookie(
            kind.name, path="/", secure=kind.secure, httponly=True, samesite="lax"
        )


def check_own_site(request: Request) -> None:
    """Pass a form of our own site, as far as the browser tells.

    Raises:
        Problem: 403.
    """
    origin = request.headers.get("origin")
    fetched = request.headers.get("sec-fetch-site", "same-origin")
    if fetched not in {"same-origin", "none"} or origin not in {None, _origin(request)}:
        raise Problem(ProblemKind.FORBIDDEN, "The form came from another site.")


def check_form(request: Request, session: Session, token: str) -> None:
    """Pass a form that this session's own page sent.

    Raises:
        Problem: 403.
    """
    check_own_site(request)
    if not is_form_token(session.text, token):
        raise Problem(ProblemKind.FORBIDDEN, "The form is of another session. Load the page again.")


def _origin(request: Request) -> str:
    # A proxy that ends TLS speaks plain HTTP to us; browsers name what they see.
    public = urlsplit(state_of(request).notifications.public_url)
    scheme = public.scheme if public.netloc == request.url.netloc else request.url.scheme
    return f"{scheme}://{request.url.netloc}"


def next_page(text: str | None) -> str:
    """Return where to go on: a path of this site, never another one."""
    path = text or "/"
    is_own = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_own else "/"
