"""Series over time: lines, stacks of bars and heatmaps."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from math import nan
from statistics import median
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from dashboards.build.kit import Panel, Stack
from dashboards.pictures.frames import Line
from dashboards.pictures.numbers import shown
from dashboards.pictures.spot import RULE, Spot, colours_of, field_of, title_of
from tests.builders.servers.grafana import Range

MARGINS = (62.0, 14.0, 36.0, 58.0)

_DAY_S = 86_400
_GAP = 3  #: usual steps, over which no line is drawn


def draw_lines(spot: Spot, panel: Panel, lines: Sequence[Line], span: Range) -> None:
    """Draw each series as a line, or all of them on each other."""
    axes = spot.axes(MARGINS)
    colours = colours_of(panel, (each.name for each in lines))
    if panel.stack is Stack.NONE:
        for line in lines:
            _draw_line(axes, panel, line, colours[line.name])
        _fill_bands(axes, panel, lines)
    else:
        _draw_stack(axes, panel, lines, colours)
    _scales(axes, panel, lines, span)
    named = [(title_of(panel, each.name), colours[each.name]) for each in lines]
    spot.legend(list(dict.fromkeys(named)))


def draw_heatmap(spot: Spot, panel: Panel, lines: Sequence[Line], span: Range) -> None:
    """Draw how many values lie between two bounds, by time."""
    axes = spot.axes(MARGINS)
    at = sorted({instant for each in lines for instant, _ in each.points})
    if not at:
        return
    counts = np.array([[dict(each.points).get(instant, 0.0) for instant in at] for each in lines])
    edges = [*at, at[-1] + (at[-1] - at[-2] if len(at) > 1 else 1)]
    shades = np.ma.masked_less_equal(counts, 0)
    axes.pcolormesh(edges, range(len(lines) + 1), shades, cmap="Blues", vmin=-counts.max() / 4)
    named = [shown(float(each.name), panel.unit) if each.name != "+Inf" else "∞" for each in lines]
    every = max(1, len(named) // 6)
    axes.set_yticks(range(1, len(named) + 1, every), named[::every])
    mark_instants(axes, span)


def _draw_line(axes: Axes, panel: Panel, line: Line, colour: str) -> None:
    style = "--" if field_of(panel, line.name).dashed else "-"
    marker = "." if len(line.points) < 2 else ""  # noqa: PLR2004 -- a line needs two points
    axes.plot(*_xy(line), style, color=colour, linewidth=1.2, marker=marker)


def _fill_bands(axes: Axes, panel: Panel, lines: Sequence[Line]) -> None:
    by_name = {each.name: dict(each.points) for each in lines}
    for line in lines:
        lower = by_name.get(field_of(panel, line.name).fill_down_to)
        if lower is not None:
            both = [(at, lower[at], value) for at, value in line.points if at in lower]
            at, low, high = zip(*both, strict=True)
            axes.fill_between(at, low, high, color=RULE, alpha=0.6, linewidth=0)


def _draw_stack(axes: Axes, panel: Panel, lines: Sequence[Line], colours: Any) -> None:
    at = sorted({instant for each in lines for instant, _ in each.points})
    width = min((after - before for before, after in pairwise(at)), default=_DAY_S)
    heights = np.array([[dict(each.points).get(instant, 0.0) for instant in at] for each in lines])
    heights = np.nan_to_num(heights)
    if panel.stack is Stack.PERCENT:
        heights = heights / np.maximum(heights.sum(axis=0), 1e-12)
    below = np.zeros(len(at))
    for line, values in zip(lines, heights, strict=True):
        axes.bar(at, values, width * 0.92, below, color=colours[line.name], linewidth=0)
        below = below + values


def _scales(axes: Axes, panel: Panel, lines: Sequence[Line], span: Range) -> None:
    unit = "percentunit" if panel.stack is Stack.PERCENT else panel.unit
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value, unit)))
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=panel.decimals == 0))
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    if any(each.points for each in lines):
        low, high = axes.get_ylim()
        top = panel.high if panel.high is not None and panel.stack is Stack.NONE else high
        axes.set_ylim(panel.low if panel.low is not None else low, max(top, low + 1e-9))
    mark_instants(axes, span)


def mark_instants(axes: Axes, span: Range) -> None:
    """Mark days or hours along the lower edge."""
    axes.set_xlim(span.start_s, span.end_s)
    long = span.end_s - span.start_s > _DAY_S
    step = _DAY_S * max(1, round((span.end_s - span.start_s) / _DAY_S / 6)) if long else 3600
    first = span.start_s - span.start_s % step + step
    ticks = np.arange(first, span.end_s, step)
    form = "%b %d" if long else "%H:%M"
    axes.set_xticks(ticks, [f"{datetime.fromtimestamp(at, UTC):{form}}" for at in ticks])


def _xy(line: Line) -> tuple[list[float], list[float]]:
    """Return instants and values, with a gap where points are missing."""
    points = list(line.points)
    step = median([after[0] - before[0] for before, after in pairwise(points)] or [0.0])
    at, values = [each[0] for each in points[:1]], [each[1] for each in points[:1]]
    for before, after in pairwise(points):
        if after[0] - before[0] > _GAP * step:
            at.append(before[0] + step)
            values.append(nan)
        at.append(after[0])
        values.append(after[1])
    return at, values
