"""Folding once, and folding forward."""

import pytest

from benchmarks.fold import answer, durations, job, microseconds
from ett_service.core.events import Heartbeat, PhaseStarted
from ett_service.core.ledger.fold import JobFold, fold
from ett_service.core.words import JobState, Outcome, Phase
from tests.core.timeline import SECOND, ended, progress, span, started


def test_a_job_of_no_events_has_no_time() -> None:
    ledger = fold([], {}, 5)

    assert (ledger.state, ledger.e2e_us, ledger.segments) == (JobState.FINISHED, 0, ())
    assert ledger.started_at is None


def test_a_finished_job_reads_the_same_at_any_later_instant() -> None:
    events = [started(0), span(Phase.TRAIN_LOOP, 5, 50), ended(60, Outcome.COMPLETED)]

    assert fold(events, {}, 60 * SECOND) == fold(events, {}, 10**9 * SECOND)


def test_known_events_are_ignored() -> None:
    forward = JobFold()
    forward.add(job(), {})
    before = forward.ledger(0)

    assert forward.add(job(), {})
    assert forward.event_count == 100
    assert forward.ledger(0) == before


def test_an_event_at_the_open_end_changes_only_the_open_end() -> None:
    loop = PhaseStarted(id="loop", at=0, phase=Phase.TRAIN_LOOP)
    saves = [span(Phase.CHECKPOINT_BLOCKING, 10 * n, 10 * n + 2) for n in range(1, 40)]
    steps = [progress(10 * n + 3, n) for n in range(1, 40)]
    forward = JobFold()
    forward.add([started(0), loop, *saves, *steps], {})
    before = forward.ledger(0)
    assert forward.add([progress(400, 40)], {})
    after = forward.ledger(0)

    assert forward.changed_from is not None
    assert forward.changed_from > 200 * SECOND
    unchanged = [segment for segment in before.segments if segment.start_at < forward.changed_from]
    assert unchanged == [
        segment for segment in after.segments if segment.start_at < forward.changed_from
    ]
    assert after == fold([started(0), loop, *saves, *steps, progress(400, 40)], {}, 0)


def test_an_older_fact_does_not_fold_forward() -> None:
    forward = JobFold()
    forward.add([started(0), progress(10, 1), progress(20, 2)], {})

    assert not forward.add([progress(15, 9)], {})


def test_heartbeats_always_fold_forward() -> None:
    forward = JobFold()
    forward.add([started(0), progress(10, 1), progress(20, 2)], {})

    assert forward.add([Heartbeat(id="h", at=5 * SECOND)], {})


@pytest.mark.parametrize("silent_s", [0, 899])
def test_an_as_of_before_the_last_event_is_moved_to_it(silent_s: int) -> None:
    ledger = fold([started(0), progress(silent_s, 1)], {}, 0)

    assert (ledger.as_of, ledger.state) == (silent_s * SECOND, JobState.RUNNING)


def test_the_whole_answer_costs_less_than_a_hundred_passes_over_the_events() -> None:
    events = job()
    rounds = [microseconds(answer, events) / microseconds(durations, events) for _ in range(5)]

    assert min(rounds) < 100
