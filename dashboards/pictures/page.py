"""One dashboard as one picture, arranged as its grid is."""

from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import assert_never

from matplotlib.figure import Figure
from PIL import Image

from dashboards.build.kit import Dashboard, Kind, Panel, Row
from dashboards.build.layout import COLUMNS, places
from dashboards.pictures.asking import DashboardViewer
from dashboards.pictures.bars import draw_chart, draw_gauges, draw_numbers, draw_states
from dashboards.pictures.frames import Frame, Line, Table
from dashboards.pictures.lines import draw_heatmap, draw_lines
from dashboards.pictures.rows import draw_table
from dashboards.pictures.spot import FAINT, INK, RULE, TITLE_PT, Spot, fitting

WIDTH_PX = 1400
MOST_BYTES = 150_000

_COLUMN_PX = WIDTH_PX / COLUMNS
_LINE_PX = 36.0
_HEAD_PX = 46.0
_GAP_PX = 6.0
_DPI = 100
_COLOURS = 256


def draw(dashboard: Dashboard, viewer: DashboardViewer) -> Figure:
    """Ask every panel and draw it."""
    laid = list(places(dashboard.rows))
    height = _HEAD_PX + _LINE_PX * max(place.y + place.height for _, place in laid) + _GAP_PX
    figure = Figure(figsize=(WIDTH_PX / _DPI, height / _DPI), dpi=_DPI, facecolor="white")
    whole = Spot(figure, 0, 0, WIDTH_PX, height)
    whole.text(10, 22, viewer.titled(dashboard.title), fontsize=14, fontweight="bold")
    for each, place in laid:
        spot = Spot(
            figure,
            place.x * _COLUMN_PX + _GAP_PX / 2,
            _HEAD_PX + place.y * _LINE_PX,
            place.width * _COLUMN_PX - _GAP_PX,
            place.height * _LINE_PX - _GAP_PX,
        )
        if isinstance(each, Row):
            spot.text(8, spot.height / 2, each.title, fontsize=10.5, fontweight="bold")
        else:
            _draw_panel(spot, each, viewer)
    return figure


def write(figure: Figure, file: Path) -> None:
    """Write a picture in few colours, so that it stays small."""
    drawn = BytesIO()
    figure.savefig(drawn, format="png")
    few = Image.open(drawn).convert("RGB").quantize(_COLOURS, Image.Quantize.MAXCOVERAGE)
    few.save(file, optimize=True)
    if file.stat().st_size > MOST_BYTES:
        raise ValueError(f"{file.name} has {file.stat().st_size:,} bytes, over {MOST_BYTES:,}.")


def _draw_panel(spot: Spot, panel: Panel, viewer: DashboardViewer) -> None:
    spot.box(0, 0, (spot.width, spot.height), "white", edgecolor=RULE)
    title = fitting(viewer.titled(panel.title), (spot.width - 20) / 1.12, TITLE_PT)
    spot.text(10, 15, title, fontsize=TITLE_PT, color=INK, fontweight="bold")
    named = [replace(each, title=viewer.titled(each.title)) for each in panel.fields]
    panel = replace(panel, fields=tuple(named))
    frames = viewer.frames(panel)
    if any(frame.points if isinstance(frame, Line) else frame.rows for frame in frames):
        _draw_kind(spot, panel, frames, viewer)
        return
    words = panel.no_value if panel.may_be_empty else "no data"
    spot.text(spot.width / 2, spot.height / 2 + 6, words, color=FAINT, ha="center", fontsize=12)


def _draw_kind(spot: Spot, panel: Panel, frames: list[Frame], viewer: DashboardViewer) -> None:
    lines = [frame for frame in frames if isinstance(frame, Line)]
    tables = [frame for frame in frames if isinstance(frame, Table)]
    match panel.kind:
        case Kind.TIME_SERIES:
            draw_lines(spot, panel, lines, viewer.range)
        case Kind.HEATMAP:
            draw_heatmap(spot, panel, lines, viewer.range)
        case Kind.STAT | Kind.GAUGE:
            draw_numbers(spot, panel, frames)
        case Kind.BAR_GAUGE:
            draw_gauges(spot, panel, frames)
        case Kind.BAR_CHART:
            draw_chart(spot, panel, tables[0])
        case Kind.TABLE:
            draw_table(spot, panel, tables[0])
        case Kind.STATE_TIMELINE:
            draw_states(spot, panel, tables[0], viewer.range)
        case other:
            assert_never(other)
