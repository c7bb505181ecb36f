"""What a watcher sees of Slurm, with stand-ins for ``sacct`` and ``squeue``."""

import os
from pathlib import Path

import pytest

from ett_service.importers.importer import ImportedRun
from ett_service.importers.instants import zone
from ett_service.importers.slurm.facts import Naming
from ett_service.importers.slurm.sacct import read
from ett_service.watchers.slurm import ControllerLog, Slurm
from ett_service.watchers.watcher import Unavailable
from tests.builders.sacct import row, titles, written
from tests.builders.servers.accounting import Accounting, accounting

NOON_S = 1_772_366_400
RUNNING = {"State": "RUNNING", "End": "Unknown"}
PREEMPTED = {"State": "PREEMPTED", "End": "2026-03-01T12:30:00"}
AGAIN = {"Submit": "2026-03-01T12:30:00", "Eligible": "2026-03-01T12:32:00",
         "Start": "2026-03-01T12:40:00", **RUNNING}  # fmt: skip


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Accounting:
    return accounting(tmp_path, monkeypatch)


class Clock:
    """A time that stands still."""

    def __init__(self, at_s: float = NOON_S + 3600) -> None:
        self.at_s = at_s

    def __call__(self) -> float:
        return self.at_s


def everything(source: Slurm) -> list[ImportedRun]:
    return source.runs(list(source.look().marks))


def attempts(runs: list[ImportedRun]) -> list[tuple[str, int, str]]:
    return [
        (run.job, event["attempt"], event["at"][11:16])
        for run in runs
        for event in run.events
        if event["type"] == "attempt_started"
    ]


def test_it_says_what_the_importer_says(slurm: Accounting, tmp_path: Path) -> None:
    second = AGAIN | {"End": "2026-03-01T12:50:00", "State": "FAILED"}
    slurm.holds({}, {"JobID": "9", **PREEMPTED}, {"JobID": "9", **second})
    runs = everything(Slurm(Naming(), os.environ, now=Clock()))
    rows = [row(), row(JobID="9", **PREEMPTED), row(JobID="9", **second)]
    imported, _ = read([written(tmp_path, *rows)], zone=zone("UTC"))
    assert sorted(str(event) for run in runs for event in run.events) == sorted(
        str(event) for run in imported for event in run.events
    )


def test_an_attempt_keeps_its_number_when_its_first_record_leaves_the_window(
    slurm: Accounting,
) -> None:
    slurm.holds(PREEMPTED, AGAIN)
    source = Slurm(Naming(), os.environ, since_s=600, now=Clock(NOON_S + 7200))
    assert attempts(everything(source)) == [("llm", 0, "12:00"), ("llm", 1, "12:40")]
    assert any("--jobs 8041" in call for call in slurm.calls)


def test_restarts_that_slurm_counts_need_no_second_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = accounting(tmp_path, monkeypatch, "Restarts")
    slurm.holds(PREEMPTED | {"Restarts": "0"}, AGAIN | {"Restarts": "1"})
    source = Slurm(Naming(), os.environ, since_s=600, now=Clock(NOON_S + 7200))
    assert attempts(everything(source)) == [("llm", 1, "12:40")]
    assert not any("--jobs" in call for call in slurm.calls)


def test_a_job_that_runs_is_alive_every_five_minutes(slurm: Accounting) -> None:
    slurm.holds(RUNNING)
    clock = Clock(NOON_S + 100)
    source = Slurm(Naming(), os.environ, now=clock)
    marks = [source.look().marks]
    for at_s in (NOON_S + 299, NOON_S + 300, NOON_S + 599):
        clock.at_s = at_s
        marks.append(source.look().marks)
    assert marks[0] == marks[1]
    assert marks[1] != marks[2]
    assert marks[2] == marks[3]
    (run,) = everything(source)
    assert titles(run.events)[-1] == ("heartbeat", "12:05:00")


def test_what_only_the_database_holds_for_running_is_not_reported_alive(
    slurm: Accounting, tmp_path: Path
) -> None:
    slurm.holds(RUNNING)
    (tmp_path / "squeue").write_text("#!/bin/sh\necho 77\n")
    (run,) = everything(Slurm(Naming(), os.environ, now=Clock()))
    assert titles(run.events)[-1][0] == "attempt_started"


def test_without_squeue_nothing_is_alive_and_that_is_reported_once(
    slurm: Accounting, tmp_path: Path
) -> None:
    slurm.holds(RUNNING)
    (tmp_path / "squeue").write_text("#!/bin/sh\necho no controller >&2\nexit 1\n")
    lines: list[str] = []
    source = Slurm(Naming(), os.environ, now=Clock(), say=lines.append)
    everything(source)
    (run,) = everything(source)
    assert titles(run.events)[-1][0] == "attempt_started"
    assert lines == ["squeue failed: no controller; until it answers, no job gets a heartbeat"]


def test_what_is_cancelled_in_the_queue_ends_a_job_of_which_nothing_else_goes_on(
    slurm: Accounting,
) -> None:
    dropped = {"State": "CANCELLED by 0", "Start": "None", "NodeList": "None assigned"}
    slurm.holds(dropped)
    source = Slurm(Naming(), os.environ, now=Clock())
    (run,) = everything(source)
    assert titles(run.events)[-1] == ("job_ended cancelled", "13:00:00")
    slurm.holds(dropped, {"JobID": "9", **RUNNING})
    source.look()
    (run,) = source.runs([("alpha", "8041")])
    assert titles(run.events)[-1] == ("phase_ended queued", "13:00:00")


def test_the_window_follows_the_looks_and_is_whole_once_an_hour(slurm: Accounting) -> None:
    clock = Clock()
    source = Slurm(Naming(), os.environ, now=clock)
    wholes = []
    for minutes in (0, 1, 59, 60, 61):
        clock.at_s = NOON_S + 60 * minutes
        look = source.look()
        look.note_sent()
        wholes.append(look.is_whole)
    begins = [each.rpartition(" ")[2][8:] for each in slurm.calls if "--starttime" in each]
    assert wholes == [True, False, False, True, False]
    assert begins == [
        "28T12:00:00", "01T11:50:00", "01T11:51:00", "28T13:00:00", "01T12:50:00",
    ]  # fmt: skip


def test_what_was_not_sent_stays_in_the_window(slurm: Accounting) -> None:
    clock = Clock()
    source = Slurm(Naming(), os.environ, now=clock)
    source.look().note_sent()
    for minutes in (20, 40):
        clock.at_s = NOON_S + 3600 + 60 * minutes
        source.look()
    begins = [each.rpartition(" ")[2] for each in slurm.calls if "--starttime" in each]
    assert begins[1:] == ["2026-03-01T12:50:00"] * 2


def test_two_clusters_with_the_same_ids_are_told_apart_by_a_template(slurm: Accounting) -> None:
    slurm.holds({}, {"Cluster": "beta"})
    named = Slurm(Naming("{cluster}-{name}"), os.environ, clusters="alpha,beta", now=Clock())
    assert {run.job for run in everything(named)} == {"alpha-llm", "beta-llm"}


def test_a_failure_of_sacct_says_nothing_of_jobs(slurm: Accounting) -> None:
    slurm.holds(RUNNING)
    source = Slurm(Naming(), os.environ, now=Clock())
    source.look()
    slurm.holds(trouble="sacct: error: slurm_persist_conn_open failed")
    with pytest.raises(Unavailable, match="sacct failed: sacct: error: slurm_persist"):
        source.look()


def test_a_missing_sacct_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="sacct cannot be run: No such file"):
        Slurm(Naming(), os.environ).look()


def test_it_asks_for_utc_of_the_clusters(slurm: Accounting, tmp_path: Path) -> None:
    slurm.holds({})
    program = tmp_path / "sacct"
    program.write_text(
        program.read_text().replace(
            "if said", "import os; assert os.environ['TZ'] == 'UTC'\nif said"
        )
    )
    everything(Slurm(Naming(), os.environ, clusters="alpha,beta", now=Clock()))
    assert all(
        "--clusters=alpha,beta" in call for call in slurm.calls if "--helpformat" not in call
    )


def test_names_may_hold_what_separates_columns_elsewhere(slurm: Accounting) -> None:
    slurm.holds({"JobName": "a|b,c"})
    (run,) = everything(Slurm(Naming(), os.environ, now=Clock()))
    assert run.job == "a_b,c"


def test_the_job_that_got_the_place_is_named_by_the_controllers_log(
    slurm: Accounting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    slurm.holds(PREEMPTED)
    path = tmp_path / "slurmctld.log"
    source = Slurm(Naming(), os.environ, log=ControllerLog(path), now=Clock())
    meek = ("alpha", "8041")

    def favoured() -> tuple[int, list[str | None]]:
        mark = source.look().marks[meek]
        events = [each for run in source.runs([meek]) for each in run.events]
        ended = [each for each in events if each["type"] == "attempt_ended"]
        return mark, [each.get("preempted_by") for each in ended]

    before = favoured()
    path.write_text(
        "[2026-03-01T12:30:00.871] preempted JobId=8041 has been requeued to reclaim resources "
        "for JobId=9\n"
    )
    assert favoured() == before == (before[0], [None])
    slurm.holds(PREEMPTED, {"JobID": "9", "JobName": "pushy"})
    after = favoured()
    assert after == (after[0], ["pushy"])
    assert after[0] != before[0]


def test_a_log_that_cannot_be_read_is_reported_once(slurm: Accounting, tmp_path: Path) -> None:
    slurm.holds({})
    lines: list[str] = []
    log = ControllerLog(tmp_path / "none.log")
    source = Slurm(Naming(), os.environ, log=log, say=lines.append, now=Clock())
    source.look()
    source.look()
    assert len(lines) == 1
    assert lines[0].startswith(f"{tmp_path / 'none.log'}: No such file or directory; until it can")


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
