"""Reading the lines: dirt is skipped and counted, the rest is read."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ett_service.importers.importer import Report
from ett_service.importers.logged_run import Log, Moment, Stop
from ett_service.importers.mllog import read_logs
from tests.builders.mllog import RUN, START_S, line, run_lines, without, written


def read(folder: Path, *lines: str) -> tuple[list[Log], Report]:
    report = Report()
    return read_logs(written(folder, *lines), report), report


def test_a_clean_run_is_one_log_with_all_its_records(tmp_path: Path) -> None:
    (log,), report = read(tmp_path, *RUN)

    assert (report.records, report.skipped) == (14, 0)
    assert log.outer_start == Moment(START_S * 1_000_000, 2)
    assert log.outer_stop == Moment((START_S + 100) * 1_000_000, 16)


def test_lines_that_are_cut_are_counted_and_shown_by_number(tmp_path: Path) -> None:
    cut = line("eval_accuracy", 60)[:70]
    (log,), report = read(tmp_path, *RUN[:3], cut, ":::MLLOG", ":::MLLOG {}", *RUN[3:])

    path = tmp_path / "result_0.txt"
    assert (report.records, report.skipped) == (14, 3)
    assert report.first_skipped == [
        f"{path}:4: the JSON after :::MLLOG is truncated or malformed",
        f"{path}:5: no JSON object after :::MLLOG",
        f"{path}:6: a record without a key",
    ]
    assert log.records == 14


def test_only_the_first_few_skipped_lines_are_shown(tmp_path: Path) -> None:
    _, report = read(tmp_path, *[":::MLLOG {"] * 1000)

    assert report.skipped == 1000
    assert len(report.first_skipped) == 5


def test_two_ranks_that_wrote_into_one_line_are_both_read(tmp_path: Path) -> None:
    both = line("init_start", 10) + line("init_start", 11, label="1: ")
    (log,), report = read(tmp_path, both, line("run_start", 20)[:40] + line("run_start", 21))

    assert (log.records, log.begins["init_start"].line, log.begins["run_start"].line) == (3, 1, 2)
    assert report.skipped == 1


def test_invalid_utf8_costs_no_more_than_what_it_garbles(tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt"
    good = line("init_start", 10).encode()
    path.write_bytes(b"\xff\xfe\x00garbage\n" + good + b"\n" + good[:30] + b"\xff" + good[30:])
    report = Report()
    (log,) = read_logs(path, report)

    assert log.records + report.skipped == 2
    assert log.begins["init_start"] == Moment((START_S + 10) * 1_000_000, 2)


@pytest.mark.parametrize(
    "time_ms", ["0", "-5", "1745261850", '"1745261850000"', "true", "1e400", "NaN", "null"]
)
def test_a_timestamp_that_says_nothing_leaves_what_the_record_says(
    tmp_path: Path, time_ms: str
) -> None:
    stop = '{"time_ms": ' + time_ms + ', "key": "run_stop", "metadata": {"status": "aborted"}}'
    (log,), report = read(tmp_path, *without("run_stop"), f"0: :::MLLOG {stop}")

    assert report.skipped == 1
    assert "run_stop" not in log.begins
    assert log.stop == Stop(0, "aborted", None)


def test_deep_nesting_is_a_broken_line_and_no_more(tmp_path: Path) -> None:
    _, report = read(tmp_path, ':::MLLOG {"key": ' + "[" * 100_000, *RUN)

    assert (report.skipped, report.records) == (1, 14)


def test_a_line_without_end_is_read_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt"
    with path.open("wb") as file:
        file.write(b"\0" * 3_000_000 + b"\n")
        file.write(line("init_start", 10)[:50].encode())
    report = Report()
    read_logs(path, report)

    assert report.first_skipped == [f"{path}:2: the JSON after :::MLLOG is truncated or malformed"]


def test_the_traced_command_and_its_output_are_one_start(tmp_path: Path) -> None:
    (log,), _ = read(tmp_path, f"+ echo 'RUNANDTIME_START {START_S}'", *RUN)

    assert log.outer_start == Moment(START_S * 1_000_000, 1)


@pytest.mark.parametrize(
    "line",
    [
        ":::DLPAL /images/llm.sqsh 513 9 node[002-004] 'unknown' 9xBOX",
        "0: RANK 0: WORLD_SIZE 8, SLURM_JOB_ID 513, SLURM_NTASKS 8",
        "SLURM_JOBID=513",
        "0: slurmstepd: error: *** STEP 513.21 ON node002 CANCELLED AT 2025-04-21T14:07:43 ***",
        "slurmstepd: error: *** JOB 513 ON node002 CANCELLED AT 2025-04-21T14:07:43 ***",
        "srun: Force Terminated StepId=513.21",
    ],
)
def test_the_allocation_is_known_from_any_of_the_launchers_lines(tmp_path: Path, line: str) -> None:
    (log,), _ = read(tmp_path, *RUN[:4], line, *RUN[4:])

    assert log.allocation.slurm_id == "513"


def test_the_output_of_a_whole_slurm_job_holds_a_run_for_each_trial(tmp_path: Path) -> None:
    logs, _ = read(
        tmp_path,
        "Beginning trial 1 of 2",
        ":::DLPAL /images/llm.sqsh 513 9 node[002-004] 'unknown' 9xBOX",
        *RUN,
        "Beginning trial 2 of 2",
        *run_lines(200),
    )

    assert [log.trial for log in logs] == [(1, 2), (2, 2)]
    assert [log.allocation.slurm_id for log in logs] == ["513", "513"]
    assert [log.records for log in logs] == [14, 14]


def test_runs_written_one_after_another_are_told_apart_without_a_launcher(tmp_path: Path) -> None:
    logs, _ = read(tmp_path, *without("RUNANDTIME"), *without("RUNANDTIME", after=200))

    assert [log.records for log in logs] == [14, 14]


def test_remarks_after_the_stop_are_no_run_of_their_own(tmp_path: Path) -> None:
    remarks = (line("submission_org", 95, "us"), line("status", 96, "success"))
    (log,), _ = read(tmp_path, *without("RUNANDTIME"), *remarks)

    assert log.records == 16


@settings(max_examples=200)
@given(st.binary(max_size=300), st.integers(0, 1000), st.integers(0, 40))
def test_no_garbage_anywhere_stops_the_reading(
    tmp_path_factory: pytest.TempPathFactory, garbage: bytes, at: int, lost: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "garbled.txt"
    whole = "\n".join(RUN).encode()
    path.write_bytes(whole[:at] + garbage + whole[at + lost :])
    report = Report()
    read_logs(path, report)

    cut_or_garbled = garbage.count(b"\n") + len(garbage) + lost
    assert report.records >= 14 - 2 - cut_or_garbled


def test_a_number_that_the_file_does_not_end_yet_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt"
    path.write_text("\n".join((*RUN[:5], "SLURM_JOB_ID 51")))
    (log,) = read_logs(path, Report())
    path.write_text("\n".join((*RUN[:5], f"RUNANDTIME_STOP {START_S}"[:-1])))
    (cut,) = read_logs(path, Report())

    assert (log.allocation.slurm_id, cut.outer_stop) == ("", None)
