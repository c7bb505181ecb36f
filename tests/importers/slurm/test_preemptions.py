"""The log of Slurm's controller, as far as it says who took whose place."""

from pathlib import Path

import pytest

from ett_service.importers.instants import zone
from ett_service.importers.slurm.clock import Clock, utc
from ett_service.importers.slurm.preemptions import (
    Preemption,
    Preemptions,
    is_controller_log,
    preemptions_of,
)
from tests.builders.sacct import record

NOON = 1_772_366_400


def line(text: str, at: str = "2026-03-01T12:00:00.500") -> bytes:
    return f"[{at}] {text}".encode()


@pytest.mark.parametrize(
    ("text", "launches"),
    [
        ("preempted JobId=7 has been requeued to reclaim resources for JobId=9", ("7", "9")),
        ("preempted JobId=7 has been killed to reclaim resources for JobId=9", ("7", "9")),
        ("preempted JobId=7_3(8) has been requeued to reclaim resources for JobId=9_1(11)",
         ("8", "11")),
        ("preempted JobId=7+1(8) has been requeued to reclaim resources for JobId=9+0(9)",
         ("7", "9")),
        ("setting 30 sec preemption grace time for JobId=7 to reclaim resources for JobId=9",
         ("7", "9")),
        ("slurm_job_preempt: preempted JobId=7 has been killed to reclaim resources for JobId=9",
         ("7", "9")),
    ],
)  # fmt: skip
def test_a_line_names_both_jobs(text: str, launches: tuple[str, str]) -> None:
    assert [*preemptions_of([line(text)], utc())] == [Preemption(NOON, *launches)]


@pytest.mark.parametrize(
    "text",
    [
        "preempted JobId=7 had to be killed",
        "preempted JobId=7 suspended by gang scheduler to reclaim resources for JobId=9",
        "preempted JobId=7 has been requeued to reclaim resources for JobId=",
    ],
)
def test_other_lines_name_none(text: str) -> None:
    assert not [*preemptions_of([line(text), line("x", at="no time"), b"\xff"], utc())]


def test_a_time_without_a_zone_is_that_of_the_clock() -> None:
    text = "preempted JobId=7 has been killed to reclaim resources for JobId=9"
    paris = Clock(zone("Europe/Paris"))
    (local,) = preemptions_of([line(text)], paris)
    (plain,) = preemptions_of([line(text, at="2026-03-01T12:00:00.500+01:00")], utc())
    assert local.at == plain.at == NOON - 3600


def test_each_life_had_to_go_for_the_job_that_was_named_last_in_it() -> None:
    preemptions = Preemptions(
        [
            Preemption(NOON + 60, "8041", "8"),
            Preemption(NOON + 3599, "8041", "9"),
            Preemption(NOON + 7000, "8041", "10"),
            Preemption(NOON + 60, "1", "2"),
        ]
    )
    assert preemptions.taker_of(record(State="PREEMPTED")) == "9"
    assert preemptions.taker_of(record(State="FAILED")) == ""
    assert preemptions.taker_of(record(State="PREEMPTED", JobIDRaw="5")) == ""
    assert preemptions.takers_of("8041") == ["8", "9", "10"]
    assert preemptions.takers == {"8", "9", "10", "2"}


def test_a_log_is_known_by_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(line("slurmctld version 22.05.8 started\n"))
    assert is_controller_log(path)
    path.write_text("JobID|State|Start|End\n")
    assert not is_controller_log(path)
    assert not is_controller_log(tmp_path / "none")
