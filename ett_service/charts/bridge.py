"""A bridge: which parts lead from one value to another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ett_service.charts.palette import BETTER, COLOURS, WORSE, flat
from ett_service.charts.svg import (
    FAINT,
    Markup,
    Scale,
    chart,
    element,
    label,
    line,
    linear,
    linked,
    shortened,
    ticks,
    time_ticks,
    width_of,
)
from ett_service.charts.units import duration, longer, percent, points
from ett_service.core.words import Category

_WIDTH = 760.0
_ROW = 26.0
_BAR = 16.0
_LABELS = 280.0  # at most
_VALUES = 84.0


@dataclass(frozen=True, slots=True)
class Step:
    """What moved the value, and by how much: of a ratio -0.009 for -0.9 points."""

    name: str
    change: float
    href: str = ""


@dataclass(frozen=True, slots=True)
class Unit:
    """How values and their changes are shown, and which way is better."""

    level: Callable[[float | None], str]
    change: Callable[[float | None], str]
    more_is_better: bool
    ticks: Callable[[float, float], list[float]] = ticks  #: round values between two


RATIO = Unit(percent, points, more_is_better=True)
SHARE = Unit(percent, percent, more_is_better=False)
"""Of the whole of a change, here one for the worse."""
SECONDS = Unit(duration, longer, more_is_better=False, ticks=time_ticks)


def bridge(
    ident: str,
    title: str,
    before: tuple[str, float],
    steps: Sequence[Step],
    after: tuple[str, float],
    *,
    unit: Unit = RATIO,
    target: float | None = None,
) -> Markup:
    """Draw the way from *before* down to *after*, each a name and a value.

    What the steps leave over is drawn as a step of its own, so the bars always meet. A *target*
    is a line across them.
    """
    levels = [before[1], *accumulate((step.change for step in steps), initial=before[1])][1:]
    rest = after[1] - levels[-1]
    if abs(rest) > 1e-9:  # noqa: PLR2004 -- a ten-millionth of a point is rounding
        steps = [*steps, Step("everything else", rest)]
        levels.append(after[1])
    aimed = [] if target is None else [target]
    marks = unit.ticks(min(levels + aimed), max(levels + aimed))
    left = min(_LABELS, max(width_of(step.name) for step in (*steps, Step(before[0], 0)))) + 12
    across = linear((marks[0], marks[-1]), (left, _WIDTH - _VALUES))
    bottom = (len(steps) + 2) * _ROW
    drawn = [
        _grid(marks, across, bottom, unit),
        *(_target(level, across(level), bottom, unit) for level in aimed),
        _end(0, before, (left, across(before[1])), unit),
        *(
            _step(row, step, (across(levels[row - 1]), across(levels[row])), left, unit)
            for row, step in enumerate(steps, 1)
        ),
        _end(len(steps) + 1, after, (left, across(after[1])), unit),
    ]
    description = _description(before, steps, after, unit)
    if target is not None:
        description = f"{description} The target is {unit.level(target)}."
    return chart(ident, (_WIDTH, bottom + (40 if aimed else 26)), title, description, *drawn)


def _grid(marks: Sequence[float], across: Scale, bottom: float, unit: Unit) -> Markup:
    drawn = []
    for mark in marks:
        x = across(mark)
        drawn.append(line((x, 0), (x, bottom), stroke_opacity=FAINT))
        drawn.append(label(x, bottom + 16, unit.level(mark), text_anchor="middle"))
    return element("g", *drawn)


def _target(level: float, x: float, bottom: float, unit: Unit) -> Markup:
    return element(
        "g",
        line((x, 0), (x, bottom + 3), stroke_dasharray="6 4"),
        label(x, bottom + 34, f"target {unit.level(level)}", text_anchor="middle"),
    )


def _end(row: int, value: tuple[str, float], places: tuple[float, float], unit: Unit) -> Markup:
    (name, level), (left, right) = value, places
    colour = COLOURS[Category.HARDWARE_SETUP]
    return element(
        "g",
        _bar(row, (left, right), colour),
        _name(row, name, left, bold=True),
        _value(row, right, unit.level(level), bold=True),
    )


def _step(row: int, step: Step, places: tuple[float, float], left: float, unit: Unit) -> Markup:
    low, high = sorted(places)
    better = (step.change > 0) == unit.more_is_better
    return element(
        "g",
        _bar(row, (low, max(high, low + 1)), BETTER if better else WORSE),
        # From the row above, so that the eye finds where this step begins.
        line((places[0], row * _ROW - 5), (places[0], row * _ROW + 5), stroke_opacity=0.5),
        linked(step.href, _name(row, step.name, left)),
        _value(row, max(high, low + 1), _moved(unit.change(step.change), step.change)),
    )


def _moved(shown: str, change: float) -> str:
    """Put an arrow before a change that is not shown as nothing."""
    if not any(digit in shown for digit in "123456789"):
        return shown
    return f"{'▼' if change < 0 else '▲'} {shown}"


def _bar(row: int, places: tuple[float, float], colour: str) -> Markup:
    low, high = places
    top = row * _ROW + (_ROW - _BAR) / 2
    return element("rect", x=low, y=top, width=high - low, height=_BAR, **flat(colour))


def _name(row: int, name: str, left: float, *, bold: bool = False) -> Markup:
    weight = "bold" if bold else None
    return label(
        left - 8,
        row * _ROW + _ROW / 2 + 4,
        shortened(name, _LABELS),
        text_anchor="end",
        font_weight=weight,
    )


def _value(row: int, right: float, text: str, *, bold: bool = False) -> Markup:
    return label(right + 6, row * _ROW + _ROW / 2 + 4, text, font_weight="bold" if bold else None)


def _description(
    before: tuple[str, float], steps: Sequence[Step], after: tuple[str, float], unit: Unit
) -> str:
    moved = ", ".join(f"{step.name} {unit.change(step.change)}" for step in steps)
    ends = f"{before[0]} {unit.level(before[1])}, {after[0]} {unit.level(after[1])}."
    return f"{ends} Between them: {moved}." if moved else ends
