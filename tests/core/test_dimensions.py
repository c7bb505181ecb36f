"""One list of dimensions, and what derives from it."""

from typing import get_args

from ett_service.core.dimensions import (
    DIMENSIONS,
    GROUPS,
    JOB_COLUMNS,
    JOB_DIMENSIONS,
    STATED_DIMENSIONS,
    Dimension,
)
from ett_service.storage.schema import cohort, job_ledger


def test_type_checkers_know_the_dimensions_that_cohorts_have() -> None:
    assert get_args(Dimension) == GROUPS == ("project", *DIMENSIONS)


def test_all_dimensions_but_the_size_are_stated_by_the_job() -> None:
    assert set(DIMENSIONS) - set(STATED_DIMENSIONS) == {"size"}
    assert set(JOB_DIMENSIONS) < set(STATED_DIMENSIONS)


def test_tables_have_a_column_for_each_dimension() -> None:
    assert set(DIMENSIONS) <= set(cohort.c.keys())
    assert set(JOB_COLUMNS) <= set(job_ledger.c.keys())
