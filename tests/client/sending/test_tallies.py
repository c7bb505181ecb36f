"""What processes of a launch leave of what they sent."""

from pathlib import Path

from ett_service.client.sending.courier import Tally
from ett_service.client.sending.tallies import LastEnd, collect, last_end, leave


def test_what_processes_left_is_summed_up_once(tmp_path: Path) -> None:
    leave(tmp_path, "launch/1", Tally(1, 2, 3, 4), LastEnd(7, 0))
    leave(tmp_path, "launch/1", Tally(10, 20, 30, 40), LastEnd(9, 1))
    leave(tmp_path, "launch/2", Tally(5), LastEnd(8, 0))
    assert last_end(tmp_path, "launch/1") == LastEnd(9, 1)
    assert collect(tmp_path, "launch/1") == Tally(11, 22, 33, 44)
    assert collect(tmp_path, "launch/1") == Tally()
    assert collect(tmp_path, "launch/2") == Tally(5)


def test_a_line_that_is_torn_costs_no_more_than_the_count(tmp_path: Path) -> None:
    leave(tmp_path, "l", Tally(1), LastEnd(1, 0))
    (path,) = tmp_path.iterdir()
    path.write_text(path.read_text() + "7 ")
    assert collect(tmp_path, "l").accepted >= 1
