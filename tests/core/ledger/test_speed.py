"""Effective training at the run's own best step time, and what was slower."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from ett_service.core.events import (
    AttemptStarted,
    CheckpointRestored,
    Event,
    JobFacts,
    PhaseStarted,
    Progress,
)
from ett_service.core.ledger.fold import JobFold, fold
from ett_service.core.ledger.results import JobLedger, SpeedReference, StepTime
from ett_service.core.ledger.speed import given_reference_ns, rounded_down
from ett_service.core.words import Category, Outcome, Phase
from tests.core.timeline import SECOND, ended, of_launch, over, progress, span, started

FAST, SLOW = 50.0, 75.0  #: seconds for the 50 steps of a window


def _trained(windows: Iterable[float], begin_s: float = 0, attempt: int = 0) -> list[Event]:
    """A loop of windows of 50 steps, as many seconds each."""
    at_s, step = begin_s, 0
    events = [started(begin_s, attempt, gpus=8), progress(begin_s, 0, attempt)]
    for seconds in windows:
        at_s, step = at_s + seconds, step + 50
        events.append(progress(at_s, step, attempt))
    events.append(span(Phase.TRAIN_LOOP, begin_s, at_s, attempt))
    return [*events, ended(at_s, Outcome.COMPLETED, attempt)]


def _ledger(*events: Event) -> JobLedger:
    return fold(events, {}, 10**7 * SECOND)


def _seconds(ledger: JobLedger) -> tuple[float, ...]:
    return tuple(us / SECOND for us in ledger.speed)


def test_half_the_time_at_reference_speed_is_52_5_percent_ett() -> None:
    """1,000 steps that take 1 s each at their best take 1,050 s of 2,000 s."""
    events = _trained([FAST] * 18 + [SLOW] * 2, begin_s=900)
    ledger = _ledger(span(Phase.LAUNCHER_INIT, 0, 900), *events, span(Phase.SHUTDOWN, 1950, 2000),
                     ended(2000, Outcome.COMPLETED))  # fmt: skip

    [run] = ledger.runs
    assert (run.e2e_us, run.effective_us) == (2000 * SECOND, 1050 * SECOND)
    assert run.effective_us / run.e2e_us == 0.525
    assert run.speed.at_reference_us / run.e2e_us == 0.5
    assert _seconds(ledger) == (1000, 50, 0)
    assert run.speed_references == (SpeedReference(8, None, 1_000_000_000, 20),)


def test_fewer_than_five_windows_have_no_reference() -> None:
    assert _seconds(_ledger(*_trained([FAST, FAST, SLOW, SLOW]))) == (0, 0, 250)
    assert _seconds(_ledger(*_trained([FAST, FAST, SLOW, SLOW, SLOW]))) == (250, 75, 0)


def test_the_reference_is_the_tenth_percentile_and_not_the_best() -> None:
    ledger = _ledger(*_trained([40.0, *[FAST] * 10]))

    assert ledger.runs[0].speed_references[0].step_ns == 1_000_000_000
    assert _seconds(ledger) == (540, 0, 0)


def test_time_before_the_first_report_is_not_measured() -> None:
    events = _trained([FAST] * 5, begin_s=100)

    assert _seconds(_ledger(span(Phase.TRAIN_LOOP, 30, 100), *events)) == (250, 0, 70)


def test_too_few_steps_join_the_window_before() -> None:
    events = [*_trained([FAST] * 5), progress(260, 260), span(Phase.TRAIN_LOOP, 250, 260)]
    ledger = _ledger(*events, ended(260, Outcome.COMPLETED))

    assert _seconds(ledger) == (260, 0, 0)
    assert ledger.runs[0].speed_references[0].windows == 5


def test_a_stop_for_a_save_does_not_make_steps_slow() -> None:
    events = _trained([*[FAST] * 5, SLOW])

    assert _seconds(_ledger(*events, span(Phase.CHECKPOINT_BLOCKING, 270, 295))) == (300, 0, 0)


def test_repeated_steps_measure_nothing() -> None:
    first = _trained([FAST] * 6)
    again = _trained([20.0, 20.0, *[FAST] * 5], begin_s=400, attempt=1)
    ledger = _ledger(*first, *again)

    repeated = ledger.attempts[1].categories_us[Category.REPEATED_TRAINING]
    assert repeated == (20 + 20 + 4 * 50) * SECOND
    assert _seconds(ledger) == (350, 0, 0)


def test_steps_that_a_restore_skipped_measure_nothing() -> None:
    events = _trained([*[FAST] * 3, 10.0, *[FAST] * 3])
    restored = CheckpointRestored(id="r", at=155 * SECOND, step=200)

    assert _seconds(_ledger(*events, restored)) == (300, 0, 10)


def test_another_number_of_accelerators_has_a_reference_of_its_own() -> None:
    first = _trained([FAST] * 5)
    more = [
        replace(event, gpus=16) if isinstance(event, AttemptStarted) else event
        for event in _trained([30.0] * 12, begin_s=300, attempt=1)
    ]
    ledger = _ledger(*first, *more)

    assert [(ref.gpus, ref.step_ns) for ref in ledger.runs[0].speed_references] == [
        (8, 1_000_000_000),
        (16, 600_000_000),
    ]
    assert _seconds(ledger)[1] == 0


def test_more_tokens_a_step_have_a_reference_of_their_own() -> None:
    events, tokens = [], 0
    for event in _trained([FAST] * 5 + [SLOW] * 5):
        if isinstance(event, Progress) and event.step:
            tokens += 50 * (4096 if event.step <= 250 else 8192)
        events.append(replace(event, tokens=tokens) if isinstance(event, Progress) else event)
    ledger = _ledger(*events)

    assert [ref.tokens_a_step for ref in ledger.runs[0].speed_references] == [4000, 8100]
    assert _seconds(ledger) == (625, 0, 0)


def test_each_run_has_references_of_its_own() -> None:
    first = of_launch("a", *_trained([FAST] * 5))
    second = of_launch("b", *_trained([SLOW] * 5, begin_s=1000))
    ledger = _ledger(*first, over(300), *second)

    assert [run.speed_references[0].step_ns for run in ledger.runs] == [10**9, 15 * 10**8]
    assert _seconds(ledger) == (625, 0, 0)


def test_windows_that_grow_report_by_report_are_those_of_one_fold() -> None:
    """Midnight falls among them."""
    first_s = 86_400 - 400
    loop = PhaseStarted(id="loop", at=first_s * SECOND, phase=Phase.TRAIN_LOOP)
    began = [started(first_s, gpus=8), loop]
    reports = [progress(first_s + steps, steps) for steps in range(10, 900, 30)]
    job = JobFold()
    job.add(began, {})

    for place, report in enumerate(reports):
        assert job.add([report], {})
        assert job.ledger(report.at) == fold([*began, *reports[: place + 1]], {}, report.at)

    assert _seconds(job.ledger(0)) == (870, 0, 10)


def test_a_save_that_is_reported_late_is_taken_out_of_the_day_again() -> None:
    began = [started(0, gpus=8), PhaseStarted(id="loop", at=0, phase=Phase.TRAIN_LOOP)]
    began += [progress(at_s, at_s) for at_s in (0, 50, 100)]
    save = span(Phase.CHECKPOINT_BLOCKING, 90, 110)
    job = JobFold()
    job.add(began, {})
    assert job.ledger(100 * SECOND).attempts[0].step_times[0].us == 100 * SECOND

    assert job.add([save], {})
    assert job.ledger(110 * SECOND) == fold([*began, save], {}, 110 * SECOND)
    assert job.ledger(110 * SECOND).attempts[0].step_times[0].us == 90 * SECOND


def test_a_given_reference_replaces_the_runs_own() -> None:
    label = JobFacts(id="given", at=0, labels={"reference_step_seconds": "0.8"})

    assert _seconds(_ledger(label, *_trained([FAST] * 2))) == (80, 20, 0)


@pytest.mark.parametrize(
    ("text", "ns"),
    [("0.25", 250_000_000), ("1e-3", 1_000_000), ("", None), ("fast", None), ("nan", None),
     ("-1", None), ("0", None), ("1e-12", None), ("1e999999999", None), ("sNaN", None)],
)  # fmt: skip
def test_only_a_positive_number_of_seconds_is_a_reference(text: str, ns: int | None) -> None:
    assert given_reference_ns({"reference_step_seconds": text}) == ns


def test_numbers_are_rounded_down_to_their_first_digits() -> None:
    assert [rounded_down(n, 2) for n in (0, 7, 99, 108, 8192)] == [0, 7, 99, 100, 8100]


def test_steps_are_timed_by_the_day_and_by_tokens_a_step() -> None:
    begin_s = 86_400 - 120
    events = [
        replace(event, tokens=event.step * 1000) if isinstance(event, Progress) else event
        for event in _trained([FAST, FAST, FAST, SLOW], begin_s)
    ]

    [attempt] = _ledger(*events).attempts
    assert attempt.step_times == (
        StepTime(0, 1000, windows=2, steps=100, us=100 * SECOND),
        StepTime(1, 1000, windows=2, steps=100, us=125 * SECOND),
    )
