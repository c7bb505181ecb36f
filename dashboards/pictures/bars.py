"""Values beside each other: numbers, bars, and states over time."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator

from dashboards.build.kit import Panel, Stack
from dashboards.pictures.frames import Frame, Line, Table
from dashboards.pictures.lines import MARGINS, mark_instants
from dashboards.pictures.numbers import shown
from dashboards.pictures.spot import (
    FAINT,
    POINT_PX,
    RULE,
    Spot,
    colours_of,
    field_of,
    fitting,
    threshold_colour,
    title_of,
    width_of,
)
from tests.builders.servers.grafana import Range

NamedValue = tuple[str, float | None]
"""A name and a value."""

_TALLEST_PT = 24.0
_NAMES_PX = 130.0
_BESIDE_NAMES = (112.0, 20.0, 36.0, 58.0)


def latest(frames: Sequence[Frame]) -> list[NamedValue]:
    """Return the last value of each series, or each number of a table."""
    values: list[NamedValue] = []
    for frame in frames:
        if isinstance(frame, Line):
            values.append((frame.name, frame.points[-1][1] if frame.points else None))
        else:
            numbers = [name for name in frame.columns if frame.is_number(name)]
            values += [
                (name, row[name]) for row in frame.rows for name in numbers if name != "Time"
            ]
    return values


def draw_numbers(spot: Spot, panel: Panel, frames: Sequence[Frame]) -> None:
    """Draw each value large, beside each other."""
    values = latest(frames)
    room = spot.width / max(len(values), 1)
    for place, (name, value) in enumerate(values):
        field = field_of(panel, name)
        words = shown(value, field.unit or panel.unit, _first(field.decimals, panel.decimals))
        fits = (room - 16) / (0.78 * POINT_PX * max(len(words), 1))
        size = min(_TALLEST_PT, fits, (spot.height - 60) / POINT_PX)
        middle, height = room * (place + 0.5), (spot.height + 26) / 2
        style = {"ha": "center", "fontsize": size, "fontweight": "bold"}
        spot.text(middle, height, words, color=threshold_colour(panel, value), **style)
        if panel.named or len(values) > 1:
            short = fitting(title_of(panel, name), room - 10)
            spot.text(middle, height + size * 0.75 + 12, short, color=FAINT, ha="center")


def draw_gauges(spot: Spot, panel: Panel, frames: Sequence[Frame]) -> None:
    """Draw each value as a bar, with its name and its number."""
    values = [(name, value) for name, value in latest(frames) if value is not None]
    if panel.horizontal:
        _draw_named_bars(spot, panel, values)
    else:
        _draw_columns(spot, panel, values)


def draw_chart(spot: Spot, panel: Panel, table: Table) -> None:
    """Draw the numbers of each row as bars, on each other or beside each other."""
    numbers = [name for name in table.columns if name != panel.x_field and table.is_number(name)]
    numbers = [name for name in numbers if not field_of(panel, name).hidden]
    rows = [{name: row.get(name) or 0.0 for name in numbers} for row in table.rows]
    names = [str(row[panel.x_field]) for row in table.rows]
    if panel.horizontal and len(numbers) == 1:
        (number,) = numbers
        _draw_named_bars(spot, panel, [*zip(names, (row[number] for row in rows), strict=True)])
        return
    colours = colours_of(panel, numbers)
    _draw_groups(spot, panel, names, {name: [row[name] for row in rows] for name in numbers})
    spot.legend([(title_of(panel, name), colours[name]) for name in numbers])


def draw_states(spot: Spot, panel: Panel, table: Table, span: Range) -> None:
    """Draw what each row of the timeline was in, from one change to the next."""
    at, who, state = table.columns[:3]
    parts = list(dict.fromkeys(str(row[who]) for row in table.rows))
    colours = colours_of(panel, dict.fromkeys(str(row[state]) for row in table.rows if row[state]))
    axes = spot.axes(_BESIDE_NAMES)
    for place, part in enumerate(parts):
        rows = [row for row in table.rows if str(row[who]) == part]
        ends = [*(row[at] for row in rows[1:]), span.end_s]
        for row, end in zip(rows, ends, strict=True):
            if row[state]:
                begun = row[at]
                axes.barh(place, end - begun, 0.8, begun, color=colours[str(row[state])])
    axes.set_yticks(range(len(parts)), parts)
    axes.invert_yaxis()
    states = [row[at] for row in table.rows]
    mark_instants(axes, Range(min(states), max(states)))
    spot.legend(list(colours.items()))


def _draw_named_bars(spot: Spot, panel: Panel, bars: Sequence[NamedValue]) -> None:
    most = max((value or 0 for _, value in bars), default=0) or 1
    line = min(24.0, (spot.height - 46) / max(len(bars), 1))
    colours = colours_of(panel, (name for name, _ in bars))
    names_px = min(_NAMES_PX, spot.width / 3)
    for place, (name, value) in enumerate(bars):
        y = 42 + line * (place + 0.5)
        words = shown(value, panel.unit, panel.decimals)
        room = spot.width - names_px - width_of(words) - 40
        spot.text(names_px + 4, y, fitting(title_of(panel, name), names_px - 6), ha="right")
        length = max((value or 0) / most * room, 1)
        spot.box(names_px + 10, y - line * 0.36, (length, line * 0.72), colours[name])
        spot.text(names_px + 16 + length, y, words, color=FAINT)


def _draw_columns(spot: Spot, panel: Panel, bars: Sequence[NamedValue]) -> None:
    axes = spot.axes((MARGINS[0], MARGINS[1], MARGINS[2], 30))
    axes.bar(
        range(len(bars)), [value or 0 for _, value in bars], 0.8, color=_bar_colours(panel, bars)
    )
    widest = max(width_of(name) for name, _ in bars) + 8
    every = max(1, ceil(len(bars) * widest / (spot.width - MARGINS[0])))
    axes.set_xticks(range(0, len(bars), every), [name for name, _ in bars][::every])
    _numbers(axes, panel.unit)


def _bar_colours(panel: Panel, bars: Sequence[NamedValue]) -> list[str]:
    colours = colours_of(panel, [name for name, _ in bars])
    if panel.paint or panel.value_colours:
        painted = [colours[name] for name, _ in bars]
        if any(name in panel.value_colours for name, _ in bars):
            return painted
    return [next(iter(colours.values()), FAINT)] * len(bars)


def _draw_groups(
    spot: Spot, panel: Panel, names: Sequence[str], series: Mapping[str, Sequence[float]]
) -> None:
    axes = spot.axes(_BESIDE_NAMES if panel.horizontal else MARGINS)
    heights = np.array([list(values) for values in series.values()], dtype=float)
    if panel.stack is Stack.PERCENT and heights.size:
        heights = heights / np.maximum(heights.sum(axis=0), 1e-12)
    places, below = np.arange(len(names)), np.zeros(len(names))
    colours, stacked = colours_of(panel, series), panel.stack is not Stack.NONE
    width = 0.7 if stacked else 0.8 / max(len(series), 1)
    draw = axes.barh if panel.horizontal else axes.bar
    for at, (name, values) in enumerate(zip(series, heights, strict=True)):
        shift = 0.0 if stacked else (at - (len(series) - 1) / 2) * width
        draw(places + shift, values, width, below if stacked else 0, color=colours[name])
        below = below + values
    unit = "percentunit" if panel.stack is Stack.PERCENT else panel.unit
    room = 90 if panel.horizontal else (spot.width - MARGINS[0]) / max(len(names), 1)
    short = [fitting(name, room) for name in names]
    if panel.horizontal:
        axes.set_yticks(places, short)
        axes.invert_yaxis()
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value, unit)))
    else:
        axes.set_xticks(places, short)
        _numbers(axes, unit)


def _numbers(axes: Any, unit: str) -> None:
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value, unit)))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
