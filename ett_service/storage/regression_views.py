"""The view of the regressions: a row a finding, with how much, since when and at what cost."""

from typing import Any

from sqlalchemy import ColumnElement, Integer, Select, case, cast, select

from ett_service.core.interval import SECOND_US
from ett_service.core.regression import Metric
from ett_service.storage.tables import project, regression
from ett_service.storage.view_words import divided, instants, number, of_project, seconds, told

_DIMENSIONS = ("team", "model", "cluster", "hardware", "kind")
_OF_SUBJECT = ("metric", "phase", "stage", "cause")
_IN_US = [metric.value for metric in Metric if metric.value.endswith("_seconds")]


def regressions() -> Select[*tuple[Any, ...]]:
    """Return what the view selects."""
    columns = regression.c
    return select(
        project.c.name.label("project"),
        *(columns[name] for name in ("id", "fingerprint", *_OF_SUBJECT, "cohort")),
        *(told(columns.cohort, name).label(name) for name in _DIMENSIONS),
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
        seconds(columns.firing_us - columns.onset_us).label("detect_seconds"),
        seconds(columns.acknowledged_us - columns.firing_us).label("acknowledge_seconds"),
        seconds(columns.resolved_us - columns.firing_us).label("resolve_seconds"),
    ).join_from(regression, project, of_project(regression))


def _effect() -> list[ColumnElement[Any]]:
    finding = regression.c.finding
    sides = [
        column
        for side in ("before", "after")
        for column in (
            _in_its_unit(number(finding, side, "median")).label(f"{side}_median"),
            cast(told(finding, side, "n"), Integer).label(f"{side}_n"),
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
        told(finding, "impact", "currency").label("currency"),
    ]


def _suspect() -> list[ColumnElement[Any]]:
    first = (regression.c.attribution, "suspects", 0)
    return [
        told(*first, "dimension").label("suspect_dimension"),
        told(*first, "value").label("suspect_value"),
        number(*first, "explains").label("suspect_explains"),
    ]
