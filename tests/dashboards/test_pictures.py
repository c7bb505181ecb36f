"""Images show what the panels' queries answer, as Grafana would arrange it."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from dashboards.build import PACKS
from dashboards.build.kit import Dashboard, Format, Kind, Panel, Query, Row, Source, Transformation
from dashboards.pictures.blocks import levels, openmetrics
from dashboards.pictures.frames import Frame, Line, Table, of_rows, of_samples, transformed
from dashboards.pictures.numbers import shown
from dashboards.pictures.page import MOST_BYTES, WIDTH_PX, draw, write
from dashboards.pictures.past import Page
from tests.builders.servers.grafana import Range
from tests.builders.servers.programs import needed
from tests.builders.servers.prometheus import Sample

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
EVERY = [dashboard for pack in PACKS for dashboard in pack.dashboards]

PAGE = """# HELP ett_failures Attempts that failed.
# TYPE ett_failures counter
ett_failures_total{cluster="a"} %d
ett_failures_created{cluster="a"} 1.0
# TYPE ett_attempts_running gauge
ett_attempts_running{cluster="a \\" # {"} 3 # {attempt_id="1"} 2.0
# EOF
"""


def panel(kind: Kind = Kind.TABLE, *steps: Transformation, **more: Any) -> Panel:
    query = Query("q", "{{cluster}}", format=Format.TABLE)
    return Panel(
        title="A title", description="d", queries=(query,), unit="short", kind=kind,
        transformations=steps, **more,
    )  # fmt: skip


class Looking:
    """Has the same answer to every panel."""

    def __init__(self, *frames: Frame) -> None:
        self.range = Range(0, 86_400)
        self._frames = frames

    def frames(self, _panel: Panel) -> list[Frame]:
        return list(self._frames)

    def titled(self, text: str) -> str:
        return text


@pytest.mark.parametrize("dashboard", EVERY, ids=lambda dashboard: dashboard.uid)
def test_every_dashboard_has_a_picture_that_its_page_shows(dashboard: Dashboard) -> None:
    file = PICTURES / f"{dashboard.uid}.png"
    assert file.stat().st_size <= MOST_BYTES
    with Image.open(file) as image:
        assert image.width == WIDTH_PX
    shown_at = (ROOT / "docs" / "howto" / "dashboards.md").read_text("utf-8")
    assert f"(../pictures/{dashboard.uid}.png)" in shown_at


def test_no_picture_is_left_of_a_dashboard_that_is_gone() -> None:
    pictures = {path.stem for path in PICTURES.iterdir() if not path.stem.startswith("page-")}
    assert pictures == {dashboard.uid for dashboard in EVERY}


def test_pages_become_one_text_that_prometheus_takes(tmp_path: Path) -> None:
    promtool = needed("promtool", "prometheus")
    pages = [Page(at * 10**9, PAGE % at) for at in (1, 2)]
    text = "".join(openmetrics(pages, {"job": "ett"}))
    assert 'ett_failures_total{job="ett",cluster="a"} 2 2000\n' in text
    assert 'up{job="ett"} 1 1000\n' in text
    assert "_created" not in text
    assert "attempt_id" not in text
    (tmp_path / "past.om").write_text(text)
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", "past.om", "blocks"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_rule_comes_after_those_that_it_reads() -> None:
    recorded: set[str] = set()
    names = {rule["record"] for level in levels() for rule in level}
    for level in levels():
        read = {name for rule in level for name in re.findall(r"[\w:]+", rule["expr"])}
        assert read & names <= recorded
        recorded |= {rule["record"] for rule in level}
    assert recorded == names


def test_answers_of_several_queries_become_one_table() -> None:
    query = Query("q", format=Format.TABLE)
    first, second = (
        of_samples(query, [Sample({"cohort": "a"}, [(1.0, value)])], letter)
        for value, letter in ((2.0, " #A"), (3.0, " #B"))
    )
    steps = (
        Transformation("merge", {}),
        Transformation("organize", {"excludeByName": {"Time": True}}),
    )
    (table,) = transformed(panel(Kind.TABLE, *steps), [*first, *second])
    assert isinstance(table, Table)
    assert table.columns == ["cohort", "Value #A", "Value #B"]
    assert [{name: row[name] for name in table.columns} for row in table.rows] == [
        {"cohort": "a", "Value #A": 2.0, "Value #B": 3.0}
    ]


def test_a_column_of_words_becomes_columns() -> None:
    rows = [("this", "a", 1.0), ("this", "b", 2.0), ("last", "a", 3.0)]
    (line,) = of_rows(Query("q", format=Format.TABLE), ["week", "category", "Value"], rows)
    options = {"rowField": "week", "columnField": "category", "valueField": "Value"}
    step = Transformation("groupingToMatrix", options)
    (table,) = transformed(panel(Kind.BAR_CHART, step), [line])
    assert isinstance(table, Table)
    assert table.columns == ["week\\category", "a", "b"]
    assert [row.get("b") for row in table.rows] == [2.0, None]


def test_rows_of_one_name_become_one_series() -> None:
    rows = [(1.0, "a", 10.0), (1.0, "b", 20.0), (2.0, "a", 30.0)]
    series = of_rows(Query("q"), ["time", "metric", "value"], rows)
    assert series == [Line("a", [(1.0, 10.0), (2.0, 30.0)]), Line("b", [(1.0, 20.0)])]


@pytest.mark.parametrize(
    ("value", "unit", "decimals", "words"),
    [
        (0.9012, "percentunit", None, "90.1%"),
        (0.9012, "percentunit", 2, "90.12%"),
        (486, "s", None, "8m 06s"),
        (1.5, "h", None, "1h 30m"),
        (12_345.6, "short", 0, "12.3 K"),
        (12, "short", None, "12"),
        (2048.0, "bytes", None, "2.05 kB"),
        (0.0, "dateTimeAsIso", None, "Jan 01 00:00"),
        (None, "short", None, "-"),
        (float("nan"), "s", None, "-"),
        ("network", "short", None, "network"),
    ],
)
def test_values_are_written_in_their_units(
    value: Any, unit: str, decimals: int | None, words: str
) -> None:
    assert shown(value, unit, decimals) == words


LINES = [Line("1.0", [(0, 1.0), (3600, 2.0)]), Line("+Inf", [(0, 3.0), (3600, 4.0)])]
ROWS = [
    {"time": 0.0, "attempt": "1", "Value": "stalled", "n": 1.0},
    {"time": 60.0, "attempt": "1", "Value": None, "n": 2.0},
]
STATES = Table(["time", "attempt", "Value"], ROWS)
NUMBERS = Table(["attempt", "n"], ROWS)


@pytest.mark.parametrize(
    ("kind", "frames"),
    [
        (Kind.TIME_SERIES, LINES),
        (Kind.HEATMAP, LINES),
        (Kind.STAT, LINES),
        (Kind.GAUGE, [NUMBERS]),
        (Kind.BAR_GAUGE, LINES),
        (Kind.BAR_CHART, [NUMBERS]),
        (Kind.TABLE, [NUMBERS]),
        (Kind.STATE_TIMELINE, [STATES]),
    ],
)
def test_every_kind_of_panel_is_drawn(kind: Kind, frames: Sequence[Frame], tmp_path: Path) -> None:
    inked = [
        _inked(_drawn(panel(kind, x_field="attempt"), answer, tmp_path))
        for answer in (frames, [Line("none", [])])
    ]
    assert inked[0] > inked[1]


def _drawn(shown_panel: Panel, frames: Sequence[Frame], folder: Path) -> Path:
    dashboard = Dashboard(
        uid="u", title="t", description="d", source=Source.PROMETHEUS,
        rows=(Row("r", (shown_panel,)),), variables=(),
    )  # fmt: skip
    file = folder / "u.png"
    write(draw(dashboard, Looking(*frames)), file)
    return file


def _inked(file: Path) -> int:
    with Image.open(file) as image:
        return sum(
            count
            for count, colour in image.convert("RGB").getcolors(1 << 24) or []
            if colour != (255, 255, 255)
        )
