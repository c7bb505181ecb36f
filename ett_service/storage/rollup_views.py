"""The views of the rollups: parts of sums by cohort, in seconds, and no ratios."""

from typing import Any

from sqlalchemy import ColumnElement, Label, Select, select

from ett_service.core.cohort import DIMENSIONS
from ett_service.core.totals import MEASURES, PLAIN, WEIGHTED
from ett_service.core.vocabulary import Category
from ett_service.storage.tables import cohort, project
from ett_service.storage.view_words import flag, instants, of_project, seconds


def rollup(rows: Any) -> Select[*tuple[Any, ...]]:
    """Return what the view of one grain of the rollups selects."""
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
    )


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
