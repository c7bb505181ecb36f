"""What Megatron-LM prints, as the facts of its lives."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ett_service.importers.importer import Report
from ett_service.importers.logs.local_times import LocalTimes
from ett_service.importers.logs.megatron_output import Output, TrainerLife
from tests.builders.megatron import cancelled, iteration, mark, saved, start_up, written


def lives(path: Path, *lines: str) -> tuple[list[TrainerLife], Report]:
    report = Report()
    path = written(path / "a.out", *lines)
    output = Output(path, LocalTimes(path, None, report), report)
    output.read()
    return output.lives, report


def of(life: TrainerLife, kind: str) -> list[dict[str, Any]]:
    return [fact.event for fact in life.facts if fact.event["type"] == kind]


def clocks(events: Iterable[dict[str, Any]]) -> list[str]:
    return [event["at"][11:23] for event in events]


def test_a_step_ends_where_its_time_has_passed(tmp_path: Path) -> None:
    (life,), report = lives(tmp_path, *start_up(), iteration(10, 1500.5), iteration(20, 2000))

    assert clocks(of(life, "progress")) == ["08:00:19.005", "08:00:39.005"]
    assert [event["samples"] for event in of(life, "progress")] == [40, 80]
    assert report.records == 6


def test_lines_that_were_written_twice_are_one_life_and_one_step(tmp_path: Path) -> None:
    lines = [*start_up(), iteration(10, 1500), iteration(20, 2000)]
    (life,), _ = lives(tmp_path, *(each for line in lines for each in (line, line)))

    assert clocks(of(life, "progress")) == ["08:00:19.000", "08:00:39.000"]
    again, _ = lives(tmp_path, *lines, *start_up("09:00:0"))
    assert [each.cycle for each in again] == [0, 1]


def test_the_start_up_is_split_by_its_marks(tmp_path: Path) -> None:
    lines = [*start_up(), iteration(1, 10)]
    lines.insert(1, "time (ms) | load-checkpoint: 250.0\n")
    (life,), _ = lives(tmp_path, *lines)

    assert [
        (span["stage"], span["start"][17:23], span["at"][17:23]) for span in of(life, "span")
    ] == [
        ("train_module_creation", "01.000", "02.000"),
        ("checkpoint_restore", "01.750", "02.000"),
        ("preproc_creation", "02.000", "03.000"),
        ("pre_train", "03.000", "04.000"),
    ]


def test_a_line_with_its_own_instant_puts_the_clock_right(tmp_path: Path) -> None:
    lines = [*start_up(), iteration(10, 100, "08:00:09.5"), iteration(20, 1500)]
    (life,), _ = lives(tmp_path, *lines, iteration(30, 100, "08:01:00"))

    assert clocks(of(life, "progress")) == ["08:00:09.500", "08:00:24.500", "08:01:00.000"]


def test_a_loaded_step_is_where_the_first_interval_begins(tmp_path: Path) -> None:
    lines = start_up()
    lines.insert(1, "  successfully loaded checkpoint from /save at iteration 300\n")
    (life,), _ = lives(tmp_path, *lines, iteration(310, 1000))

    assert [event["step"] for event in of(life, "checkpoint_restored")] == [300]
    assert clocks(of(life, "progress")) == ["08:00:14.000"]


@pytest.mark.parametrize("prefix", ["", "0: ", "[default7]:"])
def test_what_launchers_put_before_a_line_is_passed_over(tmp_path: Path, prefix: str) -> None:
    lines = [
        "  log_interval .................................... 10\n",
        "[2024-05-13 08:00:00,250] [INFO] [x.py:1] a\n",
        iteration(20, 1000),
        iteration(30, 100, "08:01:00.5"),
        "[rank3]: RuntimeError: NCCL\n",
    ]
    (life,), _ = lives(tmp_path, *(prefix + line for line in lines))

    assert clocks(of(life, "progress")) == ["08:00:10.250", "08:01:00.500"]
    assert of(life, "attempt_ended")[0]["exception"] == "RuntimeError"


def test_a_save_stops_the_loop_and_is_durable(tmp_path: Path) -> None:
    lines = [*start_up(), iteration(10, 100), *saved(10, 2500), iteration(20, 1000)]
    (life,), _ = lives(tmp_path, *lines)

    assert [event["step"] for event in of(life, "checkpoint_saved")] == [10]
    (save,) = (span for span in of(life, "span") if span["phase"] == "checkpoint_blocking")
    assert (save["start"][17:23], save["at"][17:23]) == ("05.000", "07.500")
    assert clocks(of(life, "progress"))[-1] == "08:00:15.000"  # whose mean holds the save


def test_timers_of_newer_versions_are_read(tmp_path: Path) -> None:
    timers = "(min, max) time across ranks (ms):\n    evaluate .......: (1500.00, 1600.00)\n"
    (life,), _ = lives(tmp_path, *start_up(), iteration(10, 100), timers)

    (span,) = (span for span in of(life, "span") if span["phase"] == "evaluation")
    assert (span["start"][17:23], span["at"][17:23]) == ("05.000", "06.500")


def test_slurm_says_how_it_ended(tmp_path: Path) -> None:
    ends = {
        "": ("cancelled", "CANCELLED"),
        " DUE TO TIME LIMIT": ("failed", "TIMEOUT"),
        " DUE TO PREEMPTION": ("preempted", "PREEMPTED"),
        " DUE TO NODE FAILURE": ("failed", "NODE_FAIL"),
    }
    for why, expected in ends.items():
        end = cancelled("09:00:00", why)
        (life,), _ = lives(tmp_path, *start_up(), iteration(1, 10), end, end, "XError: late\n")
        (event,) = of(life, "attempt_ended")
        assert (event["outcome"], event["scheduler_state"]) == expected


def test_an_exception_after_the_last_step_is_a_failure(tmp_path: Path) -> None:
    warning = "ImportWarningError: no apex\n"
    crash = [
        "Traceback (most recent call last):\n",
        "[rank3]: torch.OutOfMemoryError: CUDA out of\n",
    ]
    (life,), _ = lives(tmp_path, *start_up(), warning, iteration(1, 10), *crash)

    (event,) = of(life, "attempt_ended")
    assert (event["outcome"], event["exception"]) == ("failed", "torch.OutOfMemoryError")
    assert event["message"] == "torch.OutOfMemoryError: CUDA out of"
    assert lives(tmp_path, *start_up(), warning, iteration(1, 10))[0][0].errors == []


def test_a_log_that_just_stops_is_heard_to_its_last_instant(tmp_path: Path) -> None:
    stamp = "[2024-05-13 08:09:00,500] [INFO] [x.py:1] still here\n"
    (life,), _ = lives(tmp_path, *start_up(), iteration(1, 10), stamp)
    assert clocks(of(life, "heartbeat")) == ["08:09:00.500"]
    (life,), _ = lives(tmp_path, *start_up(), iteration(1, 10))
    assert of(life, "heartbeat") == []
    (life,), _ = lives(tmp_path, stamp)
    assert life.facts == []  # any program writes such lines


def test_a_run_that_says_that_it_is_done_is_completed(tmp_path: Path) -> None:
    done = mark("after training is done", "08:00:30")
    (life,), _ = lives(tmp_path, *start_up(), iteration(10, 100), done)

    (event,) = of(life, "attempt_ended")
    assert (event["outcome"], clocks([event])) == ("completed", ["08:00:30.000"])


def test_a_start_up_after_a_loop_is_another_life(tmp_path: Path) -> None:
    lines = [*start_up(), iteration(10, 100), *start_up("09:00:0"), iteration(6, 100)]
    first, second = lives(tmp_path, *lines)[0]

    assert (first.cycle, second.cycle) == (0, 1)
    assert [event["step"] for event in of(second, "progress")] == [6]


def test_without_marks_the_loop_begins_where_the_log_was_last_heard(tmp_path: Path) -> None:
    lines = ["[2024-05-13 08:00:00,250] [INFO] [x.py:1] a\n", "[2024-05-13 08:00:09,250] b\n"]
    (life,), _ = lives(tmp_path, *lines, iteration(1, 2000))

    begins = [(event["phase"], event["at"][17:23]) for event in of(life, "phase_started")]
    assert begins == [("launcher_init", "00.250"), ("train_loop", "09.250")]
    assert clocks(of(life, "progress")) == ["08:00:11.250"]


def test_steps_every_second_are_thinned_out_but_for_the_last(tmp_path: Path) -> None:
    steps = [iteration(step, 1000) for step in range(1, 36)]
    (life,), _ = lives(tmp_path, *start_up(), *steps, iteration(35, 1000))

    assert [event["step"] for event in of(life, "progress")] == [1, 11, 21, 31, 35]


def test_what_is_no_time_is_skipped_by_line(tmp_path: Path) -> None:
    _, report = lives(tmp_path, "[2024-13-45 08:00:00] x\n", *start_up(), "\xff\x00junk\n")
    assert report.first_skipped == [f"{tmp_path}/a.out:1: its time is none"]
