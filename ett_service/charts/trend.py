"""A value over time, with its target."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ett_service.charts.palette import BETTER, COLOURS, flat
from ett_service.charts.svg import (
    Markup,
    Scale,
    chart,
    element,
    grid,
    label,
    line,
    linear,
    linked,
    path,
    ticks,
    width_of,
    words,
)
from ett_service.charts.units import percent
from ett_service.core.words import Category

_WIDTH, _HEIGHT = 760.0, 240.0
_TOP, _BOTTOM = 32.0, 200.0
_LEFT, _RIGHT = 60.0, 656.0
_LINE = 15.0
_NAMES = (_TOP - 6, _TOP - 19)  #: where the names of events stand


@dataclass(frozen=True, slots=True)
class Point:
    """A value at a place in time; None where there was nothing to measure."""

    name: str
    value: float | None
    href: str = ""
    part: str = ""  #: of a step that is not whole: ``so far`` or ``in part``

    def in_words(self, shown: Callable[[float | None], str]) -> str:
        """Show the value, and whether it is of a whole step."""
        return f"{shown(self.value)} {self.part}" if self.part else shown(self.value)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at the point of this index, or between two: 1.5."""

    place: float
    name: str
    href: str = ""
    tooltip: str = ""


def trend(
    ident: str,
    title: str,
    points: Sequence[Point],
    *,
    target: float | None = None,
    events: Sequence[Event] = (),
    shown: Callable[[float | None], str] = percent,
) -> Markup:
    """Draw *points* from left to right; the line is broken where a value is missing.

    What is partial is hollow and at the end of a dashed line.

    The axis covers what is there and the target, so it does not begin at 0.
    """
    values = [point.value for point in points if point.value is not None]
    covered = values if target is None else [*values, target]
    marks = ticks(min(covered, default=0.0), max(covered, default=1.0))
    across = linear((0, max(len(points) - 1, 1)), (_LEFT, _RIGHT))
    up = linear((marks[0], marks[-1]), (_BOTTOM, _TOP))
    return chart(
        ident,
        (_WIDTH, _HEIGHT),
        title,
        _description(points, target, shown),
        grid(marks, up, (_LEFT, _RIGHT), shown),
        *_events(events, across),
        *_names(points, across),
        *_curve(points, across, up, shown),
        *_in_part(points, across, up),
        *_labels(points, target, across, up, shown),
    )


def _names(points: Sequence[Point], across: Scale) -> list[Markup]:
    widest = max((width_of(point.name) for point in points), default=0.0)
    each = (_RIGHT - _LEFT) / max(len(points) - 1, 1)
    every = max(1, -(-int(widest + 12) // max(int(each), 1)))
    # Counted from the newest, which is the one that people look for.
    chosen = range(len(points) - 1, -1, -every)
    return [
        label(across(place), _BOTTOM + 20, points[place].name, text_anchor="middle")
        for place in reversed(chosen)
    ]


def _stretches(points: Sequence[Point]) -> list[list[tuple[int, float]]]:
    stretches: list[list[tuple[int, float]]] = [[]]
    for place, point in enumerate(points):
        if point.value is None:
            stretches.append([])
        else:
            stretches[-1].append((place, point.value))
    return [stretch for stretch in stretches if stretch]


def _curve(
    points: Sequence[Point], across: Scale, up: Scale, shown: Callable[[float | None], str]
) -> list[Markup]:
    drawn = []
    last = None
    for stretch in _stretches(points):
        places = [(across(place), up(value)) for place, value in stretch]
        partial = [bool(points[index].part) for index, _ in stretch]
        for is_dashed, part in _parts(places, partial):
            dashes = "4 4" if is_dashed else None
            drawn.append(
                element(
                    "path",
                    d=path(part),
                    fill="none",
                    stroke=BETTER,
                    stroke_width=2,
                    stroke_dasharray=dashes,
                )
            )
        drawn += [
            linked(points[index].href, _dot(place, 3, points[index], shown), is_stop=False)
            for (index, _), place in zip(stretch, places, strict=True)
        ]
        last = None if points[stretch[-1][0]].part else places[-1]
    if last is not None:
        drawn.append(element("circle", cx=last[0], cy=last[1], r=4, **flat(BETTER)))
    return drawn


def _parts(
    places: Sequence[tuple[float, float]], partial: Sequence[bool]
) -> list[tuple[bool, Sequence[tuple[float, float]]]]:
    """Cut a line where it begins or ends to be dashed, beside what is partial."""
    dashed = [before or after for before, after in pairwise(partial)]
    if not dashed:
        return [(False, places)]
    cuts = [0, *(place for place, (a, b) in enumerate(pairwise(dashed), 1) if a != b), len(dashed)]
    return [(dashed[begin], places[begin : end + 1]) for begin, end in pairwise(cuts)]


def _dot(
    place: tuple[float, float], radius: float, point: Point, shown: Callable[[float | None], str]
) -> Markup:
    tooltip = element("title", words(f"{point.name}: {point.in_words(shown)}"))
    if point.part:
        return element(
            "circle",
            tooltip,
            cx=place[0],
            cy=place[1],
            r=radius + 1,
            fill="none",
            stroke=BETTER,
            stroke_width=2,
            pointer_events="all",
        )
    return element("circle", tooltip, cx=place[0], cy=place[1], r=radius, **flat(BETTER))


def _in_part(points: Sequence[Point], across: Scale, up: Scale) -> list[Markup]:
    """Say beside the first value that it is of a part of its step, lest it be read as a fall."""
    if not points or points[0].value is None or not points[0].part or len(points) == 1:
        return []
    place = (across(0) + 9, up(points[0].value) + 4)
    return [label(*place, points[0].part, class_="ett-over")]


def _labels(
    points: Sequence[Point],
    target: float | None,
    across: Scale,
    up: Scale,
    shown: Callable[[float | None], str],
) -> list[Markup]:
    """Name the newest value and the target beside their ends, neither over the other."""
    valued = [(place, point.value) for place, point in enumerate(points) if point.value is not None]
    if not valued:
        return [label((_LEFT + _RIGHT) / 2, _TOP + 20, "no data", text_anchor="middle")]
    place, value = valued[-1]
    newest = points[place].in_words(shown)
    drawn = [label(across(place) + 9, up(value) + 4, newest, font_weight="bold")]
    if target is not None:
        y = up(target) + 4
        apart = y - (up(value) + 4)
        if abs(apart) < _LINE:
            y += (_LINE if apart > 0 else -_LINE) - apart
        drawn.append(line((_LEFT, up(target)), (_RIGHT, up(target)), stroke_dasharray="6 4"))
        drawn.append(label(_RIGHT + 9, y, f"target {shown(target)}"))
    return drawn


def _events(events: Sequence[Event], across: Scale) -> list[Markup]:
    """Draw what happened: names in two lines, one behind another where they would cover it."""
    ends = [0.0, 0.0]
    drawn = []
    for event in sorted(events, key=lambda event: event.place):
        x, width = across(event.place), width_of(event.name)
        is_beyond = x > (_LEFT + _RIGHT) / 2
        wanted = x - 3 - width if is_beyond else x + 3
        row = min((0, 1), key=lambda row: max(wanted, ends[row]))
        start = max(wanted, ends[row])
        ends[row] = start + width + 3
        anchored = {"text_anchor": "end"} if is_beyond else {}
        place = start + width if is_beyond else start
        name = label(place, _NAMES[row], event.name, **anchored)
        drawn.append(_event(event, x, name))
    return drawn


def _event(event: Event, x: float, name: Markup) -> Markup:
    colour = COLOURS[Category.RESTART_WAIT]
    drawn = element(
        "g",
        element("title", words(event.tooltip or event.name)),
        line((x, _TOP - 6), (x, _BOTTOM), stroke=colour, stroke_dasharray="2 3"),
        name,
    )
    return linked(event.href, drawn)


def _description(
    points: Sequence[Point], target: float | None, shown: Callable[[float | None], str]
) -> str:
    valued = [point for point in points if point.value is not None]
    if not valued:
        return "There are no values."
    first, newest = valued[0], valued[-1]
    values = [point.value for point in valued if point.value is not None]
    sentence = (
        f"{len(valued)} values: {first.in_words(shown)} at {first.name}, "
        f"{newest.in_words(shown)} at {newest.name}, "
        f"lowest {shown(min(values))}, highest {shown(max(values))}."
    )
    return sentence if target is None else f"{sentence} The target is {shown(target)}."
