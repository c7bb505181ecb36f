"""What saving every so often wastes: the curve whose lowest point is the best interval."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ett_service.charts.palette import BETTER, COLOURS
from ett_service.charts.svg import (
    FAINT,
    Markup,
    Scale,
    chart,
    element,
    grid,
    label,
    line,
    linear,
    linked,
    logarithmic,
    path,
    ticks,
)
from ett_service.charts.units import duration, percent
from ett_service.core.words import Category

_WIDTH, _HEIGHT = 760.0, 300.0
_TOP, _BOTTOM = 34.0, 246.0
_LEFT, _RIGHT = 60.0, 640.0
_TALLEST = 5.0  # times the lowest point: what lies higher would flatten the rest
_ROUND_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400)

_BLOCKING = COLOURS[Category.CHECKPOINT_BLOCKING]
_UNSAVED = COLOURS[Category.RESTART_WAIT]
_PARTS = {"unsaved": Category.REPEATED_TRAINING, "blocking": Category.CHECKPOINT_BLOCKING}


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """At an interval in seconds, the shares of training that failures and saves waste."""

    interval_s: float
    unsaved: float
    blocking: float

    @property
    def wasted(self) -> float:
        """Both together, as a ratio."""
        return self.unsaved + self.blocking


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals to point out, in seconds; ``None`` where one is not known."""

    best: float
    band: tuple[float, float]  #: within which hardly more is wasted than at the best
    likely: tuple[float, float] | None = None  #: where the best lies, with its uncertainty
    current: float | None = None


def interval_curve(
    ident: str,
    title: str,
    points: Sequence[CurvePoint],
    intervals: Intervals,
    part_href: Callable[[Category], str] | None = None,
) -> Markup:
    """Draw the waste over the interval, on a logarithmic axis, with its two parts.

    ``points`` must not be empty and go up in interval, all above 0. What is unsaved is trained
    again: the names of the parts lead where *part_href* says of the categories that they become.
    """
    lowest = min(point.wasted for point in points)
    marks = ticks(0.0, min(max(point.wasted for point in points), lowest * _TALLEST))
    reach = (points[0].interval_s, points[-1].interval_s)
    across = logarithmic(reach, (_LEFT, _RIGHT))
    up = linear((0.0, marks[-1]), (_BOTTOM, _TOP))
    return chart(
        ident,
        (_WIDTH, _HEIGHT),
        title,
        _description(points, intervals),
        _band(intervals.band, reach, across),
        grid(marks, up, (_LEFT, _RIGHT), percent),
        *_intervals(reach, across),
        *_lines(ident, points, (across, up), part_href),
        *_pointed(intervals, reach, across),
    )


def _intervals(reach: tuple[float, float], across: Scale) -> list[Markup]:
    inside = [seconds for seconds in _ROUND_S if reach[0] <= seconds <= reach[1]]
    drawn = []
    free_from = 0.0
    for seconds in inside:
        x = across(seconds)
        if x >= free_from:
            drawn.append(label(x, _BOTTOM + 18, _round(seconds), text_anchor="middle"))
            free_from = x + 44
    drawn.append(
        label(
            (_LEFT + _RIGHT) / 2, _BOTTOM + 38, "interval between checkpoints", text_anchor="middle"
        )
    )
    return drawn


def _round(seconds: int) -> str:
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= length and seconds % length == 0:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def _lines(
    ident: str,
    points: Sequence[CurvePoint],
    scales: tuple[Scale, Scale],
    part_href: Callable[[Category], str] | None,
) -> list[Markup]:
    across, up = scales
    frame = element(
        "clipPath",
        element("rect", x=_LEFT, y=_TOP, width=_RIGHT - _LEFT, height=_BOTTOM - _TOP),
        id=f"{ident}-frame",
    )
    courses = (
        ("total waste", BETTER, 2.5, None, [point.wasted for point in points]),
        ("unsaved", _UNSAVED, 1.5, "6 3", [point.unsaved for point in points]),
        ("blocking", _BLOCKING, 1.5, "2 3", [point.blocking for point in points]),
    )
    drawn = [element("defs", frame)]
    ends = _apart([max(up(values[-1]), _TOP + 4) for *_, values in courses])
    for (name, colour, width, dashes, values), end in zip(courses, ends, strict=True):
        places = [
            (across(point.interval_s), up(value))
            for point, value in zip(points, values, strict=True)
        ]
        drawn.append(
            element(
                "path",
                d=path(places),
                fill="none",
                stroke=colour,
                stroke_width=width,
                stroke_dasharray=dashes,
                clip_path=f"url(#{ident}-frame)",
            )
        )
        drawn.append(
            line(
                (_RIGHT + 4, end),
                (_RIGHT + 16, end),
                stroke=colour,
                stroke_width=2,
                stroke_dasharray=dashes,
            )
        )
        href = part_href(_PARTS[name]) if part_href and name in _PARTS else ""
        drawn.append(linked(href, label(_RIGHT + 20, end + 4, name)))
    return drawn


def _apart(ends: Sequence[float]) -> list[float]:
    """Move the labels of the lines' ends down until none covers another."""
    moved = list(ends)
    free_from = 0.0
    for place in sorted(range(len(ends)), key=lambda place: ends[place]):
        moved[place] = max(ends[place], free_from)
        free_from = moved[place] + 15
    return moved


def _band(band: tuple[float, float], reach: tuple[float, float], across: Scale) -> Markup:
    low, high = (min(max(seconds, reach[0]), reach[1]) for seconds in band)
    return element(
        "rect",
        x=across(low),
        y=_TOP,
        width=across(high) - across(low),
        height=_BOTTOM - _TOP,
        fill=BETTER,
        fill_opacity=FAINT,
    )


def _pointed(intervals: Intervals, reach: tuple[float, float], across: Scale) -> list[Markup]:
    drawn = _upright(across(intervals.best), f"best {duration(intervals.best)}", None, 12)
    if intervals.likely is not None:
        low, high = (across(min(max(end, reach[0]), reach[1])) for end in intervals.likely)
        drawn.append(line((low, _BOTTOM), (high, _BOTTOM), stroke=BETTER, stroke_width=5))
    current = intervals.current
    if current is not None and reach[0] <= current <= reach[1]:
        drawn += _upright(across(current), f"now {duration(current)}", "5 4", 28)
    return drawn


def _upright(x: float, text: str, dashes: str | None, top: float) -> list[Markup]:
    return [
        line((x, top + 4), (x, _BOTTOM), stroke_dasharray=dashes),
        label(x + 4, top + 4, text, font_weight="bold"),
    ]


def _description(points: Sequence[CurvePoint], intervals: Intervals) -> str:
    nearest = min(points, key=lambda point: abs(point.interval_s - intervals.best))
    low, high = intervals.band
    sentence = (
        f"A checkpoint every {duration(intervals.best)} wastes least, {percent(nearest.wasted)} of "
        f"the training time. From {duration(low)} to {duration(high)} the waste is almost the same."
    )
    if intervals.current is None:
        return sentence
    return f"{sentence} The present interval is {duration(intervals.current)}."
