"""Tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from dashboards.build.colours import PHASE_COLOURS
from dashboards.build.kit import Paint, Panel
from dashboards.pictures.frames import Table
from dashboards.pictures.numbers import shown
from dashboards.pictures.spot import FAINT, RULE, Spot, field_of, fitting, title_of, width_of

_LINE_PX = 21.0
_HEAD_PX = 44.0
_WIDEST_PX = 330.0
_GAP_PX = 14.0


def draw_table(spot: Spot, panel: Panel, table: Table) -> None:
    """Draw as many rows as there is room for."""
    columns = [name for name in table.columns if not field_of(panel, name).hidden]
    rows = _sorted(panel, table)[: int((spot.height - _HEAD_PX - 6) / _LINE_PX)]
    cells = {name: [_cell(panel, name, row.get(name)) for row in rows] for name in columns}
    widths = _widths(spot, panel, cells)
    x = 14.0
    for name in columns:
        right = table.is_number(name)
        anchor = x + widths[name] - _GAP_PX if right else x
        side = "right" if right else "left"
        room = widths[name] - _GAP_PX / 2
        head = fitting(title_of(panel, name), room)
        spot.text(anchor, _HEAD_PX - 6, head, color=FAINT, ha=side, fontweight="bold")
        for place, words in enumerate(cells[name]):
            y = _HEAD_PX + _LINE_PX * (place + 0.5)
            colour = _colour(panel, rows[place].get(name))
            if colour:
                spot.box(x, y - 5, (9, 10), colour)
            spot.text(anchor + (13 if colour else 0), y, fitting(words, room), ha=side)
        x += widths[name]
    for place in range(len(rows) + 1):
        spot.box(14, _HEAD_PX + _LINE_PX * place, (spot.width - 28, 0.6), RULE)


def _sorted(panel: Panel, table: Table) -> list[Mapping[str, Any]]:
    rows = list(table.rows)
    for name in table.columns:
        if panel.sort_by and title_of(panel, name) == panel.sort_by:
            filled = [row for row in rows if row.get(name) is not None]
            none = [row for row in rows if row.get(name) is None]
            return [*sorted(filled, key=lambda row: row[name], reverse=True), *none]
    return rows


def _cell(panel: Panel, name: str, value: Any) -> str:
    field = field_of(panel, name)
    decimals = panel.decimals if field.decimals is None else field.decimals
    return shown(value, field.unit or panel.unit, decimals)


def _colour(panel: Panel, value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    painted = PHASE_COLOURS.get(value) if panel.paint is Paint.VALUES else None
    return panel.value_colours.get(value) or painted


def _widths(spot: Spot, panel: Panel, cells: Mapping[str, Sequence[str]]) -> dict[str, float]:
    widths = {
        name: min(
            max(width_of(words) for words in (title_of(panel, name), *texts)) + 13 + _GAP_PX,
            _WIDEST_PX,
        )
        for name, texts in cells.items()
    }
    room, whole = spot.width - 28, sum(widths.values()) or 1
    return {name: width * room / whole for name, width in widths.items()}
