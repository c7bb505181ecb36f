"""SVG as text: elements, escaped words, axes, and the frame of every chart."""

import math
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from html import escape
from typing import NewType
from unicodedata import east_asian_width

Markup = NewType("Markup", str)
"""Text that is SVG already; whatever else goes in is escaped by ``words``."""

FONT_PX = 12.0
FAINT = 0.18
"""The opacity of what lies behind the values."""

_NARROW_EM = 0.62  # of an average glyph in the wider of the usual sans-serif fonts
_WIDE_EM = 1.0
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def element(name: str, *children: Markup, **attributes: str | float | None) -> Markup:
    """Write one element; ``stroke_width`` becomes ``stroke-width``, ``class_`` becomes ``class``.

    An attribute that is None is left out.
    """
    written = "".join(
        f' {_name(key)}="{_text(value) if isinstance(value, str) else number(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(children)
    return Markup(f"<{name}{written}>{inside}</{name}>" if inside else f"<{name}{written}/>")


def words(text: str) -> Markup:
    """Escape *text*; a character that XML cannot hold becomes U+FFFD."""
    return Markup(escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text), quote=False))


def label(x: float, y: float, text: str, **attributes: str | float | None) -> Markup:
    """Write *text* with its baseline at ``y``, in the page's own colour."""
    given: dict[str, str | float | None] = {"x": x, "y": y, "fill": "currentColor"}
    return element("text", words(text), **(given | attributes))


def line(
    start: tuple[float, float], end: tuple[float, float], **attributes: str | float | None
) -> Markup:
    """Draw a line from ``(x, y)`` to ``(x, y)``, in the page's own colour."""
    (x1, y1), (x2, y2) = start, end
    ends: dict[str, str | float | None] = {
        "x1": x1,
        "y1": y1,
        "x2": x2,
        "y2": y2,
        "stroke": "currentColor",
    }
    return element("line", **(ends | attributes))


def grid(
    marks: Iterable[float],
    up: Callable[[float], float],
    edges: tuple[float, float],
    shown: Callable[[float], str],
) -> Markup:
    """Draw a faint line for each of *marks* from the left to the right of *edges*, and name it."""
    left, right = edges
    drawn = []
    for mark in marks:
        drawn.append(line((left, up(mark)), (right, up(mark)), stroke_opacity=FAINT))
        drawn.append(label(left - 8, up(mark) + 4, shown(mark), text_anchor="end"))
    return element("g", *drawn)


def linked(href: str, *children: Markup, is_stop: bool = True, mark: str = "") -> Markup:
    """Draw *children* as a link to what made them; without an address just draw them.

    One of very many links is no stop of the tab key: the chart's table has them, too. The *mark*
    tells a page that shows what lies at the address whether it is to be read again.
    """
    if not href:
        return Markup("".join(children))
    stop = None if is_stop else "-1"
    return element("a", *children, href=href, tabindex=stop, data_mark=mark or None)


def path(points: Iterable[tuple[float, float]]) -> str:
    """Return the ``d`` of a path through these points."""
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)


def chart(
    ident: str, size: tuple[float, float], title: str, description: str, *body: Markup
) -> Markup:
    """Frame a chart of ``(width, height)`` units, for a page or with ``standalone`` for a file.

    *ident* must be unique within the page: it begins the ids that the chart refers to.
    Readers of screens hear *title* and *description*, which should say what the chart shows.
    """
    width, height = size
    # What is inside of an image is hidden from readers of screens, and so would be its links.
    role = "group" if any("<a " in part for part in body) else "img"
    return element(
        "svg",
        element("title", words(title), id=f"{ident}-title"),
        element("desc", words(description), id=f"{ident}-desc"),
        *body,
        xmlns="http://www.w3.org/2000/svg",
        class_="ett-chart",
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=width,
        height=height,
        role=role,
        aria_labelledby=f"{ident}-title {ident}-desc",
        font_family="system-ui, sans-serif",
        font_size=FONT_PX,
    )


def width_of(text: str, size: float = FONT_PX) -> float:
    """Estimate the width of *text* at a font size; no font is read, so it is an estimate."""
    wide = sum(east_asian_width(mark) in "WF" for mark in text)
    return size * (wide * _WIDE_EM + (len(text) - wide) * _NARROW_EM)


def shortened(text: str, width: float, size: float = FONT_PX) -> str:
    """Return as much of *text* as fits *width*, an ellipsis in place of what does not."""
    if width_of(text, size) <= width:
        return text
    length = len(text)
    while length and width_of(text[:length] + "…", size) > width:
        length -= 1
    return text[:length].rstrip() + "…"


def number(value: float) -> str:
    """Write a coordinate: two decimals at most, no trailing zeros, never ``-0``."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


@lru_cache(512)
def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


@lru_cache(512)
def _text(value: str) -> str:
    """Write the text of an attribute: of colours and anchors, a chart has thousands alike."""
    return escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", value), quote=True)


Scale = Callable[[float], float]
"""Where a value lies, in units of the drawing."""

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_TIME_STEPS_S = (
    *(1.0, 2.0, 5.0, 10.0, 15.0, 30.0),
    *(60.0, 120.0, 300.0, 600.0, 900.0, 1800.0),
    *(3600.0, 7200.0, 10800.0, 21600.0, 43200.0, 86400.0),
)


def linear(values: tuple[float, float], places: tuple[float, float]) -> Scale:
    """Map *values* evenly onto *places*; an empty range of values lies in the middle."""
    (low, high), (start, end) = values, places
    if high == low:
        return lambda _value: (start + end) / 2
    return lambda value: start + (value - low) / (high - low) * (end - start)


def logarithmic(values: tuple[float, float], places: tuple[float, float]) -> Scale:
    """Map *values*, all above 0, onto *places* so that equal ratios have equal lengths."""
    low, high = values
    inner = linear((math.log(low), math.log(high)), places)
    return lambda value: inner(math.log(value))


_DAY_S = 86_400.0
_DAYS = (1, 2, 5, 7, 14, 28, 56)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return at most *most* round values from at or below *low* to at or above *high*."""
    if high <= low:
        return [low]
    step = 10.0 ** math.floor(math.log10(high - low))
    for factor in (0.1, 0.2, 0.25, 0.5, *_STEPS):
        first = math.floor(low / (step * factor) + 1e-9)
        last = math.ceil(high / (step * factor) - 1e-9)
        if last - first < most:
            return [float(f"{place * step * factor:.15g}") for place in range(first, last + 1)]
    return [low, high]


def time_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Do the same for seconds, at steps that are round as minutes, hours or days.

    What spans less than a second, or more than a few days, gets steps that are round as numbers.
    """
    for step in _TIME_STEPS_S:
        first, last = math.floor(low / step), math.ceil(high / step)
        if high - low >= 1 and last - first < most:
            return [place * step for place in range(first, last + 1)]
    return ticks(low, high, most)


def clock_ticks(end_s: float, since_midnight_s: float = 0.0, most: int = 8) -> list[float]:
    """Return places from 0 to *end_s* at round times of day, or at midnights.

    *since_midnight_s* is the time of day at place 0.
    """
    last = since_midnight_s + max(end_s, 1.0)
    days = -(-max(end_s, 1.0) // (most * _DAY_S))
    is_long = end_s > most * _DAY_S / 4
    step = next((each for each in _DAYS if each >= days), days) * _DAY_S
    marks = (
        [place * step for place in range(int(last // step) + 1)]
        if is_long
        else time_ticks(since_midnight_s, last, most)
    )
    return [mark - since_midnight_s for mark in marks if since_midnight_s <= mark <= last]
