"""Pages as HTML: every value is escaped, nothing is inline, nothing comes from elsewhere."""

import gzip
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup as Safe
from markupsafe import escape
from starlette.requests import Request
from starlette.responses import Response

from ett_service.charts import units
from ett_service.charts.palette import COLOURS, STYLE
from ett_service.core.words import WASTED, Category
from ett_service.pages.sessions import Session
from ett_service.pages.terms import TERMS, anchor
from ett_service.pages.window import moment

THEME = "ett-theme"
THEMES = ("light", "dark")

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    # Under a stricter one browsers name no origin with a form.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=()",
    "X-Frame-Options": "DENY",
}

_STATIC = files("ett_service.pages") / "static"

NAVIGATION = (
    ("/", "Fleet"),
    ("/jobs", "Jobs"),
    ("/regressions", "Regressions"),
    ("/compare", "Compare"),
    ("/changes", "Changes"),
    ("/checkpoints", "Checkpoints"),
    ("/what-if", "What if"),
    ("/quality", "Quality"),
)
OF_ADMINISTRATORS = (("/settings", "Settings"),)


@cache
def asset(name: str) -> bytes:
    """Return a file that pages load; the style holds that of the charts, too."""
    content = (_STATIC / name).read_bytes()
    if name != "ett.css":
        return content
    return content + f"\n{STYLE}\n{_swatches()}\n".encode()


def _swatches() -> str:
    return "".join(
        f".swatch-{category}{{background-color:{colour}}}" for category, colour in COLOURS.items()
    )


@cache
def asset_address(name: str) -> str:
    """Return where a file lies; its content is in the address, so it may be kept for ever."""
    return f"/assets/{sha256(asset(name)).hexdigest()[:12]}/{name}"


def prose(text: str) -> Safe:
    """Escape a sentence, and set what stands between backticks as code."""
    parts = (escape(part) for part in text.split("`"))
    marked = [f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(parts)]
    if len(marked) % 2 == 0:  # the last backtick stands alone
        return escape(text)
    return Safe("".join(marked))  # noqa: S704 -- each part is escaped


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("ett_service.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": units.percent,
        "points": units.points,
        "duration": units.duration,
        "gpu_hours": units.gpu_hours,
        "amount": units.amount,
        "money": units.money,
        "count": units.count,
        "moment": moment,
        "anchor": anchor,
        "prose": prose,
        # Charts escape what they are given themselves.
        "drawn": Safe,
    }
    environment.globals |= {
        "asset": asset_address,
        "terms": TERMS,
        "wasted": frozenset(category.value for category in WASTED),
        "categories": [category.value for category in Category],
    }
    return environment


def _more(session: Session | None) -> tuple[tuple[str, str], ...]:
    return OF_ADMINISTRATORS if session is not None and session.may("admin") else ()


def page(
    request: Request,
    template: str,
    session: Session | None = None,
    *,
    status: int = 200,
    **context: object,
) -> Response:
    """Write a page for the browser that is signed in as *session*."""
    theme = request.cookies.get(THEME, "")
    query = f"?{request.url.query}" if request.url.query else ""
    here = request.url.path + query if request.method == "GET" else "/"
    text = (
        _environment()
        .get_template(template)
        .render(
            session=session,
            theme=theme if theme in THEMES else "",
            here=here,
            path=request.url.path,
            navigation=NAVIGATION + _more(session),
            origin=f"{request.url.scheme}://{request.url.netloc}",
            **context,
        )
    )
    return sent(request, text.encode(), "text/html; charset=utf-8", status=status)


_LEAST = 1000  # bytes; what is less is not worth it
_LEVEL = 5  # of 9; higher ones take longer, for hardly less


def sent(
    request: Request,
    body: bytes,
    media_type: str,
    *,
    status: int = 200,
    headers: Mapping[str, str] = HEADERS,
) -> Response:
    """Send *body*, compressed where the browser takes it."""
    headers = {**headers, "Vary": "Accept-Encoding"}
    if len(body) >= _LEAST and "gzip" in request.headers.get("accept-encoding", ""):
        body = gzip.compress(body, _LEVEL, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return Response(body, status, headers, media_type)
