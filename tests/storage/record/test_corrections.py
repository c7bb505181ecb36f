"""Corrections are only ever added, name who made them, and reach the ledger and the rollups."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from sqlalchemy import Connection, func, select

from ett_service.core.events import AttemptEnded, AttemptStarted, Event, Exclusion, PhaseStarted
from ett_service.core.fleet.totals import Totals
from ett_service.core.ledger.attempt_results import AttemptKey, FailureVerdict
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Cause, Origin, Outcome, Phase
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import rollups
from ett_service.storage.fleet.rollups import CohortFilter
from ett_service.storage.record import corrections
from ett_service.storage.record.corrections import NoFailure, NothingThere
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.events import corrections_of
from ett_service.storage.record.keys import PREFIX_LENGTH, create_key
from ett_service.storage.schema import correction
from ett_service.storage.schema.record import EXCLUSION, VERDICT
from tests.builders.clock import HOUR, MINUTE, NOON, RECEIVED_AT, SECOND
from tests.builders.ledgers import deliver, marked, refreshed, stored
from tests.builders.record import event, progress

LATER = RECEIVED_AT + HOUR
CUT = Exclusion(NOON + 10 * MINUTE + 1, NOON + 95 * MINUTE)


def attempts(*numbers: int) -> list[Event]:
    """Attempts of forty minutes, an hour apart; all but number 2 fail."""
    events: list[Event] = []
    for number in numbers:
        began, named = NOON + number * HOUR, {"attempt": number}
        outcome = Outcome.COMPLETED if number == 2 else Outcome.FAILED
        events += [
            event(AttemptStarted, began, gpus=8, id=f"started-{number}", **named),
            event(
                PhaseStarted, began + MINUTE, phase=Phase.TRAIN_LOOP, id=f"loop-{number}", **named
            ),
            *(
                progress(number * 30 + minute, began + minute * MINUTE + SECOND, **named)
                for minute in range(1, 30)
            ),
            event(
                AttemptEnded, began + 40 * MINUTE, outcome=outcome, id=f"ended-{number}", **named
            ),
        ]
    return events


@pytest.fixture
def key(store: Store, project_id: int) -> JobKey:
    """Return a job of attempts 1 and 2, whose ledger is stored."""
    job = JobKey(project_id, "llm-70b")
    deliver(store, job, attempts(1, 2))
    refreshed(store, job, LATER)
    return job


@pytest.fixture
def maker(store: Store) -> str:
    """Return the prefix of a key."""
    key = store.write(
        lambda conn: create_key(
            conn, project="research", name="on call", scopes=["write"], now_us=RECEIVED_AT
        )
    )
    return key[:PREFIX_LENGTH]


def judge(
    store: Store, key: JobKey, maker: str, number: int = 0, cause: Cause = Cause.NETWORK
) -> corrections.Correction:
    verdict = FailureVerdict(Origin.INFRA, cause, "the switch was down", maker, LATER)
    return store.write(lambda conn: corrections.put_verdict(conn, key, number, verdict))


def exclude(
    store: Store, key: JobKey, maker: str, *windows: Exclusion
) -> list[corrections.Correction]:
    return store.write(
        lambda conn: corrections.put_exclusion(
            conn, key, windows or [Exclusion()], why="a drill", made_by=maker, now_us=LATER
        )
    )


def ledger(store: Store, key: JobKey) -> JobLedger:
    refreshed(store, key, LATER)
    folded = stored(store, key)
    assert folded is not None
    return folded


def fleet(store: Store, *, exclusions: bool = False) -> Totals:
    """Return all that the rollups have of the day, but for in how many cells it lies."""
    cohorts, day = CohortFilter(exclusions=exclusions), (NOON - 12 * HOUR, NOON + 12 * HOUR)
    with store.reading() as conn:
        by_bucket = rollups.totals(conn, cohorts, day)
    total = by_bucket.get((None, ()), Totals.ZERO)
    sums = {name: amount for name, amount in total.sums.items() if amount and name != "cells"}
    return replace(total, sums=sums)


def test_a_verdict_reaches_the_ledger_and_names_who_why_and_when(
    store: Store, key: JobKey, maker: str
) -> None:
    judge(store, key, maker)

    assert marked(store) == [key]
    (first, second) = ledger(store, key).attempts
    assert first.verdict is not None
    assert (first.cause, first.verdict.rules_cause) == (Cause.NETWORK, Cause.UNKNOWN)
    assert (first.verdict.made_by, first.verdict.made_at) == (maker, LATER)
    assert second.verdict is None


def test_the_fleet_counts_a_failure_by_the_verdict(store: Store, key: JobKey, maker: str) -> None:
    before = fleet(store)
    judge(store, key, maker)
    refreshed(store, key, LATER)
    judged = fleet(store)

    assert (before["infra_failures"], judged["infra_failures"]) == (0, 1)
    assert before.tally("failure:unknown/unknown").n == 1
    assert judged.tally("failure:unknown/unknown").n == 0
    assert judged.tally("failure:infra/network").n == 1
    assert judged["failures"] == before["failures"]


def test_a_verdict_stays_with_its_attempt_when_the_number_moves(
    store: Store, key: JobKey, maker: str
) -> None:
    judge(store, key, maker, number=0)

    deliver(store, key, attempts(0))

    verdicts = [(attempt.attempt, attempt.cause) for attempt in ledger(store, key).attempts]
    assert verdicts == [(0, Cause.UNKNOWN), (1, Cause.NETWORK), (2, None)]


def test_a_verdict_taken_back_leaves_its_row_and_the_rules(
    store: Store, key: JobKey, maker: str
) -> None:
    was = ledger(store, key)
    judge(store, key, maker)
    take_back = corrections.take_back_verdict

    assert store.write(lambda conn: take_back(conn, key, 0, made_by=maker, now_us=LATER + 1))
    assert not store.write(lambda conn: take_back(conn, key, 0, made_by=maker, now_us=LATER + 2))

    assert ledger(store, key).attempts == was.attempts
    with store.reading() as conn:
        (row,) = corrections.history(conn, key, limit=10)
    assert row.attempt == AttemptKey("", 1, 0)
    assert row.made_by == row.taken_back_by == corrections.Maker(maker, "on call")
    assert row.taken_back_at == LATER + 1


def test_another_verdict_replaces_the_first_and_the_same_changes_nothing(
    store: Store, key: JobKey, maker: str
) -> None:
    first = judge(store, key, maker)
    refreshed(store, key, LATER)
    assert judge(store, key, maker) == first
    assert marked(store) == []

    second = judge(store, key, maker, cause=Cause.STORAGE)

    with store.reading() as conn:
        assert corrections.standing(conn, key, VERDICT) == [second]
        rows = corrections.history(conn, key, limit=10)
        assert [row.id for row in corrections.history(conn, key, limit=10, after=1)] == [2]
    assert [(row.id, row.taken_back_at) for row in rows] == [(1, LATER), (2, None)]


def test_only_what_failed_has_a_cause(store: Store, key: JobKey, maker: str) -> None:
    with pytest.raises(NoFailure):
        judge(store, key, maker, number=1)
    with pytest.raises(NothingThere):
        judge(store, key, maker, number=2)
    with pytest.raises(NothingThere):
        judge(store, JobKey(key.project_id, "nothing"), maker)
    with pytest.raises(NothingThere):
        exclude(store, JobKey(key.project_id, "nothing"), maker)
    assert rows(store) == 0


def test_an_exclusion_takes_the_place_of_the_one_before(
    store: Store, key: JobKey, maker: str
) -> None:
    exclude(store, key, maker)
    put = exclude(store, key, maker, Exclusion(NOON, None), Exclusion(None, NOON), Exclusion(NOON))

    assert [exclusion.window for exclusion in put] == [Exclusion(None, NOON), Exclusion(NOON, None)]
    assert rows(store) == 3
    assert exclude(store, key, maker, Exclusion(NOON), Exclusion(None, NOON)) == put
    assert rows(store) == 3
    with store.reading() as conn:
        assert corrections_of(conn, key).exclusions == (
            Exclusion(None, NOON),
            Exclusion(NOON, None),
        )


@pytest.mark.parametrize("windows", [[Exclusion()], [CUT], [CUT, Exclusion(NOON + 2 * HOUR)]])
def test_numbers_with_and_without_an_exclusion_differ_by_exactly_that_part_of_the_job(
    store: Store, key: JobKey, maker: str, windows: Sequence[Exclusion]
) -> None:
    other = JobKey(key.project_id, "llm-7b")
    deliver(store, other, attempts(0, 1))
    refreshed(store, other, LATER)
    before = fleet(store)

    exclude(store, key, maker, *windows)
    cut = part(ledger(store, key), windows)

    assert fleet(store, exclusions=True) == before
    lost = before - fleet(store)
    assert sum(cut.values()) > 0
    assert {category: lost.category_us(category) for category in Category} == cut
    assert {category: lost.category_weighted_us(category) for category in Category} == {
        category: 8 * us for category, us in cut.items()
    }
    assert lost.e2e_us == sum(cut.values())


def part(of: JobLedger, windows: Sequence[Exclusion]) -> dict[Category, int]:
    """Sum what of the job's segments lies in *windows*, which do not overlap."""
    sums = dict.fromkeys(Category, 0)
    for segment in of.segments:
        for from_at, to_at in windows:
            start = max(segment.start_at, from_at or 0)
            end = min(segment.end_at, to_at or 1 << 62)
            sums[segment.category] += max(0, end - start)
    return sums


def test_without_the_exclusion_again_the_numbers_are_what_they_were(
    store: Store, key: JobKey, maker: str
) -> None:
    before = fleet(store)
    exclude(store, key, maker, CUT)
    refreshed(store, key, LATER)
    assert fleet(store) != before

    assert store.write(
        lambda conn: corrections.take_back_exclusion(conn, key, made_by=maker, now_us=LATER)
    )
    refreshed(store, key, LATER)

    assert fleet(store) == fleet(store, exclusions=True) == before
    with store.reading() as conn:
        assert corrections.standing(conn, key, EXCLUSION) == []


def test_an_exclusion_holds_for_what_comes_later(store: Store, key: JobKey, maker: str) -> None:
    exclude(store, key, maker)
    folded = refreshed(store, key, LATER)
    deliver(store, key, attempts(3))
    refreshed(store, key, LATER + 4 * HOUR, folded)

    assert fleet(store) == Totals.ZERO
    assert fleet(store, exclusions=True)["attempts"] == 3


def test_a_fold_that_goes_on_takes_corrections_in(store: Store, key: JobKey, maker: str) -> None:
    deliver(store, key, [])
    folded = refreshed(store, key, LATER)
    assert folded is not None
    before = fleet(store)

    judge(store, key, maker)
    folded = refreshed(store, key, LATER, folded)
    assert fleet(store)["infra_failures"] == 1
    exclude(store, key, maker)
    folded = refreshed(store, key, LATER, folded)
    assert fleet(store)["infra_failures"] == 0
    assert fleet(store, exclusions=True)["infra_failures"] == 1

    store.write(lambda conn: corrections.take_back_exclusion(conn, key, made_by="", now_us=LATER))
    store.write(lambda conn: corrections.take_back_verdict(conn, key, 0, made_by="", now_us=LATER))
    refreshed(store, key, LATER, folded)
    assert fleet(store) == before


def rows(store: Store) -> int:
    def count(conn: Connection) -> int:
        return conn.execute(select(func.count()).select_from(correction)).scalar_one()

    return store.write(count)
