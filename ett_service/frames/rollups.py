"""Rows of the rollup views, summed by step and group as the server does it."""

from collections.abc import Sequence
from datetime import datetime

import pandas as pd

from ett_service.core.dimensions import GROUPS
from ett_service.core.words import Category, Period
from ett_service.frames import columns
from ett_service.frames.source import FrameError

_STEPS = {"1h": "1h", "1d": "1D", "1w": "7D"}
_SAME = (
    "attempts",
    "e2e_seconds",
    "weighted_seconds",
    "gpu_seconds",
    "queue_wait_seconds",
    "failures",
    "infra_failures",
    *(f"{category}_seconds" for category in Category),
    *(f"{category}_weighted_seconds" for category in Category),
)
_TRAINING = f"{Period.TRAINING}_period_seconds"
_SUMMED = (*_SAME, "jobs", "unsaved_seconds", "wasted_seconds", _TRAINING)


def rolled_up(
    rows: pd.DataFrame,
    *,
    step: str | None,
    group_by: Sequence[str],
    where: Sequence[str],
    first: str,
    window: tuple[datetime, datetime],
) -> pd.DataFrame:
    """Sum *rows* of a rollup view; *first* (``hour`` or ``day``) is how long each covers.

    A job counts in the first row of a bucket that it lives in, and then where it begins.

    Raises:
        FrameError: for an unknown step, dimension or condition.
    """
    _refuse_unknown(step, group_by)
    chosen = _matching(rows, where)
    begin = pd.Timestamp(window[0])
    start = pd.to_datetime(chosen["start_us"], unit="us", utc=True)
    bucket = _bucket(start, step, begin)
    begins = start == bucket.where(bucket > begin, begin)
    counted = chosen[f"jobs_{first}"].where(begins, chosen["jobs_started"])
    keys = pd.DataFrame(
        {
            "start_at": bucket,
            **{name: chosen[name].replace("", None) for name in group_by},
            "other": chosen["other"].astype(bool),
        }
    )
    by = [*(["start_at"] if step else []), *group_by, *(["other"] if group_by else [])]
    summed = pd.concat([keys, chosen.assign(jobs=counted)[list(_SUMMED)]], axis="columns")
    totals = _totals(summed, by)
    if step and not group_by:
        totals = _every_step(totals, step, window)
    return columns.cast(_divided(totals), columns.rollup_columns(group_by, over_time=bool(step)))


def _refuse_unknown(step: str | None, group_by: Sequence[str]) -> None:
    if step is not None and step not in _STEPS:
        raise FrameError(
            f"{step!r} is not a step", f"A step is one of: {', '.join(_STEPS)}, or None."
        )
    for name in group_by:
        if name not in GROUPS:
            raise FrameError(
                f"{name!r} is not a dimension", f"A dimension is one of: {', '.join(GROUPS)}."
            )


def _matching(rows: pd.DataFrame, where: Sequence[str]) -> pd.DataFrame:
    wanted: dict[str, set[str]] = {}
    for condition in where:
        name, colon, value = condition.partition(":")
        if not colon or name not in GROUPS:
            raise FrameError(
                f"{condition!r} is not a condition", "A condition is NAME:VALUE, such as team:a."
            )
        wanted.setdefault(name, set()).add(value)
    if wanted.keys() - {"project"}:
        rows = rows[~rows["other"].astype(bool)]
    for name, values in wanted.items():
        rows = rows[rows[name].isin(values)]
    return rows


def _bucket(
    start: "pd.Series[pd.Timestamp]", step: str | None, begin: pd.Timestamp
) -> "pd.Series[pd.Timestamp]":
    if step is None:
        return pd.Series(begin, index=start.index)
    if step == "1w":
        midnight = start.dt.floor("D")
        return midnight - pd.to_timedelta(midnight.dt.day_of_week, unit="D")
    return start.dt.floor("h" if step == "1h" else "D")


def _totals(summed: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    if by:
        totals = (
            summed.groupby(list(by), dropna=False, sort=True)[list(_SUMMED)].sum().reset_index()
        )
        return totals if "other" in by else totals.assign(other=False)
    return summed[list(_SUMMED)].sum().to_frame().T.assign(other=False)


def _every_step(totals: pd.DataFrame, step: str, window: tuple[datetime, datetime]) -> pd.DataFrame:
    """Return a row for each step of the window, zeros for those without time."""
    edges = pd.Series(list(window))
    begin = _bucket(edges, step, edges[0])[0]
    every = pd.date_range(
        begin, edges[1], freq=pd.Timedelta(_STEPS[step]), inclusive="left", name="start_at"
    )
    numbers = totals.set_index("start_at")[list(_SUMMED)]
    return numbers.reindex(every, fill_value=0).reset_index().assign(other=False)


def _divided(totals: pd.DataFrame) -> pd.DataFrame:
    return totals.assign(
        unsaved_training_seconds=totals["unsaved_seconds"],
        ett_ratio=_ratio(totals, "effective_training_weighted_seconds", "weighted_seconds"),
        ett_ratio_wall=_ratio(totals, "effective_training_seconds", "e2e_seconds"),
        wasted_ratio=_ratio(totals, "wasted_seconds", _TRAINING),
    )


def _ratio(totals: pd.DataFrame, part: str, whole: str) -> "pd.Series[float]":
    return totals[part].div(totals[whole].where(totals[whole] > 0)).fillna(0.0)
