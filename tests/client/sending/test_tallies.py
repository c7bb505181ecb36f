"""What processes of a launch leave of what they sent."""

from pathlib import Path

from ett_service.client.sending.courier import Tally
from ett_service.client.sending.tallies import collect, leave


def test_what_processes_left_is_summed_up_once(tmp_path: Path) -> None:
    leave(tmp_path, "launch/1", Tally(1, 2, 3, 4))
    leave(tmp_path, "launch/1", Tally(10, 20, 30, 40))
    leave(tmp_path, "launch/2", Tally(5))
    assert collect(tmp_path, "launch/1") == Tally(11, 22, 33, 44)
    assert collect(tmp_path, "launch/1") == Tally()
    assert collect(tmp_path, "launch/2") == Tally(5)


def test_a_line_that_is_torn_costs_no_more_than_the_count(tmp_path: Path) -> None:
    leave(tmp_path, "l", Tally(1))
    (path,) = tmp_path.iterdir()
    path.write_text(path.read_text() + "7 ")
    assert collect(tmp_path, "l").accepted >= 1
