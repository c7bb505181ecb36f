from ett_service.core.ledger.results import Checkpoint
from ett_service.fleet.advice import job_gaps, latest_part
from ett_service.fleet.scope import Window
from ett_service.storage.fleet.histories import MOST_GAPS

HOUR = 3_600_000_000


def saved(number: int, at: int) -> Checkpoint:
    return Checkpoint(f"{number}-{at}", number, at, at, None, None)


def test_gaps_lie_between_checkpoints_of_one_attempt_whatever_their_order() -> None:
    checkpoints = [
        saved(1, 95),
        saved(0, 30),
        saved(0, 10),
        saved(0, 10),
        saved(1, 90),
        saved(0, 60),
    ]

    assert job_gaps(checkpoints) == [20, 30, 5]


def test_one_checkpoint_has_no_gap() -> None:
    assert job_gaps([saved(0, 10), saved(1, 20)]) == job_gaps([]) == []


def test_of_very_many_saves_the_latest_will_do() -> None:
    week = Window(0, 168 * HOUR)

    assert latest_part(week, 2 * MOST_GAPS) == week
    assert latest_part(week, 8 * MOST_GAPS) == Window(126 * HOUR, 168 * HOUR)
    assert latest_part(week, 10**12) == Window(167 * HOUR, 168 * HOUR)
