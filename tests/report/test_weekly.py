import re
from collections.abc import Iterator
from contextlib import closing
from xml.etree import ElementTree as ET

import pytest
from starlette.testclient import TestClient

from ett_service.report.document import Report, html, markdown
from ett_service.report.weekly import weekly
from ett_service.storage.engine.store import open_store
from tests.builders.databases.engines import new_database
from tests.report.golden import FOLDER, WRITERS, gathered, report, serving


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)]
)
def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TestClient]:
    """Return a client of a service filled with four weeks; the report reads its API alone."""
    with (
        new_database(request, tmp_path_factory.mktemp("report")) as url,
        closing(open_store(url)) as store,
        serving(store) as client,
    ):
        yield client


def test_the_report_of_known_events_is_known_to_the_byte(client: TestClient) -> None:
    summary = report(client)
    for name, write in WRITERS.items():
        assert write(summary) == (FOLDER / name).read_text("utf-8"), "see tests/report/golden.py"
    _matches_the_story(summary)
    _is_one_small_file(html(summary))


def _matches_the_story(summary: Report) -> None:
    """Compare with what the story says, worked out by hand."""
    sections = {section.title: section for section in summary.sections}
    rows = {row[0]: row for row in _rows(summary, "Where the time went")}
    # Three jobs of 64 accelerators; two of them start, and compile for 40 minutes, twice.
    # Three of 8 compile for 10.
    compiled_hours = (5 * 40 * 64 + 3 * 10 * 8) / 60
    assert rows["pt2_compile"][3] == f"{compiled_hours:.0f}"
    # Saves block each for 5 of its 600 minutes, and a restart repeats half an hour, which is not
    # effective when it is done again.
    effective_hours = (600 - 5) * (64 + 8) * 3 / 60
    assert rows["effective_training"][3] == f"{effective_hours:,.0f}"
    assert rows["repeated_training"][3] == f"{2 * 30 * 64 / 60:.1f}"
    assert _rows(summary, "Failures by cause")[0][:2] == ("infra: gpu_hardware", "2")
    assert "pt2_compile in llm-70b explains" in summary.sentence
    # Each of 600 steps waits for 3 s; a failed attempt reports 330 steps, the next one 300.
    waited = 3 * ((600 + 2 * 630) * 64 + 3 * 600 * 8)
    looped = 60 * ((595 + 2 * (327.5 + 297.5)) * 64 + 3 * 595 * 8)
    rows = {row[0]: row for row in _rows(summary, "Headline, by accelerators")}
    (share,) = (row[1] for name, row in rows.items() if name.startswith("loops waiting"))
    assert share == f"{100 * waited / looped:.1f}% (n=9)"
    assert sections["Markers of the week"].table is not None
    # That of one model is part of what all lost together.
    assert [row[-3:] for row in _rows(summary, "Regressions by cause")] == [
        ("80.0", "USD 200", "2")
    ]
    one_by_one = _rows(summary, "Regressions one by one")
    assert [row[4] for row in one_by_one] == ["80.0", "64.0"]


def _rows(summary: Report, title: str) -> tuple[tuple[str, ...], ...]:
    (table,) = [section.table for section in summary.sections if section.title == title]
    assert table is not None
    return table.rows


def _is_one_small_file(written: str) -> None:
    assert len(written.encode()) < 1_000_000
    assert not re.search(r"<script|<link|src=", written)
    charts = re.findall(r"<svg.*?</svg>", written, re.DOTALL)
    assert len(charts) >= 5
    identities = [element.get("id") for chart in charts for element in ET.fromstring(chart).iter()]  # noqa: S314 -- our own text
    named = [identity for identity in identities if identity]
    assert len(set(named)) == len(named)
    assert "trainer 4.2 <b>" not in written


def test_a_week_without_jobs_is_one_sentence(client: TestClient) -> None:
    summary = weekly(gathered(client, "2025-W30"))
    assert summary.ett_ratio is None
    assert "No job ran in week 2025-W30." in markdown(summary)
    assert "nan" not in html(summary).lower()


def test_a_week_after_none_has_nothing_to_compare_with(client: TestClient) -> None:
    summary = weekly(gathered(client, "2026-W05"))
    assert "vs last week" not in summary.sentence
    assert "There is no second week to compare with." in markdown(summary)


def test_a_part_of_the_fleet_is_reported_alone(client: TestClient) -> None:
    summary = weekly(gathered(client, where=["model:vision|v2"]))
    assert {row[0] for row in _rows(summary, "Most GPU-hours lost, by model")} == {"vision|v2"}
    assert "vision\\|v2" in markdown(summary)


def test_jobs_of_unknown_accelerators_are_counted_and_weigh_nothing(client: TestClient) -> None:
    summary = weekly(gathered(client, where=["model:probe"]))
    assert summary.sentence == "ETT 93.7% by wall time: no job reports its accelerators."
    assert summary.ett_ratio is None
    rests = {row[0]: row[1] for row in _rows(summary, "Data quality")}
    assert rests["jobs with unknown accelerators, in no weighted number"] == "1"
    assert "nan" not in html(summary).lower()


@pytest.mark.parametrize("scope", ["read", "fleet"])
def test_a_key_that_may_read_may_have_the_report(client: TestClient, scope: str) -> None:
    answer = client.post("/v1/keys", json={"project": "research", "name": "x", "scopes": [scope]})
    headers = {"Authorization": f"Bearer {answer.json()['key']}"}
    everything = client.headers["Authorization"]
    try:
        client.headers.update(headers)
        assert report(client).sentence == weekly(gathered(client, project="research")).sentence
    finally:
        client.headers["Authorization"] = everything
