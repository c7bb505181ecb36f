"""A gantt: a row for each attempt, what its time went on, how it ended, and what was lost."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ett_service.charts.palette import paint, patterns
from ett_service.charts.svg import (
    FAINT,
    Markup,
    Scale,
    chart,
    clock_ticks,
    element,
    label,
    line,
    linear,
    linked,
    number,
    shortened,
    width_of,
    words,
)
from ett_service.charts.units import duration
from ett_service.core.words import Category

_WIDTH = 1240.0
_ROW, _BAR = 26.0, 16.0
_NARROW, _WIDE, _RIGHT = 100.0, 200.0, 1232.0  # of the names, and where rows end
_TOP = 4.0
_HEAD = 18.0
_MOST_SEEN = 20  # rows, of which the axis below is seen together with the first
_THINNEST = 0.6
_NARROWEST = 0.4  # what is less would be drawn too wide, and there may be thousands
_LEGEND_ROW = 20.0


@dataclass(frozen=True, slots=True)
class CategorySpan:
    """From one second to another, counted from the begin of the chart, of one category."""

    start_s: float
    end_s: float
    category: Category


@dataclass(frozen=True, slots=True)
class Row:
    """One attempt, or the time between attempts."""

    name: str
    stretches: Sequence[CategorySpan]
    ending: str = ""  #: what stands beside its end, such as ``✕ oom``
    evidence: str = ""  #: why the ending is taken for that
    unsaved: tuple[float, float] | None = None  #: what was lost with it
    saves_s: Sequence[float] = ()  #: durable checkpoints
    href: str = ""
    mark: str = ""  #: another one where something of the row is another


def gantt(
    ident: str,
    title: str,
    rows: Sequence[Row],
    end_s: float,
    shown: Callable[[float], str],
    since_midnight_s: float = 0.0,
) -> Markup:
    """Draw *rows* from 0 to *end_s* seconds; *shown* names a place on the axis.

    *since_midnight_s* is the time of day at 0: ticks stand at round times.
    """
    left = _column(rows)
    across = linear((0.0, max(end_s, 1.0)), (left, _RIGHT))
    top = _TOP + (_HEAD if len(rows) > _MOST_SEEN else 0.0)
    bottom = top + len(rows) * _ROW
    spent = {stretch.category for row in rows for stretch in row.stretches}
    inside = [category for category in Category if category in spent]
    legend, depth = _legend(ident, inside, bottom + 34)
    return chart(
        ident,
        (_WIDTH, depth),
        title,
        " ".join(_sentence(row) for row in rows) or "There is no attempt.",
        patterns(ident, inside),
        _tail_pattern(ident),
        _grid(clock_ticks(end_s, since_midnight_s), across, (top, bottom), shown),
        *(_row(ident, row, (left, top + place * _ROW), across) for place, row in enumerate(rows)),
        legend,
    )


def _column(rows: Sequence[Row]) -> float:
    """Return how wide the column of names is."""
    widest = max((width_of(row.name) for row in rows), default=0.0)
    return min(max(widest + 16, _NARROW), _WIDE)


def _grid(
    marks: Sequence[float],
    across: Scale,
    ends: tuple[float, float],
    shown: Callable[[float], str],
) -> Markup:
    """Draw the marks, named below the rows, and above them, too, where the rows fill a screen."""
    top, bottom = ends
    drawn = []
    free_from = 0.0
    for mark in marks:
        x = across(mark)
        drawn.append(line((x, top), (x, bottom + 4), stroke_opacity=FAINT))
        text = shown(mark)
        if free_from <= x - width_of(text) / 2 and x + width_of(text) / 2 <= _WIDTH:
            places = [bottom + 18] if top == _TOP else [top - 6, bottom + 18]
            drawn += [label(x, place, text, text_anchor="middle") for place in places]
            free_from = x + width_of(text) / 2 + 8
    return element("g", *drawn)


def _row(ident: str, row: Row, corner: tuple[float, float], across: Scale) -> Markup:
    left, top = corner
    middle = top + _BAR / 2 + 4
    name = label(left - 8, middle, shortened(row.name, left - 12), text_anchor="end")
    drawn = [linked(row.href, name, mark=row.mark)]
    drawn += [_stretch(ident, stretch, top, across) for stretch in _seen(row.stretches, across)]
    if row.saves_s:
        drawn.append(_saves(row, top, across))
    if row.unsaved is not None:
        drawn.append(_unsaved(ident, row.unsaved, top, across))
    if row.ending and row.stretches:
        drawn.append(_ending(row, middle, across))
    return element("g", *drawn)


def _seen(stretches: Sequence[CategorySpan], across: Scale) -> list[CategorySpan]:
    """Leave out what is too narrow to be seen: what lies close before it is drawn over it."""
    wide: list[CategorySpan] = []
    ends: list[float] = []
    last = -math.inf
    for stretch in stretches:
        start, end = across(stretch.start_s), across(stretch.end_s)
        is_narrow = end - start < _NARROWEST
        is_over_last = start - last < _NARROWEST and (
            is_narrow or wide[-1].category is stretch.category
        )
        if is_over_last:
            ends[-1] = stretch.end_s
        else:
            wide.append(stretch)
            ends.append(stretch.end_s)
        last = end
    return [
        stretch if stretch.end_s == end_s else replace(stretch, end_s=end_s)
        for stretch, end_s in zip(wide, ends, strict=True)
    ]


def _stretch(ident: str, stretch: CategorySpan, top: float, across: Scale) -> Markup:
    start, end = across(stretch.start_s), across(stretch.end_s)
    tooltip = f"{stretch.category} {duration(stretch.end_s - stretch.start_s)}"
    return element(
        "rect",
        element("title", words(tooltip)),
        x=start,
        y=top,
        width=max(end - start, _THINNEST),
        height=_BAR,
        **paint(ident, stretch.category),
    )


def _saves(row: Row, top: float, across: Scale) -> Markup:
    """Mark durable checkpoints below the bar, as one path: there may be thousands."""
    marks = "".join(
        f"M{number(x)} {number(top + _BAR)}v4"
        for x in dict.fromkeys(round(across(save), 1) for save in row.saves_s)
    )
    tooltip = element("title", words(f"{len(row.saves_s)} durable checkpoints"))
    return element("path", tooltip, d=marks, stroke="currentColor", stroke_width=1)


def _unsaved(ident: str, ends: tuple[float, float], top: float, across: Scale) -> Markup:
    start, end = across(ends[0]), across(ends[1])
    tooltip = f"unsaved: {duration(ends[1] - ends[0])} after the last durable checkpoint"
    return element(
        "rect",
        element("title", words(tooltip)),
        x=start,
        y=top - 2,
        width=max(end - start, _THINNEST),
        height=_BAR + 4,
        fill=f"url(#{ident}-tail)",
        stroke="currentColor",
        stroke_width=0.8,
    )


def _tail_pattern(ident: str) -> Markup:
    dots = element("circle", cx=2, cy=2, r=1.1, fill="currentColor")
    pattern = element(
        "pattern", dots, id=f"{ident}-tail", width=4, height=4, patternUnits="userSpaceOnUse"
    )
    return element("defs", pattern)


def _ending(row: Row, middle: float, across: Scale) -> Markup:
    """Name the ending behind the row, or before it, or else over its end: never over its name."""
    begin, end = across(row.stretches[0].start_s), across(row.stretches[-1].end_s)
    width = width_of(row.ending) + 6
    fits = end + width <= _WIDTH
    before = begin if begin - width >= across(0.0) else end
    text = label(
        end + 6 if fits else before - 6,
        middle,
        row.ending,
        text_anchor=None if fits else "end",
        font_weight="bold",
        class_="ett-over",
    )
    return element("g", element("title", words(row.evidence or row.ending)), text)


def _legend(ident: str, inside: Sequence[Category], top: float) -> tuple[Markup, float]:
    left = 0.0
    drawn = []
    for category in inside:
        width = 16 + width_of(category) + 14
        if left + width > _WIDTH and left:
            left, top = 0.0, top + _LEGEND_ROW
        area = {"x": left + 0.5, "y": top + 0.5, "width": 10.0, "height": 10.0}
        drawn.append(element("rect", **area, **paint(ident, category)))
        drawn.append(label(left + 16, top + 10, category))
        left += width
    return element("g", *drawn), top + _LEGEND_ROW


def _sentence(row: Row) -> str:
    length = sum(stretch.end_s - stretch.start_s for stretch in row.stretches)
    return f"{row.name}: {duration(length)}{', ' + row.evidence if row.evidence else ''}."
