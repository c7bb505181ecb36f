"""Regressions as anybody may read them, and the query by which Grafana draws them."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.regressions.finding import Attribution, Metric, SeriesCohort, Subject
from ett_service.storage.engine.store import Store
from ett_service.storage.regressions import regressions
from ett_service.storage.regressions.findings import Act
from ett_service.storage.schema import detection_run
from tests.builders.clock import NOON
from tests.builders.regressions.stored import ONSET, finding, fires, searched
from tests.storage.viewed import instant, read

OTHER: SeriesCohort = (("cluster", "a"), ("model", "rare"))
PAGE = Path(__file__).parents[3] / "docs" / "views.md"


def rows(store: Store) -> list[dict[str, Any]]:
    return read(store, "SELECT * FROM ett_v_regressions ORDER BY id")


def test_a_regression_stands_with_its_numbers_and_its_cohort(
    store: Store, dialect: str, project_id: int
) -> None:
    searched(store, project_id, ONSET - DAY_US)
    (ident,) = fires(store, project_id, finding(), at_us=ONSET + 3 * DAY_US)
    act = Act("ett_k", "", ONSET + 3 * DAY_US + HOUR_US)
    store.write(lambda conn: regressions.acknowledge(conn, project_id, ident, act))

    (row,) = rows(store)

    assert (row["project"], row["id"], row["state"]) == ("research", ident, "firing")
    assert (row["metric"], row["phase"], row["stage"]) == ("phase_seconds", "pt2_compile", "")
    assert (row["cluster"], row["model"], row["team"]) == ("a", "llm-70b", None)
    assert (row["before_median"], row["after_median"]) == (486.0, 804.0)
    assert (row["before_n"], row["after_n"]) == (140, 68)
    assert (row["ratio"], row["ratio_low"], row["ratio_high"]) == (1.65, 1.48, 1.84)
    assert (row["gpu_hours_per_week"], row["ett_points"], row["currency"]) == (212.0, -0.6, "USD")
    assert (row["suspect_dimension"], row["suspect_value"]) == ("image", "trainer:2.14")
    assert row["suspect_explains"] == 0.97
    assert row["onset_at"] == instant(ONSET, dialect)
    assert (row["detect_seconds"], row["acknowledge_seconds"]) == (3 * 86_400.0, 3600.0)
    assert (row["resolved_at"], row["resolve_seconds"], row["triage"]) == (None, None, None)


def test_response_times_are_those_of_the_service_where_the_first_search_came_late(
    store: Store, project_id: int
) -> None:
    """A first search fires as of past days: nobody could have told of them then."""
    fired_us, stored_us = ONSET + 3 * DAY_US, ONSET + 9 * DAY_US
    (ident,) = fires(store, project_id, finding(), at_us=fired_us)
    store.write(lambda conn: conn.execute(update(detection_run).values(made_us=stored_us)))
    act = Act("ett_k", "", stored_us + HOUR_US)
    store.write(lambda conn: regressions.acknowledge(conn, project_id, ident, act))

    (row,) = rows(store)

    assert (row["detect_seconds"], row["acknowledge_seconds"]) == (None, 3600.0)


@pytest.mark.parametrize(
    ("metric", "shown"), [(Metric.ETT_RATIO, 486e6), (Metric.TIME_TO_START_SECONDS, 486.0)]
)
def test_only_durations_are_turned_into_seconds(
    store: Store, project_id: int, metric: Metric, shown: float
) -> None:
    searched(store, project_id, NOON, finding(Subject(metric), ()))
    (row,) = rows(store)
    assert (row["before_median"], row["cohort"], row["cluster"]) == (shown, "{}", None)


def test_what_is_not_known_is_null(store: Store, project_id: int) -> None:
    endless = replace(finding(gpu_hours=None), ratio=math.inf, high=math.inf)
    searched(store, project_id, NOON, endless, attribution=Attribution({}, {}))
    (row,) = rows(store)
    assert (row["gpu_hours_per_week"], row["ratio"], row["ratio_high"]) == (None, None, None)
    assert (row["suspect_dimension"], row["suspect_explains"]) == (None, None)


def test_the_annotations_of_the_page_run(store: Store, project_id: int) -> None:
    quiet = replace(finding(), holds=False)
    fires(store, project_id, finding(), at_us=NOON - 5 * DAY_US)
    for days in (4, 3):
        searched(store, project_id, NOON - days * DAY_US, quiet)
    fires(store, project_id, finding(cohort=OTHER), at_us=NOON)
    searched(store, project_id, NOON + DAY_US, finding(cohort=()))
    (query,) = re.findall(
        r"^```sql\n(SELECT onset_at.*?)```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )

    def drawn(from_us: int) -> list[str]:
        bounded = query.replace("$__unixEpochNanoFrom()", str(from_us * 1000))
        rows = read(store, bounded.replace("$__unixEpochNanoTo()", str((NOON + DAY_US) * 1000)))
        assert {row["text"] for row in rows} <= {"x 1.65"}
        return sorted(f"{row['title']}: {row['tags']}" for row in rows)

    fires_now, is_over = "pt2_compile in rare: firing,high", "pt2_compile in llm-70b: resolved,high"
    assert drawn(NOON) == [fires_now]
    assert drawn(NOON - 4 * DAY_US) == [is_over, fires_now]
