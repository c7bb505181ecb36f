"""Every query in SQL is answered by a real PostgreSQL, and as the API answers it."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from dashboards.build.kit import Dashboard, Format, Panel, VariableKind
from dashboards.build.macros import Chosen
from dashboards.build.postgres import POSTGRES, shared
from dashboards.build.postgres.changes import CHANGES
from dashboards.build.sql import changes, compare, fleet, job
from ett_service.core.intervals import HOUR_US
from ett_service.core.words import Category
from tests.dashboards.loaded_fleet import FROM_US, Answer, LoadedFleet, load_fleet

pytestmark = pytest.mark.xdist_group("fleet in SQL")

SAME = 1e-9
FIELD = re.compile(r"__data\.fields\.(\w+)")
CHOSEN = re.compile(r"\$\{(\w+):sqlstring\}")
HOSTILE = """'; DROP VIEW ett_v_jobs; -- "\\'"""
LONG_AGO_US = 946_684_800_000_000


def panels() -> Iterator[Any]:
    for dashboard in POSTGRES.dashboards:
        for panel in dashboard.panels:
            yield pytest.param(dashboard, panel, id=f"{dashboard.uid} {panel.title}")


def texts(dashboard: Dashboard) -> Iterator[str]:
    """Return every text in SQL that a dashboard has."""
    yield from (query.text for panel in dashboard.panels for query in panel.queries)
    yield from (annotation.query for annotation in dashboard.annotations)
    yield from (
        variable.query for variable in dashboard.variables if variable.kind is VariableKind.QUERY
    )


EVERY_PANEL = pytest.mark.parametrize(("dashboard", "panel"), [*panels()])
EVERY_DASHBOARD = pytest.mark.parametrize(
    "dashboard", [pytest.param(dashboard, id=dashboard.uid) for dashboard in POSTGRES.dashboards]
)


@pytest.fixture(scope="module")
def loaded_fleet(postgres_url: str) -> Iterator[LoadedFleet]:
    """Return a fleet of a week."""
    with load_fleet(postgres_url) as loaded:
        yield loaded


@EVERY_PANEL
def test_a_panel_has_data_where_all_happens_that_can(
    loaded_fleet: LoadedFleet, dashboard: Dashboard, panel: Panel
) -> None:
    for query in panel.queries:
        answer = loaded_fleet.sql(query.text, loaded_fleet.choices(dashboard.uid))
        assert answer.rows
        assert any(value not in (None, 0) for row in answer.rows for value in row[1:] or row)


@EVERY_PANEL
def test_a_panel_names_columns_that_its_query_has(
    loaded_fleet: LoadedFleet, dashboard: Dashboard, panel: Panel
) -> None:
    columns: set[str] = set()
    for query in panel.queries:
        columns |= {*loaded_fleet.sql(query.text, loaded_fleet.choices(dashboard.uid)).columns}
    named = {field.name for field in panel.fields} | ({panel.x_field} if panel.x_field else set())
    links = [*panel.links, *(link for field in panel.fields for link in field.links)]

    assert named <= columns
    assert {name for link in links for name in FIELD.findall(link.url)} <= columns


@EVERY_PANEL
def test_a_series_has_a_column_of_instants_that_only_grow(
    loaded_fleet: LoadedFleet, dashboard: Dashboard, panel: Panel
) -> None:
    for query in panel.queries:
        if query.format is Format.TIME_SERIES:
            times = loaded_fleet.sql(query.text, loaded_fleet.choices(dashboard.uid)).column("time")
            assert all(before <= after for before, after in pairwise(times))


@EVERY_DASHBOARD
def test_a_dashboard_asks_for_its_own_variables_alone(dashboard: Dashboard) -> None:
    declared = {variable.name for variable in dashboard.variables}

    assert {name for text in texts(dashboard) for name in CHOSEN.findall(text)} <= declared


@EVERY_DASHBOARD
def test_what_a_reader_can_choose_is_there(loaded_fleet: LoadedFleet, dashboard: Dashboard) -> None:
    for variable in dashboard.variables:
        if variable.kind is VariableKind.QUERY:
            answer = loaded_fleet.sql(variable.query, loaded_fleet.choices(dashboard.uid))
            assert len(answer.columns) == 1
            assert all(row[0] for row in answer.rows)
            assert answer.rows


@EVERY_DASHBOARD
def test_markers_stand_across_every_dashboard(
    loaded_fleet: LoadedFleet, dashboard: Dashboard
) -> None:
    drawn = {
        annotation.name: loaded_fleet.sql(annotation.query, loaded_fleet.choices(dashboard.uid))
        for annotation in dashboard.annotations
    }

    assert all(answer.columns == ["time", "timeend", "text", "tags"] for answer in drawn.values())
    assert {"deploy", "maintenance"} <= {*drawn["Markers"].column("tags")}


def test_regressions_stand_across_the_dashboards_of_all_jobs(loaded_fleet: LoadedFleet) -> None:
    for annotation in (shared.REGRESSIONS, *CHANGES.annotations[1:]):
        answer = loaded_fleet.sql(annotation.query, loaded_fleet.choices("ett-sql-changes"))

        assert answer.column("text") == ["pt2_compile in alder x 1.65"]
        assert answer.column("tags") == ["firing"]


@EVERY_DASHBOARD
def test_no_question_fails_where_there_is_no_data(
    loaded_fleet: LoadedFleet, dashboard: Dashboard
) -> None:
    chosen = loaded_fleet.choices(dashboard.uid)
    for text in texts(dashboard):
        loaded_fleet.sql(text, chosen, LONG_AGO_US, LONG_AGO_US + 3_600_000_000)


@EVERY_DASHBOARD
def test_a_name_made_to_harm_is_a_name_like_any_other(
    loaded_fleet: LoadedFleet, dashboard: Dashboard
) -> None:
    chosen: dict[str, Chosen] = {
        **dict.fromkeys(loaded_fleet.choices(dashboard.uid), HOSTILE),
        "reach": "14",
    }
    for panel in dashboard.panels:
        for query in panel.queries:
            answer = loaded_fleet.sql(query.text, chosen)
            assert not any(
                isinstance(value, float) and value for row in answer.rows for value in row
            )

    assert loaded_fleet.sql("SELECT COUNT(*) AS jobs FROM ett_v_jobs", {}).rows[0][0] > 0


def only(answer: Answer) -> dict[str, Any]:
    """Return the only row."""
    (row,) = answer.dicts()
    return row


def test_the_fleet_has_the_numbers_of_the_api(loaded_fleet: LoadedFleet) -> None:
    chosen = loaded_fleet.choices("ett-sql-fleet")
    total = loaded_fleet.fleet_api("summary")["total"]
    paid = only(loaded_fleet.sql(fleet.PAID, chosen))
    between = only(loaded_fleet.sql(fleet.BETWEEN_FAILURES, chosen))

    assert only(loaded_fleet.sql(fleet.ETT_NOW, chosen)) == pytest.approx(
        {"ett_ratio": total["ett_ratio"]}, abs=SAME
    )
    assert paid["gpu_hours"] * 3600 == pytest.approx(total["gpu_seconds"], rel=SAME)
    assert between["any_failure"] == pytest.approx(total["mtbf"]["seconds"], rel=SAME)
    assert between["infra_failure"] == pytest.approx(total["infra_mtbf"]["seconds"], rel=SAME)


@pytest.mark.parametrize("dimension", ["team", "model", "cluster", "code_version"])
def test_each_part_of_the_fleet_has_the_ett_of_the_api(
    loaded_fleet: LoadedFleet, dimension: str
) -> None:
    chosen = loaded_fleet.choices("ett-sql-fleet") | {"by": dimension}
    rows = loaded_fleet.sql(fleet.BY_GROUP, chosen).dicts()
    groups = loaded_fleet.fleet_api("summary", group_by=dimension)["groups"]

    assert {row["part"]: row["ett_ratio"] for row in rows} == pytest.approx(
        {group["group"][dimension]: group["ett_ratio"] for group in groups}, abs=SAME
    )


def test_what_is_chosen_narrows_the_fleet(loaded_fleet: LoadedFleet) -> None:
    chosen = loaded_fleet.choices("ett-sql-fleet") | {
        "team": ["recsys", "vision"],
        "cluster": "birch",
    }
    asked_for = ["team:recsys", "team:vision", "cluster:birch"]
    total = loaded_fleet.fleet_api("summary", where=asked_for)["total"]

    assert only(loaded_fleet.sql(fleet.ETT_NOW, chosen))["ett_ratio"] == pytest.approx(
        total["ett_ratio"], abs=SAME
    )


@pytest.fixture
def excluded(loaded_fleet: LoadedFleet) -> Iterator[str]:
    """Take the longest job out of the numbers, and put it back."""
    path = f"/v1/jobs/{loaded_fleet.job}/exclusion"
    assert loaded_fleet.client.put(path, json={"why": "burnt in"}).status_code == 200
    loaded_fleet.settle()
    yield loaded_fleet.job
    assert loaded_fleet.client.delete(path).status_code == 204
    loaded_fleet.settle()


def test_what_was_taken_out_of_the_numbers_is_in_none(
    loaded_fleet: LoadedFleet, excluded: str
) -> None:
    chosen = loaded_fleet.choices("ett-sql-fleet")
    total = loaded_fleet.fleet_api("summary")["total"]
    full_hour_us = FROM_US - FROM_US % HOUR_US
    failures = loaded_fleet.sql(fleet.FAILURES_BY_CAUSE, chosen, full_hour_us).column("failures")

    assert only(loaded_fleet.sql(fleet.ETT_NOW, chosen))["ett_ratio"] == pytest.approx(
        total["ett_ratio"], abs=SAME
    )
    assert sum(failures) == total["failures"]["total"]
    assert excluded not in loaded_fleet.sql(fleet.TOP_JOBS, chosen).column("job")


def test_what_was_lost_is_the_sum_of_the_categories(loaded_fleet: LoadedFleet) -> None:
    chosen = loaded_fleet.choices("ett-sql-fleet")
    parts = loaded_fleet.sql(fleet.LOST_BY_CATEGORY, chosen).column("gpu_hours")

    assert sum(parts) == pytest.approx(
        only(loaded_fleet.sql(fleet.PAID, chosen))["lost_gpu_hours"], rel=SAME
    )


def test_a_job_has_the_numbers_of_the_api(loaded_fleet: LoadedFleet) -> None:
    chosen = loaded_fleet.choices("ett-sql-job")
    answer = loaded_fleet.api(f"/v1/jobs/{loaded_fleet.job}")
    lengths = only(loaded_fleet.sql(job.LENGTHS, chosen))
    spent = loaded_fleet.sql(job.CATEGORIES, chosen)

    assert only(loaded_fleet.sql(job.ETT, chosen))["ett_ratio"] == pytest.approx(
        answer["ett_ratio"]
    )
    assert lengths["e2e"] == answer["e2e_seconds"]
    assert lengths["time_to_start"] == answer["time_to_start_seconds"]
    assert sum(spent.column("seconds")) == pytest.approx(answer["e2e_seconds"], rel=SAME)
    assert sum(spent.column("share")) == pytest.approx(1)


def test_the_timeline_is_the_ledger(loaded_fleet: LoadedFleet) -> None:
    chosen = loaded_fleet.choices("ett-sql-job")
    states = loaded_fleet.sql(job.TIMELINE, chosen, LONG_AGO_US).dicts()
    spent: dict[str, float] = {}
    for row, later in pairwise(states):
        if row["Value"] is not None and row["attempt"] == later["attempt"]:
            seconds = (later["time"] - row["time"]).total_seconds()
            spent[row["Value"]] = spent.get(row["Value"], 0.0) + seconds
    segments = loaded_fleet.sql(job.CATEGORIES, chosen).dicts()

    assert spent == pytest.approx({row["category"]: row["seconds"] for row in segments}, abs=1e-3)


def test_two_sets_of_the_same_runs_do_not_differ(loaded_fleet: LoadedFleet) -> None:
    chosen = loaded_fleet.choices("ett-sql-compare")
    summary = loaded_fleet.sql(compare.SUMMARY, chosen).dicts()
    differences = loaded_fleet.sql(compare.DIFFERENCES, chosen).column("difference")

    assert [row["set"] for row in summary] == ["A", "B"]
    assert summary[0] | {"set": "B"} == pytest.approx(summary[1])
    assert differences == pytest.approx([0] * len(differences))


def test_two_sets_are_what_was_chosen_for_them(loaded_fleet: LoadedFleet) -> None:
    chosen = loaded_fleet.choices("ett-sql-compare") | {
        "a_team": "recsys",
        "b_job": loaded_fleet.job,
    }
    recsys, one_job = loaded_fleet.sql(compare.SUMMARY, chosen).dicts()
    steps = loaded_fleet.sql(compare.TIME_TO_LOOP, chosen)
    (shares, _) = loaded_fleet.sql(compare.SHARES, chosen).dicts()

    assert recsys["jobs"] > one_job["jobs"] == 1
    assert one_job["attempts"] > 1
    assert shares[Category.EFFECTIVE_TRAINING] == pytest.approx(recsys["ett_ratio"])
    assert sum(shares[category] or 0 for category in Category) == pytest.approx(1)
    assert [sum(steps.column(name)) for name in ("a", "b")] == pytest.approx([1, 1])
    assert sum(loaded_fleet.sql(compare.DIFFERENCES, chosen).column("difference")) == pytest.approx(
        0
    )


def test_a_marker_has_the_effects_of_the_api(loaded_fleet: LoadedFleet) -> None:
    rows = loaded_fleet.sql(changes.EFFECTS, loaded_fleet.choices("ett-sql-changes")).dicts()
    expected = loaded_fleet.fleet_api("changes", limit=50)["changes"]

    assert {"deploy", "maintenance"} <= {change["marker"]["kind"] for change in expected}
    assert [row["title"] for row in rows] == [change["marker"]["title"] for change in expected]
    for row, change in zip(rows, expected, strict=True):
        assert effects(row) == pytest.approx(api_effects(change))
        for side in ("before", "after"):
            assert row[f"ett_ratio_{side}"] == pytest.approx(change["ett"][side], abs=SAME)


def effects(row: dict[str, Any]) -> dict[str, float | None]:
    measures = ("ett_ratio", "time_to_start", "blocking")
    return {
        f"{measure} {side}": row[f"{measure}_{side}"]
        for measure in measures
        for side in ("before", "after")
    }


def api_effects(change: dict[str, Any]) -> dict[str, float | None]:
    measured = {effect["measure"]: effect for effect in change["effects"]}
    names = {"time_to_start": "time_to_start", "blocking": "checkpoint_blocking"}
    return {f"ett_ratio {side}": change["ett"][side] for side in ("before", "after")} | {
        f"{name} {side}": measured[kind][side]["mean_seconds"]
        for name, kind in names.items()
        for side in ("before", "after")
    }


def test_the_steps_of_the_time_to_start_are_those_of_the_api(loaded_fleet: LoadedFleet) -> None:
    steps = loaded_fleet.sql(changes.WATERFALL, loaded_fleet.choices("ett-sql-changes"))
    expected = loaded_fleet.fleet_api("changes", limit=50)["waterfall"]
    moved = [step["step_seconds"] for step in expected["steps"] if step["n"]]

    assert len(moved) > 1
    assert steps.column("step") == pytest.approx(moved, abs=1e-5)
    assert sum(steps.column("step")) == pytest.approx(expected["change_seconds"], abs=1e-5)
    assert steps.column("since_the_first")[-1] == pytest.approx(
        expected["change_seconds"], abs=1e-5
    )


@pytest.mark.parametrize(
    ("query", "column"),
    [
        (fleet.ETT_NOW, "start_us"),
        (fleet.ETT_BY_DAY, "start_us"),
        (changes.STARTS_BY_DAY, "started_us"),
        (compare.TIME_TO_LOOP, "started_us"),
        (fleet.FAILURES_BY_CAUSE, "ended_us"),
        (fleet.MARKERS, "at_us"),
        (job.TIMELINE, "job"),
    ],
)
def test_a_question_about_a_range_can_use_an_index(
    loaded_fleet: LoadedFleet, query: str, column: str
) -> None:
    chosen = loaded_fleet.choices("ett-sql-job" if query == job.TIMELINE else "")
    plan = [row[0] for row in loaded_fleet.sql(query, chosen, explain=True).rows]

    assert any("Index Cond" in line and re.search(rf"\b{column}\b", line) for line in plan)
