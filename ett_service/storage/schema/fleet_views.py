"""The views of rollups and regressions."""

from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Integer, Label, Select, case, cast, func, select

from ett_service.core.dimensions import DIMENSIONS, JOB_DIMENSIONS
from ett_service.core.fleet.measures import MEASURES, PLAIN, WEIGHTED
from ett_service.core.intervals import SECOND_US
from ett_service.core.regressions.finding import Metric
from ett_service.core.words import Category
from ett_service.storage.schema import cohort, project, regression, rollup_hourly, store
from ett_service.storage.schema.alerting import SEARCHED_US, WRITTEN_US
from ett_service.storage.schema.record import EVERY_HOUR, HOURLY_FROM
from ett_service.storage.schema.view_expressions import (
    divided,
    flag,
    instants,
    json_member,
    number,
    of_project,
    seconds,
)

_HOURLY_FROM_US: ColumnElement[int] = (
    select(func.max(cast(store.c.value, BigInteger)))
    .where(store.c.name == HOURLY_FROM)
    .scalar_subquery()
)
"""Null before any hours were pruned."""


def rollup(rows: Any) -> Select[*tuple[Any, ...]]:
    """Return what the view of one grain of the rollups selects."""
    kept = (
        ()
        if rows is not rollup_hourly
        else (rows.c.start_us >= func.coalesce(_HOURLY_FROM_US, EVERY_HOUR),)
    )
    wall = [seconds(rows.c[PLAIN.categories[category]]) for category in Category]
    weighted = [seconds(rows.c[WEIGHTED.categories[category]]) for category in Category]
    return (
        select(
            project.c.name.label("project"),
            *instants(rows.c.start_us, "start"),
            *(cohort.c[dimension] for dimension in DIMENSIONS),
            flag(cohort.c.excluded).label("excluded"),
            flag(cohort.c.other).label("other"),
            _sum(wall).label("e2e_seconds"),
            _sum(weighted).label("weighted_seconds"),
            _sum([_gpu_seconds(rows, category) for category in Category]).label("gpu_seconds"),
            *(_measure(rows, name) for name in MEASURES if name != "cells"),
        )
        .join_from(rows, cohort, cohort.c.id == rows.c.cohort_id)
        .join(project, of_project(rows))
        .where(*kept)
    )


def retention() -> Select[*tuple[Any, ...]]:
    """Return what the view of what was pruned selects: one row."""
    return select(*instants(_HOURLY_FROM_US, "hourly_from"))


def _gpu_seconds(rows: Any, category: Category) -> ColumnElement[float]:
    match category:
        case Category.SCHEDULING:
            return seconds(rows.c.scheduling_weighted_us) * 0
        case Category.RESTART_WAIT:
            return seconds(rows.c.restart_wait_gpu_us)
        case _:
            return seconds(rows.c[WEIGHTED.categories[category]])


def _sum(parts: list[ColumnElement[float]]) -> ColumnElement[float]:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _measure(rows: Any, name: str) -> Label[Any] | ColumnElement[Any]:
    if not name.endswith("_us"):
        column: ColumnElement[Any] = rows.c[name]
        return column
    return seconds(rows.c[name]).label(f"{name.removesuffix('_us')}_seconds")


_OF_SUBJECT = ("metric", "phase", "stage", "cause")
_IN_US = [metric.value for metric in Metric if metric.value.endswith("_seconds")]


def regressions() -> Select[*tuple[Any, ...]]:
    """Return what the view selects."""
    columns = regression.c
    return select(
        project.c.name.label("project"),
        *(columns[name] for name in ("id", "fingerprint", *_OF_SUBJECT, "cohort")),
        *(json_member(columns.cohort, name).label(name) for name in JOB_DIMENSIONS),
        *(columns[name] for name in ("verdict", "state", "severity")),
        *_effect(),
        *_impact(),
        *_suspect(),
        *instants(columns.onset_us, "onset"),
        *instants(columns.pending_us, "pending"),
        *instants(columns.firing_us, "firing"),
        *instants(columns.resolved_us, "resolved"),
        columns.reopened,
        *instants(columns.last_run_us, "last_run"),
        *instants(columns.acknowledged_us, "acknowledged"),
        *(columns[name] for name in ("acknowledged_by", "triage", "triage_by")),
        *instants(columns.triage_us, "triage"),
        *_response_times(),
    ).join_from(regression, project, of_project(regression))


def _response_times() -> list[Label[Any]]:
    """Return what ``core.regressions.clocks`` says of a finding that fires."""
    columns = regression.c
    told_us = func.coalesce(WRITTEN_US.element, columns.firing_us)
    begin_us = case((told_us > columns.firing_us, told_us), else_=columns.firing_us)
    is_before = columns.onset_us < SEARCHED_US.element
    return [
        case((is_before, None), else_=seconds(columns.firing_us - columns.onset_us)).label(
            "detect_seconds"
        ),
        seconds(columns.acknowledged_us - begin_us).label("acknowledge_seconds"),
        seconds(columns.resolved_us - begin_us).label("resolve_seconds"),
    ]


def _effect() -> list[ColumnElement[Any]]:
    finding = regression.c.finding
    sides = [
        column
        for side in ("before", "after")
        for column in (
            _in_its_unit(number(finding, side, "median")).label(f"{side}_median"),
            cast(json_member(finding, side, "n"), Integer).label(f"{side}_n"),
        )
    ]
    return [
        number(finding, "ratio").label("ratio"),
        number(finding, "low").label("ratio_low"),
        number(finding, "high").label("ratio_high"),
        *sides,
    ]


def _in_its_unit(value: ColumnElement[float]) -> ColumnElement[float]:
    """Turn durations into seconds, and leave rates and ratios as they are."""
    is_duration = regression.c.metric.in_(_IN_US)
    return divided(value, case((is_duration, float(SECOND_US)), else_=1.0))


def _impact() -> list[ColumnElement[Any]]:
    finding = regression.c.finding
    numbers = ("gpu_hours_per_week", "ett_points", "cost_per_week")
    return [
        *(number(finding, "impact", name).label(name) for name in numbers),
        json_member(finding, "impact", "currency").label("currency"),
    ]


def _suspect() -> list[ColumnElement[Any]]:
    first = (regression.c.attribution, "suspects", 0)
    return [
        json_member(*first, "dimension").label("suspect_dimension"),
        json_member(*first, "value").label("suspect_value"),
        number(*first, "explains").label("suspect_explains"),
    ]
