"""Pages as HTML: every value is escaped, nothing is inline, nothing comes from elsewhere."""

import gzip
import re
from collections.abc import Mapping, Sequence
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
from ett_service.pages.panel import Cell, Column, Table
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


def term(name: str) -> Safe:
    """Write a name, which leads to its definition where it has one."""
    if name not in TERMS:
        return escape(name)
    return _defined(name)


@cache
def _defined(name: str) -> Safe:
    title = escape(TERMS[name])
    to = f"/definitions#{escape(anchor(name))}"
    return Safe(f'<a class="term" href="{to}" title="{title}">{escape(name)}</a>')  # noqa: S704 -- escaped


@cache
def swatch(category: str) -> Safe:
    """Write the colour of a category."""
    kinds = f"swatch swatch-{escape(category)}{' wasted' if category in _WASTED else ''}"
    return Safe(f'<span class="{kinds}" aria-hidden="true"></span>')  # noqa: S704 -- escaped


_WASTED = frozenset(category.value for category in WASTED)


_MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")


def instant(text: str) -> Safe:
    """Write what :func:`moment` shows so that a browser can tell it in its reader's own time."""
    if not _MOMENT.fullmatch(text):
        return escape(text)
    return Safe(f'<time datetime="{text.replace(" ", "T")}Z">{text}</time>')  # noqa: S704 -- digits


def cell(each: Cell) -> Safe:
    """Write what stands in a cell."""
    colour = swatch(each.swatch) if each.swatch else ""
    if each.href:
        text = f'<a href="{escape(each.href)}">{escape(each.text)}</a>'
    elif each.swatch == each.text:
        text = term(each.text)
    else:
        text = instant(each.text)
    return Safe(f"{colour}{text}")  # noqa: S704 -- each part is escaped


def show_table(given: Table, label: str) -> Safe:
    """Write a table. A template takes three times as long, and a job has thousands of cells."""
    named = escape(label)
    heads = "".join(map(_head, given.columns))
    rows = "\n".join(_row(row, given.columns) for row in given.rows)
    return Safe(  # noqa: S704 -- each part is escaped
        f'<div class="scroll" tabindex="0" role="region" aria-label="{named}, table">\n<table>\n'
        f'<caption class="unseen">{named}</caption>\n<thead><tr>{heads}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody>\n</table>\n</div>"
    )


_TURNED = {"ascending": " ▲", "descending": " ▼"}


def _head(column: Column) -> str:
    kind = ' class="number"' if column.is_number else ""
    order = f' aria-sort="{column.order}"' if column.order else ""
    if column.href:
        title = f' title="{escape(TERMS[column.name])}"' if column.name in TERMS else ""
        text = f"{escape(column.name)}{_TURNED.get(column.order, '')}"
        name = f'<a href="{escape(column.href)}"{title}>{text}</a>'
    else:
        name = term(column.name) if column.name else '<span class="unseen">name</span>'
    return f'<th scope="col"{kind}{order}>{name}</th>'


def _row(row: Sequence[Cell], columns: Sequence[Column]) -> str:
    written = []
    tag = 'th scope="row"'
    for each, column in zip(row, columns, strict=True):
        title = f' title="{escape(each.title)}"' if each.title else ""
        is_term = not column.name and each.text in TERMS
        text = term(each.text) if is_term else cell(each)
        written.append(f'<{tag} class="{each.style(column)}"{title}>{text}</{tag[:2]}>')
        tag = "td"
    return "<tr>{}</tr>".format("\n".join(written))


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
        "many": units.many,
        "moment": lambda text: instant(moment(text)),
        "anchor": anchor,
        "prose": prose,
        # Charts escape what they are given themselves.
        "drawn": Safe,
    }
    environment.globals |= {
        "asset": asset_address,
        "terms": TERMS,
        "term": term,
        "swatch": swatch,
        "cell": cell,
        "show_table": show_table,
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
