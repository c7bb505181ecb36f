"""The log of Slurm's controller, as it grows and is rotated."""

import os
from pathlib import Path

import pytest

from ett_service.watchers.slurm_log import ControllerLog


def line(number: int) -> str:
    text = f"preempted JobId={number} has been requeued to reclaim resources for JobId=9"
    return f"[2026-03-01T12:00:00.500] {text}\n"


@pytest.fixture
def log(tmp_path: Path) -> ControllerLog:
    return ControllerLog(tmp_path / "slurmctld.log")


def launches(log: ControllerLog, most: int = 9) -> list[int]:
    assert log.read() == ""
    return [n for n in range(most) for _ in log.preemptions.takers_of(str(n))]


def test_what_is_added_is_read_once_and_by_whole_lines(log: ControllerLog) -> None:
    assert log.path is not None
    with log.path.open("w", buffering=1) as file:
        file.write(line(1))
        assert launches(log) == [1]
        file.write(line(2)[:40])
        file.flush()
        assert launches(log) == [1]
        file.write(line(2)[40:])
        assert launches(log) == [1, 2]
    assert launches(log) == [1, 2]


def test_a_log_that_was_rotated_or_cut_is_read_from_its_begin(log: ControllerLog) -> None:
    assert log.path is not None
    log.path.write_text(line(1) + line(2))
    launches(log)
    log.path.rename(log.path.with_suffix(".1"))
    log.path.write_text(line(3))
    assert launches(log) == [1, 2, 3]
    os.truncate(log.path, 0)
    assert launches(log) == [1, 2, 3]
    log.path.write_text(line(4))
    assert launches(log) == [1, 2, 3, 4]


def test_what_cannot_be_read_is_named(log: ControllerLog) -> None:
    assert log.path is not None
    assert log.read() == f"{log.path}: No such file or directory"
    os.mkfifo(log.path)
    assert log.read().startswith(f"{log.path}: is a FIFO")
    assert ControllerLog().read() == ""
