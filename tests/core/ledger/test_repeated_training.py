"""Which time repeats what the job had done before."""

from ett_service.core.ledger.attempts.spans import NEVER
from ett_service.core.ledger.ownership import RepeatedTraining, points


def test_nothing_is_repeated_while_steps_rise() -> None:
    replay = RepeatedTraining(None)
    for at, step in ((10, 1), (20, 2), (30, 9)):
        replay.add(at, step, restored=False)

    assert replay.with_tail() == []


def test_interpolation_finds_the_instant_at_which_the_mark_is_reached_rounded_down() -> None:
    replay = RepeatedTraining(100)
    replay.add(0, 90, restored=True)
    replay.add(10, 120, restored=False)

    assert replay.with_tail() == [(-NEVER, 3)]


def test_before_the_first_point_of_a_later_attempt_all_is_repeated() -> None:
    replay = RepeatedTraining(5)
    replay.add(40, 5, restored=False)

    assert replay.with_tail() == [(-NEVER, 40)]


def test_after_a_last_point_below_the_mark_all_is_repeated() -> None:
    replay = RepeatedTraining(100)
    replay.add(0, 50, restored=True)
    replay.add(10, 60, restored=False)

    assert replay.with_tail() == [(-NEVER, 10), (10, NEVER)]


def test_a_step_back_without_a_restore_repeats_the_whole_stretch() -> None:
    replay = RepeatedTraining(None)
    for at, step in ((0, 10), (10, 4), (20, 16)):
        replay.add(at, step, restored=False)

    assert replay.with_tail() == [(0, 15)]


def test_a_restore_outside_a_loop_counts_at_the_start_of_the_next() -> None:
    loops = [(100, 200), (300, 400)]

    restore_points = points(
        [], [(50, 7, "a"), (150, 8, "b"), (200, 9, "c"), (450, 10, "d")], None, loops
    )

    assert [(at, step) for at, _, _, _, step in restore_points] == [(100, 7), (150, 8), (300, 9)]


def test_on_one_instant_the_implied_point_comes_first_and_progress_before_a_restore() -> None:
    restore_points = points([(100, 3, "p")], [(100, 1, "r")], (100, 2), [(100, 200)])

    assert [(step, restored) for *_, restored, step in restore_points] == [
        (2, True),
        (3, False),
        (1, True),
    ]
