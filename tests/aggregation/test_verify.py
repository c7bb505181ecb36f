"""Stored rows are compared with the events, value by value."""

import pytest
from sqlalchemy import Table, delete, update

from ett_service.aggregation.verify import Difference, Verdict, verify
from ett_service.core.ledger.results import FORMULA_VERSION
from ett_service.storage import schema
from ett_service.storage.engine.store import Store
from ett_service.storage.record.dirty_marks import JobKey
from tests.builders.clock import HOUR, MINUTE, NOON
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import progress, restarted_job

CHECKED_AT = NOON + HOUR


@pytest.fixture
def key(store: Store, project_id: int) -> JobKey:
    """Return a job whose ledger is stored."""
    stored = JobKey(project_id, "llm-70b")
    deliver(store, stored, restarted_job())
    refreshed(store, stored, CHECKED_AT)
    return stored


def test_nothing_differs_in_what_the_worker_stored(store: Store, key: JobKey) -> None:
    assert list(verify(store)) == [Verdict(key, pending=False)]


def test_facts_that_wait_for_the_worker_are_no_difference(store: Store, key: JobKey) -> None:
    deliver(store, key, [progress(60, NOON + 7 * MINUTE, attempt=1)])
    assert list(verify(store)) == [Verdict(key, pending=True)]


def test_a_ledger_of_another_formula_waits_for_the_worker(store: Store, key: JobKey) -> None:
    older = update(schema.job_ledger).values(formula_version=FORMULA_VERSION - 1)
    store.write(lambda conn: conn.execute(older))
    assert list(verify(store)) == [Verdict(key, pending=True)]


def test_an_event_that_cannot_be_read_is_named_and_other_jobs_are_verified(
    store: Store, project_id: int, key: JobKey
) -> None:
    others = [JobKey(project_id, name) for name in ("before", "zero")]
    for other in others:
        deliver(store, other, restarted_job())
        refreshed(store, other, CHECKED_AT)
    damaged = update(schema.event).where(schema.event.c.job == key.job).values(body="{")
    store.write(lambda conn: conn.execute(damaged))

    before, found, after = verify(store)

    assert (before, after) == tuple(Verdict(other, pending=False) for other in others)
    (difference,) = found.differences
    assert (difference.key, difference.what) == (key, "event")
    assert f"of job {key.job!r} cannot be read" in str(difference.stored)


def test_a_job_without_a_ledger_is_a_difference(store: Store, project_id: int) -> None:
    bare = JobKey(project_id, "bare")
    deliver(store, bare, restarted_job())
    store.write(lambda conn: conn.execute(delete(schema.dirty)))

    (verdict,) = verify(store)

    assert verdict.differences == (Difference(bare, "job_ledger", "nothing", "a ledger"),)


@pytest.mark.parametrize(
    ("table", "column", "planted"),
    [
        (schema.job_ledger, "failures", 7),
        (schema.job_ledger, "answer", '{"failures": 7}'),
        (schema.job_ledger, "event_count", 1),
        (schema.attempt_ledger, "effective_us", 1),
        (schema.attempt_ledger, "outcome", "completed"),
        (schema.segment, "category", "stalled"),
        (schema.segment, "ended_us", 1),
        (schema.share, "weighted_us", 1),
        (schema.recovery, "us", 1),
        (schema.stage_time, "inclusive_us", 1),
        (schema.checkpoint, "step", 1),
        (schema.contribution, "failures", 7),
        (schema.contribution, "tallies", '{"queue_wait":{"0":[7,0]}}'),
        (schema.counted, "said", '{"failures:infra/host":7}'),
        (schema.counted, "running", 7),
    ],
)
def test_a_planted_difference_is_found(
    store: Store, key: JobKey, table: Table, column: str, planted: object
) -> None:
    store.write(lambda conn: conn.execute(update(table).values({column: planted})))

    (verdict,) = verify(store)

    assert not verdict.pending
    assert verdict.key == key
    tables = {difference.what.split()[0] for difference in verdict.differences}
    assert tables == {table.name}
    named = [difference.what.split()[-1].split(".")[0] for difference in verdict.differences]
    assert column in named


@pytest.mark.parametrize(
    "table",
    [
        schema.attempt_ledger,
        schema.segment,
        schema.share,
        schema.recovery,
        schema.stage_time,
        schema.checkpoint,
        schema.contribution,
        schema.counted,
    ],
)
def test_a_missing_row_is_found(store: Store, key: JobKey, table: Table) -> None:
    store.write(lambda conn: conn.execute(delete(table)))

    (verdict,) = verify(store)

    assert {difference.stored for difference in verdict.differences} == {"nothing"}
    assert {difference.key for difference in verdict.differences} == {key}
