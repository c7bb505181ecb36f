"""Instant amounts: what is booked at an instant, and at which."""

from dataclasses import replace

from ett_service.core.events import Event, JobEnded
from ett_service.core.fleet.counter_history import Steps, counter_steps
from ett_service.core.fleet.counters import job_counters
from ett_service.core.fleet.instant_amounts import InstantAmounts, instant_amounts
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Origin, Outcome, Phase
from tests.core.timeline import SECOND, ended, progress, span, started

FAILED_AND_RESUMED = (
    started(0, gpus=8),
    span(Phase.LAUNCHER_INIT, 0, 60),
    span(Phase.TRAIN_LOOP, 60, 600),
    ended(600, Outcome.FAILED, origin=Origin.INFRA),
    started(700, attempt=1, gpus=8),
    span(Phase.LAUNCHER_INIT, 700, 800, attempt=1),
    span(Phase.TRAIN_LOOP, 800, 1000, attempt=1),
    span(Phase.SHUTDOWN, 1000, 1060, attempt=1),
    ended(1060, Outcome.COMPLETED, attempt=1),
)


def counted(*events: Event) -> list[tuple[str, int, int]]:
    """Return name, instant and length, both in seconds, of all that is counted."""
    amounts = [amount for amount in instant_amounts(fold(events, {}, 10**12)) if amount.tally]
    return sorted(
        (amount.tally[0], amount.at // SECOND, amount.tally[2] // SECOND)
        for amount in amounts
        if amount.tally
    )


def test_each_duration_is_counted_where_it_was_over() -> None:
    assert counted(*FAILED_AND_RESUMED) == [
        ("failure:infra/unknown", 600, 540),
        ("job_ett", 1059, 0),
        ("phase:launcher_init", 60, 60),
        ("phase:launcher_init", 800, 100),
        ("phase:shutdown", 1060, 60),
        ("queue_wait", 0, 0),
        ("time_to_recover", 800, 200),
        ("time_to_start", 60, 60),
    ]


def test_a_start_that_reached_no_loop_is_counted_where_it_ended() -> None:
    events = (started(0), span(Phase.LAUNCHER_INIT, 0, 60), ended(90, Outcome.FAILED))

    assert ("phase:launcher_init", 90, 60) in counted(*events)


def test_a_phase_that_is_not_over_is_not_counted() -> None:
    events = (started(0), span(Phase.LAUNCHER_INIT, 0, 60))
    ledger = fold(events, {}, 60 * SECOND)

    tallies = [amount.tally for amount in instant_amounts(ledger) if amount.tally]
    assert [tally for tally in tallies if "phase" in tally[0]] == []


def test_a_job_that_only_queued_has_waited_until_now() -> None:
    queued = span(Phase.QUEUED, 0, 60)
    quota = span(Phase.QUEUED, 20, 60, stage="quota_wait")
    sums = [
        ("queue_wait_us", 60 * SECOND),
        ("quota_queue_us", 40 * SECOND),
        ("scheduler_queue_us", 20 * SECOND),
    ]

    assert list(instant_amounts(fold([queued, quota], {}, 60 * SECOND))) == [
        InstantAmounts(60 * SECOND, None, tuple(sums))
    ]


def test_each_run_has_a_time_to_start_and_the_time_before_it_is_no_part_of_the_job() -> None:
    events = [
        replace(event, id=f"{launch}-{event.id}", launch=launch)
        for launch, start in (("a", 0), ("b", 1000))
        for event in (
            started(start),
            span(Phase.TRAIN_LOOP, start + 10, start + 60),
            ended(start + 60, Outcome.COMPLETED),
        )
    ]
    over = JobEnded(id="over", at=60 * SECOND, outcome=Outcome.COMPLETED)
    ledger = fold([*events, over], {}, 10**12)

    assert [each for each in counted(*events, over) if each[0] == "time_to_start"] == [
        ("time_to_start", 10, 10),
        ("time_to_start", 1010, 10),
    ]
    assert [
        amount for amount in instant_amounts(ledger) if "between_runs_us" in dict(amount.sums)
    ] == [InstantAmounts(1000 * SECOND, None, (("between_runs_us", 940 * SECOND),))]
    assert not any(name == "time_to_recover" for name, _, _ in counted(*events, over))
    counters = job_counters(ledger).sums
    assert counters["between_runs_seconds"] == 940 * SECOND
    assert counters["attempts_started:first"] == 2
    steps = counter_steps(ledger, Steps(600 * SECOND))
    assert steps["between_runs_seconds"] == {1200 * SECOND: 940 * SECOND}


def test_speed_is_booked_where_its_attempt_ended() -> None:
    steps = [progress(50 * place + (50 if place == 6 else 0), 50 * place) for place in range(7)]
    loop = (started(0, gpus=8), *steps, span(Phase.TRAIN_LOOP, 0, 350))
    over = fold([*loop, ended(400, Outcome.COMPLETED)], {}, 10**12)
    running = fold(loop, {}, 350 * SECOND)

    for ledger, at_s in ((over, 400), (running, 350)):
        [amount] = [each for each in instant_amounts(ledger) if "slowed_us" in dict(each.sums)]
        assert (amount.at, amount.number) == (at_s * SECOND, 0)
        assert dict(amount.sums) == {
            "effective_at_reference_us": 300 * SECOND,
            "slowed_us": 50 * SECOND,
            "speed_unmeasured_us": 0,
        }
    counted_us = {"effective_speed_seconds:at_reference": 300 * SECOND,
                  "effective_speed_seconds:slowed": 50 * SECOND}  # fmt: skip
    _are_counted_where_it_ended(counted_us, over, running)


def test_training_that_no_steps_measure_and_waits_for_data_are_booked_likewise() -> None:
    attributes = {"data_wait_seconds": 30}
    loop = (
        started(0, gpus=8),
        span(Phase.TRAIN_LOOP, 0, 300),
        replace(progress(200, 10), attributes=attributes),
    )
    over = fold([*loop, ended(400, Outcome.COMPLETED)], {}, 10**12)
    running = fold(loop, {}, 300 * SECOND)

    for ledger, at_s in ((over, 400), (running, 300)):
        speed, waited = (
            amount
            for name in ("speed_unmeasured_us", "data_wait_us")
            for amount in instant_amounts(ledger)
            if name in dict(amount.sums)
        )
        assert speed.at == waited.at == at_s * SECOND
        assert dict(speed.weighted)["speed_unmeasured_weighted_us"] == 300 * SECOND
        assert dict(waited.sums) == {
            "data_wait_us": 30 * SECOND,
            "data_wait_loop_us": 200 * SECOND,
            "data_wait_attempts": 1,
        }
        assert dict(waited.weighted) == {
            "data_wait_weighted_us": 30 * SECOND,
            "data_wait_loop_weighted_us": 200 * SECOND,
        }
    counted_us = {"effective_speed_seconds:unmeasured": 300 * SECOND,
                  "data_wait_seconds": 30 * SECOND,
                  "data_wait_loop_seconds": 200 * SECOND}  # fmt: skip
    _are_counted_where_it_ended(counted_us, over, running)


def _are_counted_where_it_ended(
    counted_us: dict[str, int], over: JobLedger, running: JobLedger
) -> None:
    """Check the counters of an attempt that ended at 400 s; one that runs has not moved them."""
    assert {key: job_counters(over).sums[key] for key in counted_us} == counted_us
    assert not counted_us.keys() & job_counters(running).sums.keys()
    moves = counter_steps(over, Steps(60 * SECOND))
    assert {key: moves[key] for key in counted_us} == {
        key: {420 * SECOND: us} for key, us in counted_us.items()
    }
