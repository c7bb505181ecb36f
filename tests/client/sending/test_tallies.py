"""What processes of a launch leave of what they sent."""

from pathlib import Path

from ett_service.client.sending.courier import Tally
from ett_service.client.sending.tallies import LastEnd, collect, job_of, last_end, leave


def test_what_processes_left_is_summed_up_once(tmp_path: Path) -> None:
    leave(tmp_path, "launch/1", Tally(1, 2, 3, 4), LastEnd(7, 0, "a job"))
    leave(tmp_path, "launch/1", Tally(10, 20, 30, 40), LastEnd(9, 1, "a job"))
    leave(tmp_path, "launch/2", Tally(5), LastEnd(8, 0, "a job"))
    assert last_end(tmp_path, "launch/1") == LastEnd(9, 1, "a job")
    assert collect(tmp_path, "launch/1") == Tally(11, 22, 33, 44)
    assert collect(tmp_path, "launch/1") == Tally()
    assert collect(tmp_path, "launch/2") == Tally(5)


def test_a_line_that_is_torn_costs_no_more_than_the_count(tmp_path: Path) -> None:
    leave(tmp_path, "l", Tally(1), LastEnd(1, 0, "j"))
    (path,) = tmp_path.iterdir()
    path.write_text(path.read_text() + "7 ")
    assert collect(tmp_path, "l").accepted >= 1


def test_the_job_that_a_process_named_is_known_by_its_launch(tmp_path: Path) -> None:
    for job, launch, at_us in (("mine, ü", "l", 7), ("of others", "m", 9)):
        (tmp_path / launch).mkdir()
        leave(tmp_path / launch, launch, Tally(1), LastEnd(at_us, 0, job))
    assert job_of(tmp_path, "l", 7) == "mine, ü"
    assert job_of(tmp_path, "l", 8) is None
    assert job_of(tmp_path, "n", 0) is job_of(tmp_path / "none", "l", 0) is None
