"""The largest jobs of a window are those of all jobs, found among a few."""

import random

import pytest

from ett_service.core.events import AttemptEnded, AttemptStarted, JobFacts, PhaseStarted
from ett_service.core.fleet.measures import WEIGHTED
from ett_service.core.words import Category, Outcome, Phase
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet.job_sums import time_in
from ett_service.storage.fleet.largest_jobs import held_loss, largest, largest_losses
from ett_service.storage.fleet.rollups import CohortFilter
from ett_service.storage.record.dirty_marks import JobKey
from tests.builders.clock import HOUR, MINUTE, NOON
from tests.builders.databases.statements import recorded_statements
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import event

LOST = [category for category in Category if category is not Category.EFFECTIVE_TRAINING]
AMOUNTS = [
    time_in(categories, WEIGHTED)
    for categories in (LOST, [Category.PT2_COMPILE], [Category.RECOMPILE])
]
JOBS = 60


@pytest.fixture
def many_jobs(store: Store, project_id: int) -> Store:
    """Return a store of jobs that begin each hour and live for up to two days; many are alike."""
    drawn = random.Random(20261217)
    for number in range(JOBS):
        began = NOON + number * HOUR + drawn.randrange(2) * 7 * MINUTE
        compiles = began + drawn.choice([1, 5, 90]) * MINUTE
        starts = compiles + drawn.choice([3, 9, 9, 40]) * MINUTE
        ends = starts + drawn.choice([20, 20, 100, 2900]) * MINUTE
        facts = {"team": drawn.choice("ab")}
        if number % 7:
            facts["hardware"] = "h200"
        key = JobKey(project_id, f"job-{drawn.randrange(10**6)}")
        deliver(
            store,
            key,
            [
                event(JobFacts, began, **facts),
                event(AttemptStarted, began, gpus=None if number % 13 == 5 else 8),
                event(PhaseStarted, began, phase=Phase.LAUNCHER_INIT),
                event(PhaseStarted, compiles, phase=Phase.PT2_COMPILE),
                event(PhaseStarted, starts, phase=Phase.TRAIN_LOOP),
                event(AttemptEnded, ends, outcome=Outcome.FAILED),
            ],
        )
        refreshed(store, key, NOON + 100 * HOUR)
    return store


@pytest.mark.parametrize("hours", [(0, 90), (20, 50), (40, 50), (0, 3), (30, 32)])
@pytest.mark.parametrize("limit", [1, 3, 100])
def test_the_jobs_that_lost_most_are_those_of_all_jobs(
    many_jobs: Store, project_id: int, hours: tuple[int, int], limit: int
) -> None:
    window = (NOON + hours[0] * HOUR, NOON + hours[1] * HOUR)
    of_one_team = {"team": frozenset("a")}
    with many_jobs.reading() as conn:
        for wanted in (CohortFilter(), CohortFilter((project_id,), of_one_team), CohortFilter(())):
            for amount in (*AMOUNTS, held_loss()):
                question = (conn, wanted, window, amount, limit)
                assert largest_losses(*question) == largest(*question)


def test_the_jobs_that_lost_most_are_found_among_a_few(many_jobs: Store) -> None:
    with many_jobs.reading() as conn, recorded_statements(conn) as statements:
        window = (NOON, NOON + 90 * HOUR)
        keys = largest_losses(conn, CohortFilter(), window, held_loss(), 3)

    assert len(keys) == 3
    (summed,) = (statement for statement in statements if "FROM contribution" in statement)
    assert "contribution.job IN" in summed
