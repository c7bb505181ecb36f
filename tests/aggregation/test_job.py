"""Stored ledgers follow from the events, in whatever way they arrived and whatever broke."""

import itertools
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from ett_service.aggregation.fold_job import (
    KeptFold,
    NotForward,
    Overtaken,
    Prepared,
    prepare,
    store_prepared,
)
from ett_service.core.events import AttemptEnded, AttemptStarted, Event, PhaseStarted, SpanOver
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import FORMULA_VERSION
from ett_service.core.words import JobState, Outcome, Phase
from ett_service.storage.engine.store import Store
from ett_service.storage.jobs import ledgers
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import job_ledger
from tests.builders.clock import MINUTE, NOON, SECOND
from tests.builders.drawn.timelines import Timeline, timelines
from tests.builders.ledgers import (
    LATE_IN_IT,
    deliver,
    marked,
    recomputed,
    refreshed,
    running_job,
    stored,
)
from tests.builders.record import event, progress

_names = (f"job-{number}" for number in itertools.count())


@pytest.fixture
def key(project_id: int) -> JobKey:
    return JobKey(project_id, "llm-70b")


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[Timeline, list[list[Event]]]:
    """A timeline whose events come in any order, in any batches, some of them twice."""
    timeline = draw(timelines)
    arrivals = draw(st.permutations([*timeline.events, *timeline.events[:3]]))
    cuts = sorted(draw(st.lists(st.integers(0, len(arrivals)), max_size=5)))
    return timeline, [
        arrivals[start:end] for start, end in itertools.pairwise([0, *cuts, len(arrivals)])
    ]


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(delivered=deliveries(), forward=st.booleans())
def test_any_batches_in_any_order_are_stored_as_one_fold_of_them_all(
    store: Store, project_id: int, delivered: tuple[Timeline, list[list[Event]]], forward: bool
) -> None:
    timeline, batches = delivered
    key = JobKey(project_id, next(_names))
    kept_fold: KeptFold | None = None
    for index, batch in enumerate(batches):
        deliver(store, key, batch, timeline.offsets if index % 2 else None)
        now_us = timeline.as_of + index
        kept_fold = refreshed(store, key, now_us, kept_fold if forward else None, timeline.limits)
        assert stored(store, key) == recomputed(store, key, now_us, timeline.limits)
    assert marked(store) == []


def long_life(chance: Random) -> Iterator[list[Event]]:
    """Yield a job of three attempts in order, a few events at a time, seldom one late."""
    now, step = NOON, 0
    for number in range(3):
        source = {"attempt": number, "rank": 0}
        yield [event(AttemptStarted, now, gpus=8, **source)]
        yield [event(PhaseStarted, now + SECOND, phase=Phase.TRAIN_LOOP, **source)]
        for _ in range(30):
            began, now = now + 2 * SECOND, now + 10 * SECOND
            step += chance.choice([0, 1, 1, -2])
            phase = chance.choice([Phase.EVALUATION, Phase.CHECKPOINT_BLOCKING])
            batch: list[Event] = [progress(max(step, 0), now + SECOND, **source)]
            if chance.random() < 0.8:
                batch.append(event(SpanOver, now, phase=phase, start=began, **source))
            if chance.random() < 0.05:
                batch.append(progress(step + 5, now - 30 * SECOND, **source))
            yield batch
        now += 2 * SECOND
        yield [event(AttemptEnded, now, outcome=Outcome.FAILED, **source)]
        now += MINUTE


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 5))]
)
def test_a_long_life_is_stored_as_one_fold_after_each_step(
    store: Store, key: JobKey, seed: int
) -> None:
    chance, now_us, went_on = Random(seed), NOON, 0
    kept_fold: KeptFold | None = None
    for batch in long_life(chance):
        now_us = max(now_us, *(fact.at for fact in batch)) + chance.choice([0, 5 * SECOND])
        deliver(store, key, batch)
        before, kept_fold = kept_fold, refreshed(store, key, now_us, kept_fold)
        assert kept_fold is not None
        went_on += before is not None and kept_fold.fold is before.fold
        if chance.random() < 0.3:
            assert stored(store, key) == recomputed(store, key, now_us)
    assert stored(store, key) == recomputed(store, key, now_us)
    assert went_on > 60


def test_one_more_event_goes_on_from_the_fold_before(store: Store, key: JobKey) -> None:
    deliver(store, key, running_job())
    before = refreshed(store, key, LATE_IN_IT)
    assert before is not None
    deliver(store, key, [progress(60, LATE_IN_IT)])

    after = refreshed(store, key, LATE_IN_IT + SECOND, before)

    assert after is not None
    assert after.fold is before.fold
    assert stored(store, key) == recomputed(store, key, LATE_IN_IT + SECOND)


def test_a_fold_that_another_worker_has_overtaken_is_not_gone_on_from(
    store: Store, key: JobKey
) -> None:
    deliver(store, key, running_job())
    overtaken = refreshed(store, key, LATE_IN_IT)
    assert overtaken is not None
    deliver(store, key, [progress(60, LATE_IN_IT)])
    refreshed(store, key, LATE_IN_IT)
    deliver(store, key, [progress(61, LATE_IN_IT + SECOND)])

    after = refreshed(store, key, LATE_IN_IT + SECOND, overtaken)

    assert after is not None
    assert after.fold is not overtaken.fold
    assert stored(store, key) == recomputed(store, key, LATE_IN_IT + SECOND)


def prepared_of(store: Store, key: JobKey, kept_fold: KeptFold | None = None) -> Prepared:
    with store.reading() as conn:
        prepared = prepare(conn, key, LATE_IN_IT, kept_fold)
    assert prepared is not None
    return prepared


@pytest.mark.parametrize("forward", [True, False])
def test_what_comes_between_reading_and_storing_keeps_its_mark(
    store: Store, key: JobKey, *, forward: bool
) -> None:
    deliver(store, key, running_job())
    kept_fold = refreshed(store, key, LATE_IN_IT)
    deliver(store, key, [progress(60, LATE_IN_IT)])
    prepared = prepared_of(store, key, kept_fold if forward else None)
    before = recomputed(store, key, LATE_IN_IT)
    deliver(store, key, [progress(61, LATE_IN_IT + SECOND)])

    after = store.write(lambda conn: store_prepared(conn, prepared, LATE_IN_IT))

    assert stored(store, key) == before
    assert marked(store) == [key]
    refreshed(store, key, LATE_IN_IT + SECOND, after)
    assert stored(store, key) == recomputed(store, key, LATE_IN_IT + SECOND)
    assert marked(store) == []


def test_what_was_prepared_is_not_stored_over_what_another_worker_stored_since(
    store: Store, key: JobKey
) -> None:
    deliver(store, key, running_job())
    overtaken = prepared_of(store, key)
    deliver(store, key, [progress(60, LATE_IN_IT)])
    refreshed(store, key, LATE_IN_IT)
    deliver(store, key, [progress(61, LATE_IN_IT)])

    with pytest.raises(Overtaken):
        store.write(lambda conn: store_prepared(conn, overtaken, LATE_IN_IT))

    assert marked(store) == [key]
    assert refreshed(store, key, LATE_IN_IT) is not None
    assert stored(store, key) == recomputed(store, key, LATE_IN_IT)


def test_there_is_nothing_to_prepare_of_a_job_that_is_as_it_was_or_gone(
    store: Store, key: JobKey
) -> None:
    deliver(store, key, running_job())
    refreshed(store, key, LATE_IN_IT)
    with store.reading() as conn:
        assert prepare(conn, key, LATE_IN_IT) is None
    with store.reading() as conn:
        assert prepare(conn, key._replace(job="gone"), LATE_IN_IT) is None


def test_a_long_job_is_not_folded_anew_while_others_wait_for_the_lock(
    store: Store, key: JobKey
) -> None:
    steps = [progress(step, NOON + MINUTE + step * SECOND) for step in range(2001)]
    deliver(store, key, [event(PhaseStarted, phase=Phase.TRAIN_LOOP), *steps])
    kept_fold = refreshed(store, key, NOON + 60 * MINUTE)
    deliver(store, key, [progress(7, NOON + 2 * MINUTE + 1)])

    with pytest.raises(NotForward):
        refreshed(store, key, NOON + 60 * MINUTE, kept_fold)

    assert marked(store) == [key]
    with store.reading() as conn:
        prepared = prepare(conn, key, NOON + 60 * MINUTE)
    assert prepared is not None
    store.write(lambda conn: store_prepared(conn, prepared, NOON + 60 * MINUTE))
    assert stored(store, key) == recomputed(store, key, NOON + 60 * MINUTE)
    assert marked(store) == []


def test_a_clock_that_turns_out_wrong_moves_what_was_stored(store: Store, key: JobKey) -> None:
    events = [
        event(AttemptStarted, gpus=8, producer="host"),
        event(PhaseStarted, NOON + MINUTE, phase=Phase.TRAIN_LOOP),
    ]
    deliver(store, key, events, {"host": 0})
    kept_fold = refreshed(store, key, LATE_IN_IT)
    deliver(store, key, [], {"host": -30 * SECOND})

    refreshed(store, key, LATE_IN_IT, kept_fold)

    after = stored(store, key)
    assert after is not None
    assert after.started_at == NOON - 30 * SECOND
    assert after == recomputed(store, key, LATE_IN_IT)


def test_a_job_without_marks_is_left_alone_until_it_falls_due(store: Store, key: JobKey) -> None:
    deliver(store, key, running_job())
    kept_fold = refreshed(store, key, LATE_IN_IT)
    assert kept_fold is not None
    assert refreshed(store, key, LATE_IN_IT + SECOND, kept_fold) is None

    later = refreshed(store, key, LATE_IN_IT + 30 * SECOND, kept_fold)

    assert later is not None
    after = stored(store, key)
    assert after is not None
    assert after.as_of == LATE_IN_IT + 30 * SECOND


def test_an_attempt_gone_silent_falls_due_when_it_counts_as_lost(store: Store, key: JobKey) -> None:
    deliver(store, key, running_job())
    refreshed(store, key, LATE_IN_IT)
    lost_at = NOON + MINUTE + 590 * SECOND + 15 * MINUTE

    refreshed(store, key, lost_at)

    after = stored(store, key)
    assert after is not None
    assert after.state is JobState.INTERRUPTED
    assert after.attempts[0].outcome is Outcome.LOST
    with store.reading() as conn:
        head = ledgers.head(conn, key)
    assert head is not None
    assert head.due_us is None


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(timeline=timelines)
def test_no_ledger_falls_due_when_it_is_folded_already(timeline: Timeline) -> None:
    ledger = fold(timeline.events, timeline.offsets, timeline.as_of, timeline.limits)

    assert ledger.due_at is None or ledger.due_at > timeline.as_of


def test_a_ledger_of_another_formula_is_folded_anew(store: Store, key: JobKey) -> None:
    ended = event(AttemptEnded, LATE_IN_IT, outcome=Outcome.COMPLETED)
    deliver(store, key, [*running_job(), ended])
    refreshed(store, key, LATE_IN_IT)
    earlier_formula = update(job_ledger).values(formula_version=FORMULA_VERSION - 1, failures=7)
    store.write(lambda conn: conn.execute(earlier_formula))

    refreshed(store, key, LATE_IN_IT)

    assert stored(store, key) == recomputed(store, key, LATE_IN_IT)
    with store.reading() as conn:
        head = ledgers.head(conn, key)
    assert head is not None
    assert head.formula_version == FORMULA_VERSION


def test_a_fold_has_its_instant_even_if_no_clock_moves_it(store: Store, key: JobKey) -> None:
    deliver(store, key, running_job())
    long_after = LATE_IN_IT + 60 * MINUTE
    refreshed(store, key, long_after)

    with store.reading() as conn:
        head = ledgers.head(conn, key)

    assert head is not None
    assert stored(store, key) == recomputed(store, key, head.folded_us)


def test_an_empty_fold_has_nothing_to_say(store: Store, key: JobKey) -> None:
    deliver(store, key, [])
    refreshed(store, key, NOON)
    assert stored(store, key) == fold([], {}, NOON)
