"""Files of ``sacct``, to runs and a report."""

import os
from pathlib import Path

from ett_service.core.ledger.results import JobLedger
from ett_service.importers.importer import Report
from ett_service.importers.instants import zone
from ett_service.importers.slurm.sacct import read
from tests.builders.imports import Wire, ledgers_of
from tests.builders.sacct import row, titles, written

UTC = zone("UTC")
QUOTED = "'{cluster}-{name}'"
FIRST = {"State": "PREEMPTED", "End": "2026-03-01T12:30:00", "ElapsedRaw": "1800"}
SECOND = {"Submit": "2026-03-01T12:30:00", "Eligible": "2026-03-01T12:32:00",
          "Start": "2026-03-01T12:40:00", "End": "2026-03-01T13:40:00"}  # fmt: skip


def imported(*paths: Path, **options: str) -> tuple[Wire, Report]:
    runs, report = read(list(paths), zone=UTC, **options)
    return [event for run in runs for event in run.events], report


def ledgers(*paths: Path) -> dict[str, JobLedger]:
    return ledgers_of(imported(*paths)[0])


def attempts(ledger: JobLedger) -> list[tuple[str, int, str]]:
    return [(each.launch, each.attempt, each.outcome.value) for each in ledger.attempts]


def test_a_requeued_job_is_one_launch_with_its_attempts(tmp_path: Path) -> None:
    for order in ((FIRST, SECOND), (SECOND, FIRST)):
        ledger = ledgers(written(tmp_path, *(row(**each) for each in order)))["llm"]
        assert attempts(ledger) == [("8041", 0, "preempted"), ("8041", 1, "completed")]
        assert (ledger.failures, ledger.infra_failures) == (1, 1)
        assert ledger.e2e_us == 6000 * 10**6


def test_lives_in_several_files_are_numbered_together(tmp_path: Path) -> None:
    unfinished = SECOND | {"State": "RUNNING", "End": "Unknown", "ElapsedRaw": "1000"}
    written(tmp_path, row(**FIRST), row(**unfinished), name="sacct-1.txt")
    written(tmp_path, row(**SECOND), name="sacct-2.txt")
    (ledger,) = ledgers(tmp_path).values()
    assert attempts(ledger) == [("8041", 0, "preempted"), ("8041", 1, "completed")]


def test_restarts_that_are_printed_need_no_other_record(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text(
        "JobID|State|Start|End|Restarts\n7|FAILED|2026-03-01T12:00:00|2026-03-01T13:00:00|3\n"
    )
    ended = [event for event in imported(path)[0] if event["type"] == "attempt_ended"]
    assert [event["attempt"] for event in ended] == [3]


def test_a_chain_of_jobs_is_one_run_of_one_job(tmp_path: Path) -> None:
    later = {"JobID": "8042", "JobIDRaw": "8042", "Submit": "2026-03-01T11:51:00",
             "Eligible": "2026-03-01T13:00:00", "Start": "2026-03-01T13:10:00",
             "End": "2026-03-01T14:00:00", "Reason": "Dependency"}  # fmt: skip
    ledger = ledgers(written(tmp_path, row(), row(**later)))["llm"]
    assert attempts(ledger) == [("8041", 0, "completed"), ("8042", 0, "completed")]
    assert len(ledger.runs) == 1
    assert ledger.e2e_us == 7200 * 10**6


def test_tasks_are_jobs_of_their_own_and_unsplit_ones_are_left_out(tmp_path: Path) -> None:
    rows = [row(JobID=f"50_{task}", JobIDRaw=str(60 + task)) for task in (1, 2)]
    pending = row(JobID="50_[3-9%1]", JobIDRaw="50", State="PENDING", Start="Unknown")
    events, report = imported(written(tmp_path, *rows, pending))
    assert {(event["job"], event["launch"]) for event in events} == {
        ("llm-1", "61"),
        ("llm-2", "62"),
    }
    assert report.skipped == 0


def test_what_is_cancelled_in_the_queue_ends_a_job_of_which_nothing_else_goes_on(
    tmp_path: Path,
) -> None:
    dropped = {"State": "CANCELLED by 0", "Start": "None", "NodeList": "None assigned"}
    (ledger,) = ledgers(written(tmp_path, row(**dropped))).values()
    assert (ledger.state.value, len(ledger.attempts)) == ("finished", 0)
    other = row(JobID="9", State="RUNNING", End="Unknown", Submit="2026-03-01T11:51:00")
    events, _ = imported(written(tmp_path, row(**dropped), other))
    assert "job_ended" not in {event["type"] for event in events}


def test_components_are_one_job(tmp_path: Path) -> None:
    other = row(JobID="8041+1", JobIDRaw="8042", AllocTRES="gres/gpu=4", NNodes="1")
    events, _ = imported(written(tmp_path, row(JobID="8041+0"), other))
    (begun,) = (event for event in events if event["type"] == "attempt_started")
    assert (begun["launch"], begun["gpus"], begun["hosts"]) == ("8041", 20, 3)


def test_copies_count_once(tmp_path: Path) -> None:
    events, report = imported(written(tmp_path, *[row()] * 50))
    assert len(events) == len(imported(written(tmp_path, row()))[0])
    assert (report.records, report.files) == (50, 1)


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    text = written(tmp_path, row(**FIRST), row(**SECOND)).read_text()
    reading, writing = os.pipe()
    os.write(writing, text.encode())
    os.close(writing)
    (ledger,) = ledgers(Path(f"/dev/fd/{reading}")).values()
    os.close(reading)
    assert attempts(ledger) == [("8041", 0, "preempted"), ("8041", 1, "completed")]


def test_two_clusters_with_the_same_ids_are_told_apart(tmp_path: Path) -> None:
    path = written(tmp_path, row(), row(Cluster="beta"))
    events, report = imported(path)
    assert {event.get("cluster") for event in events if event["type"] == "job"} == {"alpha"}
    assert report.refused == [
        f"{path}:3: job 8041 is one of cluster alpha, too: tell them apart by --name {QUOTED}"
    ]
    events, report = imported(path, name="{cluster}-{name}")
    assert {event["job"] for event in events} == {"alpha-llm", "beta-llm"}
    assert report.refused == []
    assert len({event["id"] for event in events}) == len(events)


def test_times_are_those_of_the_zone_and_unsure_ones_are_named(tmp_path: Path) -> None:
    sure = written(tmp_path, row(JobID="9"), name="sacct-1.txt")
    path = written(tmp_path, row(Submit="2025-10-26T02:30:00", Eligible="2025-10-26T02:30:00"))
    runs, report = read([sure, path], zone=zone("Europe/Berlin"))
    _, run = runs
    assert titles(run.events)[0] == ("phase_started queued", "00:30:00")
    assert len(report.notes) == 1
    assert report.notes[0].startswith(f"{path}: 2025-10-26T02:30:00 is shown twice or never")


def test_files_that_hold_no_job_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    (tmp_path / "junk.txt").write_bytes(os.urandom(5000))
    (tmp_path / "junk.json").write_text('{"jobs": 3')
    events, report = imported(tmp_path, tmp_path / "gone.txt")
    assert events == []
    why = "no job of sacct -P or --json in it"
    assert report.unread == [
        f"{tmp_path / 'empty.txt'}: {why}",
        f"{tmp_path / 'junk.json'}: {why}",
        f"{tmp_path / 'junk.txt'}: {why}",
        f"{tmp_path / 'gone.txt'}: No such file or directory",
    ]


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_bytes(
        written(tmp_path, row(JobName="gr?n", User="?")).read_bytes().replace(b"?", b"\xfc")
    )
    events, _ = imported(path)
    assert {event["job"] for event in events} == {"gr_n"}


LOG = (
    "[2026-03-01T12:29:59.120] _slurm_rpc_submit_batch_job: JobId=9 InitPrio=1 usec=310\n"
    "[2026-03-01T12:29:59.871] preempted JobId=8041 has been requeued to reclaim resources "
    "for JobId=9\n"
)
TAKER = {"JobID": "9", "JobName": "pushy", "Start": "2026-03-01T12:30:01"}


def logged(folder: Path, text: str = LOG) -> Path:
    path = folder / "slurmctld.log"
    path.write_text(text)
    return path


def favoured(ledger: JobLedger) -> list[str | None]:
    return [each.preempted_by for each in ledger.attempts]


def test_the_controllers_log_says_who_took_the_place(tmp_path: Path) -> None:
    table = written(tmp_path, row(**FIRST), row(**SECOND), row(**TAKER))
    for paths in ((table, logged(tmp_path)), (logged(tmp_path), table), (tmp_path,)):
        ledger = ledgers(*paths)["llm"]
        assert attempts(ledger) == [("8041", 0, "preempted"), ("8041", 1, "completed")]
        assert favoured(ledger) == ["pushy", None]


def test_a_log_that_comes_later_adds_who_took_the_place(tmp_path: Path) -> None:
    table = written(tmp_path, row(**FIRST), row(**TAKER))
    before, _ = imported(table)
    after, _ = imported(table, logged(tmp_path))
    for wire in (before + after, after + before):
        assert favoured(ledgers_of(wire)["llm"]) == ["pushy"]


def test_for_a_job_that_is_not_there_yet_nothing_else_is_reported(tmp_path: Path) -> None:
    table = written(tmp_path, row(**FIRST))
    wire, report = imported(table, logged(tmp_path))
    assert wire == imported(table)[0]
    assert (report.files, report.skipped) == (2, 0)


def test_a_log_without_preemptions_is_named(tmp_path: Path) -> None:
    path = logged(tmp_path, LOG.splitlines(keepends=True)[0])
    _, report = imported(path)
    assert report.unread == [f"{path}: a log of slurmctld in which no job preempts another"]
