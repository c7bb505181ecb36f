"""Each gap is named: attempt, interval, and what was inferred from which event."""

from dataclasses import replace

import pytest

from ett_service.core.events import CheckpointRestored, Event, PhaseEnded, PhaseStarted, SpanOver
from ett_service.core.ledger.fold import JobFold, fold
from ett_service.core.ledger.job_results import MOST_GAPS
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Outcome, Phase
from tests.core.timeline import SECOND, ended, progress, span, started


def _ledger(*events: Event) -> JobLedger:
    return fold(events, {}, 100 * SECOND)


def _begin(at_s: int, phase: Phase) -> Event:
    return PhaseStarted(id=f"b{at_s}", at=at_s * SECOND, phase=phase)


def test_an_inferred_end_names_the_event_that_it_rests_on() -> None:
    events = (_begin(0, Phase.SCHEDULING), _begin(10, Phase.HARDWARE_SETUP))
    quality = _ledger(*events, ended(20, Outcome.FAILED)).quality
    first, second = (gap for gap in quality.gaps if gap.kind == "inferred_end")

    assert quality.inferred_ends == 2
    assert (first.number, first.start_at, first.end_at) == (0, 0, 10 * SECOND)
    assert first.event_id == "b10"
    assert "end of the attempt" in second.detail


def test_a_phase_that_is_open_in_a_running_attempt_is_no_gap() -> None:
    assert _ledger(_begin(0, Phase.TRAIN_LOOP)).quality.inferred_ends == 0


def test_an_end_without_a_begin_and_a_clamped_span_are_counted_and_named() -> None:
    stray = PhaseEnded(id="stray", at=5 * SECOND, phase=Phase.EVALUATION)
    back = SpanOver(id="back", at=6 * SECOND, start=9 * SECOND, phase=Phase.STALLED)
    quality = _ledger(started(0), stray, back, ended(10, Outcome.FAILED)).quality

    assert (quality.ends_without_begin, quality.clamped_spans) == (1, 1)
    assert {"stray", "back"} <= {gap.event_id for gap in quality.gaps}


def test_an_end_that_two_senders_report_is_one_end() -> None:
    begins, ends = (
        [kind(id=f"{kind.__name__}{n}", at=at * SECOND, phase=Phase.QUEUED) for n in range(2)]
        for kind, at in ((PhaseStarted, 1), (PhaseEnded, 5))
    )
    strays = [PhaseEnded(id=f"s{n}", at=7 * SECOND, phase=Phase.QUEUED) for n in range(2)]
    quality = _ledger(started(0), *begins, *ends, *strays, ended(10, Outcome.FAILED)).quality

    assert quality.ends_without_begin == 1


def test_gaps_of_one_instant_are_named_in_one_order_whichever_came_first() -> None:
    clamped = [
        SpanOver(id=f"back{n}", at=6 * SECOND, start=9 * SECOND, phase=Phase.STALLED)
        for n in range(MOST_GAPS + 1)
    ]
    job = JobFold()
    for event in (started(0), *clamped[::-1]):
        assert job.add([event], {})

    assert job.ledger(100 * SECOND).quality == _ledger(started(0), *clamped).quality


def test_time_under_no_span_is_named_by_its_interval() -> None:
    quality = _ledger(
        started(0), span(Phase.HARDWARE_SETUP, 3, 7), ended(10, Outcome.FAILED)
    ).quality
    holes = [gap for gap in quality.gaps if gap.kind == "unattributed"]

    assert quality.unattributed_us == 6 * SECOND
    assert [(gap.start_at, gap.end_at) for gap in holes] == [
        (0, 3 * SECOND),
        (7 * SECOND, 10 * SECOND),
    ]


def test_a_completed_job_misses_the_phases_that_nobody_reported() -> None:
    quality = _ledger(
        started(0), span(Phase.TRAIN_LOOP, 1, 9), ended(10, Outcome.COMPLETED)
    ).quality

    assert quality.missing_phases == (
        Phase.SCHEDULING,
        Phase.HARDWARE_SETUP,
        Phase.LAUNCHER_INIT,
        Phase.SHUTDOWN,
    )


def test_a_corrected_clock_is_flagged_by_its_producer() -> None:
    late = PhaseStarted(id="p", at=0, producer="trainer-7", phase=Phase.TRAIN_LOOP)
    quality = fold([late], {"trainer-7": 5 * SECOND}, 100 * SECOND).quality

    assert quality.clock_flags == 1
    assert any("trainer-7" in gap.detail for gap in quality.gaps)


def test_gaps_are_named_up_to_a_number_and_counted_beyond() -> None:
    strays = [
        PhaseEnded(id=f"e{n}", at=n * SECOND // 10, phase=Phase.EVALUATION) for n in range(300)
    ]
    quality = _ledger(started(0), *strays).quality

    assert quality.ends_without_begin == 300
    assert len(quality.gaps) == MOST_GAPS


def _restored(at_s: int, step: int) -> Event:
    return CheckpointRestored(id=f"r{at_s}", at=at_s * SECOND, step=step)


def test_steps_that_go_back_are_a_restart_that_nobody_reported() -> None:
    steps = [progress(at, step) for at, step in ((1, 5), (2, 6), (3, 3), (4, 4), (5, 2))]
    quality = _ledger(started(0), *steps).quality

    assert quality.steps_went_back == 2
    gaps = [gap for gap in quality.gaps if gap.kind == "steps_went_back"]
    assert [(gap.start_at, gap.end_at) for gap in gaps] == [
        (2 * SECOND, 3 * SECOND),
        (4 * SECOND, 5 * SECOND),
    ]


@pytest.mark.parametrize(("at_s", "counted"), [(1, 1), (2, 0), (3, 1)])
def test_a_restore_between_explains_steps_that_go_back(at_s: int, counted: int) -> None:
    """On one instant progress comes before a restore."""
    steps = (progress(2, 6), progress(3, 3))
    job = JobFold()
    for event in (started(0), *steps, _restored(at_s, 2)):
        assert job.add([event], {})

    assert job.ledger(100 * SECOND).quality.steps_went_back == counted
    assert _ledger(started(0), *steps, _restored(at_s, 2)).quality.steps_went_back == counted


def test_an_attempt_with_a_hook_missing_or_failed_is_counted_and_names_it() -> None:
    hooks = {"hooks": {"data": "missing", "steps": "error", "ddp": "waiting", "compile": "ok"}}
    whole = {"hooks": {"data": "ok"}}
    quality = _ledger(
        replace(started(0), attributes=hooks), replace(started(50, 1), attributes=whole)
    ).quality

    assert quality.attempts_missing_hooks == 1
    gaps = [gap for gap in quality.gaps if gap.kind == "missing_hook"]
    assert [(gap.number, gap.start_at, gap.detail.split()[2]) for gap in gaps] == [
        (0, None, "data"),
        (0, None, "steps"),
    ]
