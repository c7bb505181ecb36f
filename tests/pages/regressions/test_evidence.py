"""Where a finding's change comes from, drawn and as a table that leaves nothing out."""

from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ett_service.pages.ask import Question
from ett_service.pages.regressions.evidence import contributions, suspects

QUESTION = Question("/v1/regressions/f", is_list=False)


def _found(phases: Mapping[str, float], cohorts: Mapping[str, float]) -> dict[str, Any]:
    points = {"within_points": -0.3, "mix_points": None}
    shares = {"phase_shares": phases, "cohort_shares": cohorts}
    return {
        "verdict": "regression",
        "project": "research",
        "cohort": {"cluster": "birch", "model": ""},
        "after": {"from": "2026-03-02T00:00:00Z", "to": "2026-03-09T00:00:00Z"},
        "attribution": shares | points,
    }


def test_a_bar_leads_to_the_jobs_that_made_it() -> None:
    found = _found({"pt2_compile": 0.9}, {"model=a,team=": 0.8, "others": 0.2})
    phases, cohorts = contributions(found, QUESTION)
    since = {"from": ["2026-03-02T00:00:00Z"], "to": ["2026-03-09T00:00:00Z"]}
    wanted = (
        (phases, {"where": ["cluster:birch", "model:"], "category": ["pt2_compile"]}),
        (cohorts, {"where": ["model:a", "team:"]}),
    )
    for panel, asked in wanted:
        assert panel.table is not None
        href = panel.table.rows[0][0].href
        address = urlsplit(href)
        assert (address.path, address.fragment) == ("/", "jobs")
        assert parse_qs(address.query) == since | asked | {"project": ["research"]}
        assert escape(href) in str(panel.chart)
    assert cohorts.table is not None
    assert not cohorts.table.rows[1][0].href, "many others have no condition"


def test_phases_and_cohorts_are_drawn_the_largest_first() -> None:
    found = _found({"launcher_init": 0.1, "pt2_compile": 0.9}, {"model=a": 1.0})
    phases, cohorts = contributions(found, QUESTION)
    assert phases.table is not None
    assert [row[0].text for row in phases.table.rows] == ["pt2_compile", "launcher_init"]
    assert "90.0%" in str(phases.chart)
    assert cohorts.table is not None
    assert [row[0].text for row in cohorts.table.rows] == ["model:a"], "as it is named elsewhere"
    assert cohorts.question is not None
    assert cohorts.question.file == "/data/v1/regressions/f?rows=attribution.cohort_shares"


def test_of_many_the_smallest_are_drawn_as_one() -> None:
    (panel,) = contributions(_found({}, {f"model={n}": 1 / 10 for n in range(10)}), QUESTION)
    assert panel.table is not None
    assert len(panel.table.rows) == 10
    assert "2 others" in str(panel.chart)


def test_shares_of_cohorts_beyond_the_finding_are_said_to_be_of_all() -> None:
    found = _found({}, {"cluster=cedar,model=a": 0.7, "cluster=birch,model=": 0.3})
    (panel,) = contributions(found, QUESTION)
    assert panel.title == "The change over all cohorts"
    assert any("over all cohorts of the project" in text for text in panel.after)
    assert panel.table is not None
    assert [row[0].text for row in panel.table.rows] == [
        "cluster:cedar model:a",
        "* cluster:birch model:(unknown)",
    ]
    inside = _found({}, {"cluster=birch,model=": 1.0})
    (panel,) = contributions(inside, QUESTION)
    assert panel.title == "Where it comes from, by cohort"


def _suspected(dimension: str, value: str) -> str:
    suspect = {"dimension": dimension, "value": value, "explains": 0.9, "attempts": 9}
    found = {
        "project": "research",
        "cohort": {"cluster": "birch"},
        "before": {"from": "2026-03-01T00:00:00Z"},
        "attribution": {
            "suspects": [{**suspect, "first_seen_at": "2026-03-02T00:00:00Z"}],
            "markers": [],
            "as_of": None,
            "onset_at": None,
        },
    }
    panel = suspects(found)
    assert panel.table is not None
    return panel.table.rows[0][0].href


def test_a_suspect_leads_to_its_attempts_beside_the_rest_of_the_cohort() -> None:
    path, _, query = _suspected("code_version", "4.2").partition("?")
    assert path == "/compare"
    assert parse_qs(query) == {
        "base": ["cluster:birch"],
        "with": ["cluster:birch code_version:4.2"],
        "base_from": ["2026-03-01"],
        "with_from": ["2026-03-01"],
        "project": ["research"],
    }


def test_a_suspect_that_no_condition_can_name_leads_nowhere() -> None:
    assert not _suspected("host", "node-7")
    assert not _suspected("code_version", "4 2")


def test_what_is_not_attributed_has_no_panel() -> None:
    assert contributions(_found({}, {}), QUESTION) == []
