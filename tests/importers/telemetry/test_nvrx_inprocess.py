"""NVRx's restarts in process: every rank says why it left the function, and that it is back."""

from pathlib import Path

from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Cause, Outcome
from ett_service.importers.importer import Report
from ett_service.importers.telemetry.nvrx import read
from tests.builders.imports import Wire, ledgers_of, seconds

OUT_OF_MEMORY = "OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB')"
RESTART = "RankShouldRestart()"
PASSED = "HealthCheckPassed()"


def record(at: str, rank: int, name: str, what: str) -> str:
    return (
        f"{rank}: 2026-05-05 09:00:00,1 [ERROR] [n001] wrap.py:582 "
        f"[2026-05-05 10:{at}.000000] {rank=} {name}: {what}"
    )


def restart(minute: int, *ranks: int, first: str = OUT_OF_MEMORY) -> list[str]:
    """Rank 1 fails, all leave the function 2 s later, and are back after 8 s."""
    return [
        record(f"{minute}:00", 1, "fn_ex", first),
        *(record(f"{minute}:0{2 + rank}", rank, "term_ex", RESTART) for rank in ranks),
        *(record(f"{minute}:08", rank, "restart_ex", PASSED) for rank in ranks),
    ]


def imported(path: Path, *lines: str) -> tuple[Wire, Report]:
    path.write_text("\n".join(["unrelated text_ex: of a trainer", *lines, ""]))
    runs, report = read([path])
    return [event for run in runs for event in run.events], report


def ledger(path: Path, *lines: str) -> JobLedger:
    (only,) = ledgers_of(imported(path, *lines)[0]).values()
    return only


def test_each_restart_ends_a_cycle_and_begins_the_next(tmp_path: Path) -> None:
    job = ledger(tmp_path / "train-513.out", *restart(10, 0, 1), *restart(20, 0, 1))
    attempts = [(each.launch, each.cycle, each.outcome, each.cause) for each in job.attempts]
    assert attempts == [
        ("513", 0, Outcome.FAILED, Cause.OOM),
        ("513", 1, Outcome.FAILED, Cause.OOM),
        ("513", 2, Outcome.LOST, Cause.LOST_CONTACT),
    ]
    assert seconds(job)[Category.SHUTDOWN] == 16


def test_the_logs_of_all_ranks_are_one_restart_whatever_their_order(tmp_path: Path) -> None:
    lines = [*restart(10, 0, 1, 2), *restart(20, 0, 1, 2)]
    forward, _ = imported(tmp_path / "a-513.out", *lines)
    backward, _ = imported(tmp_path / "a-513.out", *reversed(lines))
    assert {each["id"] for each in forward} == {each["id"] for each in backward}
    begins = [each for each in forward if each["type"] == "attempt_started"]
    assert [each["cycle"] for each in begins] == [1, 2]


def test_a_rank_that_was_only_told_to_restart_names_no_exception(tmp_path: Path) -> None:
    hung = [record("10:03", 0, "term_ex", RESTART), record("10:08", 0, "restart_ex", PASSED)]
    wire, _ = imported(tmp_path / "a.log", *hung)
    ended = next(each for each in wire if each["type"] == "attempt_ended")
    assert "message" not in ended
    assert ended["reason"] == "NVRx: rank 0 left the function (term_ex)"


def test_a_rank_that_leaves_for_good_does_not_stop_the_others(tmp_path: Path) -> None:
    lines = [*restart(10, 0, 1)[:-1], record("10:09", 1, "exit_ex", "HealthCheckError()")]
    wire, _ = imported(tmp_path / "a.log", *lines)
    assert [each["cycle"] for each in wire if each["type"] == "attempt_started"] == [1]


def test_where_all_ranks_leave_for_good_nothing_begins(tmp_path: Path) -> None:
    lines = [*restart(10, 0)[:-1], record("10:09", 0, "exit_ex", "RestartAbort()")]
    lines += [record("10:09", 1, "exit_ex", "RestartAbort()")]
    wire, _ = imported(tmp_path / "a.log", *lines)
    assert {each["type"] for each in wire} == {"attempt_ended", "span"}
    assert {each["cycle"] for each in wire} == {0}


def test_a_warning_is_enough_where_logs_have_no_more(tmp_path: Path) -> None:
    warnings = [line for line in [*restart(10, 0), *restart(20, 0)] if "restart_ex" not in line]
    wire, report = imported(tmp_path / "a.log", *warnings)
    assert [each["cycle"] for each in wire if each["type"] == "attempt_started"] == [1, 2]
    assert (report.records, report.skipped) == (4, 0)


def test_inside_cycles_of_the_launcher_they_are_left_out_and_reported(tmp_path: Path) -> None:
    launched = (
        "[n001] profiling.py:91   - Cycle: 0 Event: rendezvous_started Node: n001 Rank: None "
        "Time: 2026-05-05 10:00:00.000 UTC"
    )
    wire, report = imported(tmp_path / "a.log", launched, *restart(10, 0))
    assert [each["type"] for each in wire] == ["attempt_started"]
    assert report.notes == [
        f"{tmp_path / 'a.log'}: restarts in process inside cycles of the launcher are left out"
    ]
