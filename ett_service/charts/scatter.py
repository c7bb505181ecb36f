"""Durations over time, each a point, with a level before and after an instant."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ett_service.charts.palette import BETTER, WORSE, flat
from ett_service.charts.svg import (
    Markup,
    Scale,
    chart,
    clock_ticks,
    element,
    grid,
    label,
    line,
    linear,
    linked,
    width_of,
    words,
)
from ett_service.charts.units import duration

_WIDTH, _HEIGHT = 1240.0, 320.0
_TOP, _BOTTOM = 24.0, 284.0
_LEFT, _RIGHT = 76.0, 1130.0
_SECONDS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30)
_ROUND_S = (
    *_SECONDS,
    *(minutes * 60.0 for minutes in (1, 2, 5, 10, 20, 30)),
    *(hours * 3600.0 for hours in (1, 2, 4, 8, 12, 24, 48, 96, 192)),
)


@dataclass(frozen=True, slots=True)
class Dot:
    """A duration in seconds at a second, counted from the begin of the chart."""

    at_s: float
    seconds: float
    is_after: bool
    tooltip: str
    href: str


def scatter(
    ident: str,
    title: str,
    dots: Sequence[Dot],
    *,
    span_s: tuple[float, float],
    levels: tuple[float | None, float | None],
    shown: Callable[[float], str],
    since_midnight_s: float = 0.0,
) -> Markup:
    """Draw *dots* from 0 to the end of *span_s*, whose first is the instant between the *levels*.

    The axis of durations is logarithmic: a factor is the same distance everywhere. Ticks stand at
    round times, *since_midnight_s* is the time of day at 0.
    """
    onset_s, end_s = span_s
    across = linear((0.0, max(end_s, 1.0)), (_LEFT, _RIGHT))
    seen = [dot.seconds for dot in dots if dot.seconds > 0]
    seen += [level for level in levels if level]
    marks = _marks(min(seen, default=1.0), max(seen, default=1.0))
    low, high = math.log(marks[0]), math.log(marks[-1])
    place = linear((low, high if high > low else low + 1), (_BOTTOM, _TOP))

    def up(seconds: float) -> float:
        return place(math.log(max(seconds, marks[0])))

    return chart(
        ident,
        (_WIDTH, _HEIGHT),
        title,
        _description(dots, levels),
        grid(marks, up, (_LEFT, _RIGHT), duration),
        _axis(clock_ticks(end_s, since_midnight_s, 9), across, shown),
        *(_dot(dot, across, up) for dot in dots),
        *_levels(levels, (0.0, onset_s, end_s), across, up),
        _onset(onset_s, across),
    )


def _marks(low: float, high: float) -> list[float]:
    """Return round durations from at or below *low* to at or above *high*."""
    first = max((mark for mark in _ROUND_S if mark <= low), default=_ROUND_S[0])
    last = min((mark for mark in _ROUND_S if mark >= high), default=_ROUND_S[-1])
    return [mark for mark in _ROUND_S if first <= mark <= last]


def _axis(marks: Sequence[float], across: Scale, shown: Callable[[float], str]) -> Markup:
    drawn, free_from = [], 0.0
    for mark in marks:
        text = shown(mark)
        if across(mark) - width_of(text) / 2 >= free_from:
            drawn.append(label(across(mark), _BOTTOM + 22, text, text_anchor="middle"))
            free_from = across(mark) + width_of(text) / 2 + 8
    return element("g", *drawn)


def _dot(dot: Dot, across: Scale, up: Callable[[float], float]) -> Markup:
    tooltip = element("title", words(dot.tooltip))
    shape: dict[str, str | float | None] = {"fill_opacity": 0.6}
    x, y = across(dot.at_s), up(dot.seconds)
    if not dot.is_after:
        drawn = element("circle", tooltip, cx=x, cy=y, r=3.2, **shape, **flat(BETTER))
    else:
        diamond = f"M{x:.1f} {y - 4.4:.1f}l4.4 4.4l-4.4 4.4l-4.4 -4.4z"
        drawn = element("path", tooltip, d=diamond, **shape, **flat(WORSE))
    return linked(dot.href, drawn, is_stop=False)


def _levels(
    levels: tuple[float | None, float | None],
    ends_s: tuple[float, float, float],
    across: Scale,
    up: Callable[[float], float],
) -> list[Markup]:
    drawn = []
    for level, start_s, end_s in zip(levels, ends_s, ends_s[1:], strict=False):
        if level:
            y = up(level)
            drawn.append(line((across(start_s), y), (across(end_s), y), stroke_width=2))
    last = levels[1]
    if last:
        drawn.append(label(_RIGHT + 8, up(last) + 4, duration(last), font_weight="bold"))
    if levels[0]:
        x = across(ends_s[1]) - 6
        drawn.append(
            label(
                x,
                up(levels[0]) - 6,
                duration(levels[0]),
                text_anchor="end",
                font_weight="bold",
                class_="ett-over",
            )
        )
    return drawn


def _onset(onset_s: float, across: Scale) -> Markup:
    x = across(onset_s)
    return element(
        "g",
        line((x, _TOP - 8), (x, _BOTTOM), stroke_dasharray="2 3"),
        label(x + 4, _TOP - 10, "onset"),
    )


def _description(dots: Sequence[Dot], levels: tuple[float | None, float | None]) -> str:
    after = sum(dot.is_after for dot in dots)
    before, now = (duration(level) for level in levels)
    return (
        f"{len(dots) - after} values before the onset, their median {before}, "
        f"and {after} after it, their median {now}."
    )
