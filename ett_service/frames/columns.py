"""Which columns each frame has, and of which type: one list for HTTP and SQL alike."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from ett_service.core.dimensions import JOB_COLUMNS
from ett_service.core.words import Category, Owner

TEXT = "string"
COUNT = "Int64"
SECONDS = "float64"
RATIO = "float64"
FLAG = "boolean"
INSTANT = "datetime64[us, UTC]"

Columns = Mapping[str, str]

JOBS: Columns = {
    **dict.fromkeys(("job", *JOB_COLUMNS), TEXT),
    "gpus": COUNT,
    "state": TEXT,
    "provisional": FLAG,
    "started_at": INSTANT,
    "ended_at": INSTANT,
    "e2e_seconds": SECONDS,
    "queue_wait_seconds": SECONDS,
    "run_count": COUNT,
    "between_runs_seconds": SECONDS,
    "time_to_start_seconds": SECONDS,
    "unsaved_training_seconds": SECONDS,
    "effective_at_reference_seconds": SECONDS,
    "slowed_seconds": SECONDS,
    "ett_ratio": RATIO,
    "wasted_ratio": RATIO,
    "failures": COUNT,
    "infra_failures": COUNT,
}

ATTEMPTS: Columns = {
    "job": TEXT,
    "number": COUNT,
    "launch": TEXT,
    "attempt": COUNT,
    "cycle": COUNT,
    "started_at": INSTANT,
    "ended_at": INSTANT,
    "seconds": SECONDS,
    "effective_training_seconds": SECONDS,
    "unsaved_training_seconds": SECONDS,
    "effective_at_reference_seconds": SECONDS,
    "slowed_seconds": SECONDS,
    "outcome": TEXT,
    "origin": TEXT,
    "cause": TEXT,
    "gpus": COUNT,
    "code_version": TEXT,
    "last_step": COUNT,
}

LEDGER: Columns = {"category": TEXT, "seconds": SECONDS, "ratio": RATIO}

WAITS: Columns = {"part": TEXT, "owner": TEXT, "seconds": SECONDS}

SEGMENTS: Columns = {
    "started_at": INSTANT,
    "ended_at": INSTANT,
    "category": TEXT,
    "period": TEXT,
    "number": COUNT,
    "seconds": SECONDS,
}

MARKERS: Columns = {
    "id": TEXT,
    "at": INSTANT,
    "end_at": INSTANT,
    "kind": TEXT,
    "title": TEXT,
}

REGRESSIONS: Columns = {
    **dict.fromkeys(
        (
            "project",
            "id",
            "fingerprint",
            "metric",
            "phase",
            "stage",
            "cause",
            "cohort",
            "verdict",
            "state",
            "severity",
        ),
        TEXT,
    ),
    "ratio": RATIO,
    "ratio_low": RATIO,
    "ratio_high": RATIO,
    "before_median": SECONDS,
    "before_n": COUNT,
    "after_median": SECONDS,
    "after_n": COUNT,
    "gpu_hours_per_week": SECONDS,
    "ett_points": RATIO,
    "cost_per_week": SECONDS,
    "currency": TEXT,
    "onset_at": INSTANT,
    "pending_at": INSTANT,
    "firing_at": INSTANT,
    "resolved_at": INSTANT,
    "reopened": COUNT,
    "acknowledged_at": INSTANT,
    "acknowledged_by": TEXT,
    "triage": TEXT,
    "triage_at": INSTANT,
    "triage_by": TEXT,
}
"""``cohort`` is a JSON object as text; medians are seconds of metrics that end so."""

ROLLUPS: Columns = {
    "other": FLAG,
    "jobs": COUNT,
    "attempts": COUNT,
    "e2e_seconds": SECONDS,
    "weighted_seconds": SECONDS,
    "gpu_seconds": SECONDS,
    "queue_wait_seconds": SECONDS,
    "between_runs_seconds": SECONDS,
    "effective_at_reference_seconds": SECONDS,
    "effective_at_reference_weighted_seconds": SECONDS,
    "slowed_seconds": SECONDS,
    "slowed_weighted_seconds": SECONDS,
    "speed_unmeasured_seconds": SECONDS,
    "speed_unmeasured_weighted_seconds": SECONDS,
    "data_wait_seconds": SECONDS,
    "data_wait_weighted_seconds": SECONDS,
    "data_wait_loop_seconds": SECONDS,
    "data_wait_loop_weighted_seconds": SECONDS,
    "data_wait_attempts": COUNT,
    "unsaved_training_seconds": SECONDS,
    "ett_ratio": RATIO,
    "ett_ratio_wall": RATIO,
    "wasted_ratio": RATIO,
    "failures": COUNT,
    "infra_failures": COUNT,
    **{f"{category}_seconds": SECONDS for category in Category},
    **{f"{category}_weighted_seconds": SECONDS for category in Category},
    **{f"{owner}_wait_seconds": SECONDS for owner in Owner},
    **{f"{owner}_wait_weighted_seconds": SECONDS for owner in Owner},
    **{f"{owner}_queue_seconds": SECONDS for owner in Owner},
}
"""Behind the start of the step, where there is one, and the dimensions of the grouping."""


def rollup_columns(group_by: Iterable[str], *, over_time: bool) -> Columns:
    """Return the columns of a rollup by these dimensions."""
    start = {"start_at": INSTANT} if over_time else {}
    return {**start, **dict.fromkeys(group_by, TEXT), **ROLLUPS}


def typed(rows: Iterable[Mapping[str, Any]], columns: Columns) -> pd.DataFrame:
    """Make a frame of exactly *columns*; a row may lack some and have others."""
    records = [{name: row.get(name) for name in columns} for row in rows]
    return cast(pd.DataFrame(records, columns=list(columns), dtype=object), columns)


def cast(frame: pd.DataFrame, columns: Columns) -> pd.DataFrame:
    """Return *frame* with exactly *columns*, each of its type."""
    return pd.DataFrame(
        {name: _series(frame[name], dtype) for name, dtype in columns.items()},
        columns=list(columns),
    )


def _series(values: Any, dtype: str) -> Any:
    if dtype == INSTANT:
        # Without the format, one that reads to the second would make those with decimals fail.
        return pd.to_datetime(values, utc=True, format="ISO8601").astype(INSTANT)
    if dtype == FLAG:
        # SQLite says 0 and 1.
        return values.astype("Int64").astype(dtype)
    return values.astype(dtype)
