"""Which rank takes longest, by what each reports of itself."""

from random import Random

import pytest

from ett_service.core.events import AttemptEnded, Event, Heartbeat
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.ranks import RankTime, SlowestRank, rank_times, slowest_ranks
from ett_service.core.words import Outcome
from tests.core.timeline import SECOND, ended, started


def _report(
    at_s: int, rank: int | None, steps: object, loop: object, wait: object = None, host: str = "a"
) -> Event:
    attributes = {"steps": steps, "loop_seconds": loop, "data_wait_seconds": wait}
    return Heartbeat(
        id=f"{at_s}-{rank}", at=at_s * SECOND, rank=rank, host=host, producer=f"p{rank}",
        attributes={name: value for name, value in attributes.items() if value is not None},
    )  # fmt: skip


def _times(*events: Event) -> list[RankTime]:
    whole = [started(0), *events, ended(1000, Outcome.COMPLETED)]
    return rank_times(whole, {}, fold(whole, {}, 1000 * SECOND))


def _waiting(rank: int, waits: list[float], host: str) -> list[Event]:
    """Windows of ten steps, each of them 20 s long, with such waits for data in them."""
    return [
        _report(30 * (n + 1), rank, 10 * (n + 1), 20.0 * (n + 1), sum(waits[: n + 1]), host)
        for n in range(len(waits))
    ]


SYNCHRONOUS = [
    *_waiting(0, [1, 1, 1], "a"),
    *_waiting(1, [9, 8, 1], "b"),
    *_waiting(2, [1, 2, 1], "b"),
]


def test_in_step_all_ranks_show_one_step_time_and_waits_for_data_tell_them_apart() -> None:
    times = _times(*SYNCHRONOUS)

    assert [(time.rank, time.host, time.windows, time.steps) for time in times] == [
        (0, "a", 3, 30), (1, "b", 3, 30), (2, "b", 3, 30), (None, "a", 3, 30), (None, "b", 6, 60),
    ]  # fmt: skip
    assert {time.step_seconds for time in times} == {2.0}
    waits = [time.data_wait_seconds for time in times]
    assert waits == pytest.approx([0.1, 0.8, 0.1, 0.1, 0.15])
    by_step, by_wait = slowest_ranks(times)
    assert (by_step.seconds, by_step.median_seconds) == (2.0, 2.0)
    assert by_wait == SlowestRank(0, "data_wait_seconds", 1, "b", 0.8, 0.1, 3, 3)


def test_the_order_in_which_reports_arrive_changes_nothing() -> None:
    shuffled = [*SYNCHRONOUS, *SYNCHRONOUS]
    Random(3).shuffle(shuffled)

    assert _times(*shuffled) == _times(*SYNCHRONOUS)


def test_a_rank_that_is_slow_on_its_own_shows_by_its_step_time() -> None:
    times = _times(_report(30, 0, 10, 20), _report(30, 1, 10, 35))
    [slowest] = slowest_ranks(times)

    assert (slowest.measure, slowest.rank) == ("step_seconds", 1)
    assert (slowest.seconds, slowest.median_seconds) == (3.5, 2.0)
    assert {time.data_wait_seconds for time in times} == {None}


def test_of_equally_slow_ranks_the_lowest_is_named() -> None:
    [slowest] = slowest_ranks(_times(_report(30, 2, 10, 20), _report(30, 1, 10, 20)))

    assert slowest.rank == 1


def test_one_rank_is_compared_with_nobody() -> None:
    assert slowest_ranks(_times(_report(30, 0, 10, 20), _report(60, None, 90, 900))) == []


def test_totals_that_stand_still_or_fall_make_no_window() -> None:
    reports = [(10, 20), (10, 40), (5, 50), (25, 30), (35, 60)]
    [time, _] = _times(*(_report(30 * (n + 1), 0, *each) for n, each in enumerate(reports)))

    assert (time.windows, time.steps, time.step_seconds) == (2, 20, 2.5)


def test_what_is_no_total_reports_nothing() -> None:
    strange = [(True, 1), ("9", 1), (-1, 1), (3.5, 1), (3, None), (3, "1"), (3, -1)]

    assert _times(*(_report(30 + n, 0, *each) for n, each in enumerate(strange))) == []


def test_the_end_of_a_process_counts_as_its_last_report() -> None:
    totals = {"steps": 4, "loop_seconds": 2.0, "data_wait_seconds": 1.0}
    end = AttemptEnded(
        id="end", at=90 * SECOND, cycle=0, rank=3, host="a", outcome=Outcome.COMPLETED,
        attributes=totals,
    )  # fmt: skip
    [time, _] = _times(end)

    assert (time.rank, time.step_seconds, time.data_wait_seconds) == (3, 0.5, 0.25)
