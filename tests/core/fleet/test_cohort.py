"""Cohorts: sizes in powers of two, and the dimensions of each part of a job."""

import pytest

from ett_service.core.dimensions import DIMENSIONS
from ett_service.core.events import Exclusion
from ett_service.core.fleet.contribution import contribution
from ett_service.core.fleet.owned_time import (
    MOST_ACCELERATORS,
    MOST_WEIGHTED_US,
    Frame,
    is_weighted,
    last_at,
    size_of,
)
from ett_service.core.intervals import HOUR_US
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Outcome, Phase
from tests.core.timeline import SECOND, ended, span, started


@pytest.mark.parametrize(
    ("accelerators", "size"),
    [
        (None, ""),
        (0, ""),
        (1, "1"),
        (2, "2-3"),
        (7, "4-7"),
        (64, "64-127"),
        (127, "64-127"),
        (16_384, "16384-32767"),
        (MOST_ACCELERATORS + 1, ""),
    ],
)
def test_a_size_is_a_power_of_two(accelerators: int | None, size: str) -> None:
    assert size_of(accelerators) == size


def test_time_is_cut_at_full_hours_and_where_an_exclusion_begins_or_ends() -> None:
    ledger = fold([started(0)], {}, 0)
    frame = Frame(ledger, [Exclusion(600, HOUR_US + 5)])

    assert list(frame.cuts(0, HOUR_US + 9)) == [
        (0, 600),
        (600, HOUR_US),
        (HOUR_US, HOUR_US + 5),
        (HOUR_US + 5, HOUR_US + 9),
    ]


def test_implausible_accelerators_leave_the_job_unweighted() -> None:
    frame = Frame(fold([started(0, gpus=MOST_ACCELERATORS + 1)], {}, SECOND))

    assert (frame.known, frame.weights) == (False, [0])


def test_a_job_of_more_accelerator_hours_than_sums_hold_is_unweighted() -> None:
    most_us = MOST_WEIGHTED_US // MOST_ACCELERATORS

    def failed_after(us: int) -> JobLedger:
        whole = [
            started(0, gpus=MOST_ACCELERATORS),
            span(Phase.TRAIN_LOOP, 0, us / SECOND),
            ended(us / SECOND, Outcome.FAILED),
        ]
        return fold(whole, {}, 2 * us)

    def weighs(ledger: JobLedger) -> tuple[bool, int, int]:
        """Return whether it weighs, its unsaved time, and how many jobs ended unweighted."""
        sums = [cell.sums for cell in contribution(ledger).values()]
        unsaved_us = max(cell_sums.get("unsaved_weighted_us", 0) for cell_sums in sums)
        return (
            is_weighted(ledger),
            unsaved_us,
            sum(cell_sums.get("jobs_ended_unweighted", 0) for cell_sums in sums),
        )

    assert weighs(failed_after(most_us)) == (True, most_us * MOST_ACCELERATORS, 0)
    assert weighs(failed_after(most_us + SECOND)) == (False, 0, 1)


def test_the_last_instant_is_the_last_that_belongs_to_the_job() -> None:
    assert last_at(fold([started(0)], {}, 60 * SECOND)) == 60 * SECOND - 1
    assert last_at(fold([], {}, 7)) == 7


def test_the_dimensions_are_all_but_the_exclusion() -> None:
    assert DIMENSIONS[0] == "team"
    assert "excluded" not in DIMENSIONS
