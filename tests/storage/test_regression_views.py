"""Regressions as anybody may read them, and the query by which Grafana draws them."""

import re
from pathlib import Path
from typing import Any

import pytest

from ett_service.core.interval import DAY_US, HOUR_US
from ett_service.core.regression import Metric, Subject
from ett_service.storage.engine import Store
from tests.builders import NOON
from tests.regressions import ONSET, finding, keep
from tests.storage.viewed import instant, read

PAGE = Path(__file__).parents[2] / "docs" / "views.md"


def rows(store: Store) -> list[dict[str, Any]]:
    return read(store, "SELECT * FROM ett_v_regressions ORDER BY id")


def test_a_regression_stands_with_its_numbers_and_its_cohort(
    store: Store, dialect: str, project_id: int
) -> None:
    keep(store, project_id, "a", finding(), firing_us=ONSET + 3 * DAY_US,
         acknowledged_us=ONSET + 3 * DAY_US + HOUR_US, acknowledged_by="ett_k")  # fmt: skip
    (row,) = rows(store)

    assert (row["project"], row["id"], row["state"]) == ("research", "a", "firing")
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


@pytest.mark.parametrize(
    ("metric", "shown"),
    [(Metric.ETT_RATIO, 486e6), (Metric.TIME_TO_START_SECONDS, 486.0)],
)
def test_only_durations_are_turned_into_seconds(
    store: Store, project_id: int, metric: Metric, shown: float
) -> None:
    keep(store, project_id, "a", finding(Subject(metric), ()))
    (row,) = rows(store)
    assert (row["before_median"], row["cohort"], row["cluster"]) == (shown, "{}", None)


def test_what_is_not_known_is_null(store: Store, project_id: int) -> None:
    keep(store, project_id, "a", finding(gpu_hours=None), attributed=False)
    (row,) = rows(store)
    assert row["gpu_hours_per_week"] is None
    assert (row["suspect_dimension"], row["suspect_explains"]) == (None, None)


def test_the_annotations_of_the_page_run(store: Store, project_id: int) -> None:
    for name, resolved_us in (("open", None), ("over", NOON), ("before", ONSET + DAY_US)):
        keep(store, project_id, name, finding(), firing_us=ONSET, resolved_us=resolved_us)
    keep(store, project_id, "pending", finding())
    (query,) = re.findall(
        r"^```sql\n(SELECT onset_at.*?)```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    for macro, us in (("From", NOON - DAY_US), ("To", NOON + DAY_US)):
        query = query.replace(f"$__unixEpochNano{macro}()", str(us * 1000))

    found = read(store, query)

    assert [row["title"] for row in found] == ["pt2_compile in llm-70b"] * 2
    assert {row["text"] for row in found} == {"x 1.65"}
    assert {row["tags"] for row in found} == {"firing,high", "resolved,high"}
