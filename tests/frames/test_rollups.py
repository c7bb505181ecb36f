from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest

from ett_service.core.dimensions import DIMENSIONS
from ett_service.core.words import Category, Owner
from ett_service.frames.source import FrameError
from ett_service.frames.sql import rolled_up

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
WEEK = (MONDAY, MONDAY + timedelta(days=7))
COUNTED = ("attempts", "failures", "infra_failures", "jobs_started", "queue_wait_seconds",
           "between_runs_seconds", "effective_at_reference_seconds", "slowed_seconds",
           "effective_at_reference_weighted_seconds", "slowed_weighted_seconds",
           "speed_unmeasured_seconds", "speed_unmeasured_weighted_seconds", "data_wait_seconds",
           "data_wait_weighted_seconds", "data_wait_loop_seconds",
           "data_wait_loop_weighted_seconds", "data_wait_attempts")  # fmt: skip

WAITED = tuple(
    f"{owner}_{name}_seconds" for owner in Owner for name in ("wait", "wait_weighted", "queue")
)


def day(
    number: int, team: str = "a", *, began: int = 0, lived: int = 1, **seconds: float
) -> dict[str, object]:
    """Build a row of the daily view."""
    at = MONDAY + timedelta(days=number)
    spent = {f"{category}_seconds": 0.0 for category in Category} | {
        f"{name}_seconds": value for name, value in seconds.items()
    }
    weighted = {
        name.replace("_seconds", "_weighted_seconds"): 8 * value for name, value in spent.items()
    }
    return {
        "project": "research",
        **dict.fromkeys(DIMENSIONS, ""),
        "team": team,
        "start_us": int(at.timestamp()) * 1_000_000,
        "other": 0,
        **dict.fromkeys(COUNTED, 0),
        **dict.fromkeys(WAITED, 0.0),
        "jobs_first": lived,
        "jobs_started": began,
        "e2e_seconds": sum(spent.values()),
        "weighted_seconds": sum(weighted.values()),
        "gpu_seconds": sum(weighted.values()),
        "unsaved_seconds": 0.0,
        "wasted_seconds": 0.0,
        "training_period_seconds": spent["effective_training_seconds"],
        **spent,
        **weighted,
    }


def rolled(rows: list[dict[str, object]], **query: object) -> pd.DataFrame:
    """Sum *rows* over the week, in one step and without groups unless asked otherwise."""
    given = {"step": None, "group_by": (), "where": (), "window": WEEK, **query}
    return rolled_up(pd.DataFrame(rows), **given)  # type: ignore[arg-type]


def test_a_job_that_lives_for_days_is_counted_once() -> None:
    rows = [day(0, began=1), day(1), day(2, began=1, lived=2)]
    assert rolled(rows)["jobs"].tolist() == [2]
    assert rolled(rows, step="1d")["jobs"].tolist() == [1, 1, 2, 0, 0, 0, 0]
    assert rolled(rows, step="1w")["jobs"].tolist() == [2]


def test_a_job_that_began_before_the_window_is_counted_in_its_first_bucket() -> None:
    rows = [day(3), day(4)]
    window = (MONDAY + timedelta(days=3), WEEK[1])
    assert rolled(rows, window=window)["jobs"].tolist() == [1]
    assert rolled(rows, window=window, step="1w")["jobs"].tolist() == [1]


def test_ratios_are_of_the_sums_and_not_means_of_ratios() -> None:
    rows = [
        day(0, effective_training=90.0, pt2_compile=10.0),
        day(1, effective_training=1.0, stalled=9.0),
    ]
    assert rolled(rows)["ett_ratio"].tolist() == [91 / 110]


def test_a_week_begins_on_monday() -> None:
    rows = [day(-1), day(0), day(6)]
    window = (MONDAY - timedelta(days=7), WEEK[1])
    starts = rolled(rows, step="1w", window=window)["start_at"].tolist()
    assert starts == [pd.Timestamp(MONDAY - timedelta(days=7)), pd.Timestamp(MONDAY)]


def test_groups_are_apart_and_conditions_leave_rows_out() -> None:
    rows = [day(0, "a", stalled=1.0), day(0, "b", stalled=2.0), day(0, "", stalled=4.0)]
    by_team = rolled(rows, group_by=("team",))
    assert by_team["stalled_seconds"].sum() == 7.0
    assert by_team["team"].isna().sum() == 1
    some = rolled(rows, where=("team:a", "team:"))
    assert some["stalled_seconds"].tolist() == [5.0]


def test_a_condition_leaves_out_what_is_put_together() -> None:
    rows = [day(0, "", stalled=1.0), {**day(0, "", stalled=2.0), "other": 1}]
    assert rolled(rows)["stalled_seconds"].tolist() == [3.0]
    assert rolled(rows, where=("team:",))["stalled_seconds"].tolist() == [1.0]
    assert rolled(rows, where=("project:research",))["stalled_seconds"].tolist() == [3.0]


def test_no_time_is_zeros_and_never_a_quotient() -> None:
    empty = rolled_up(
        pd.DataFrame([day(0)]).iloc[:0],
        step=None, group_by=(), where=(), window=WEEK,
    )  # fmt: skip
    assert empty["jobs"].tolist() == [0]
    assert empty["ett_ratio"].tolist() == [0.0]


@pytest.mark.parametrize(
    "query", [{"step": "2d"}, {"group_by": ("colour",)}, {"where": ("team",)}, {"where": ("x:1",)}]
)
def test_what_does_not_exist_is_refused(query: dict[str, object]) -> None:
    with pytest.raises(FrameError):
        rolled([day(0)], **query)
