"""``ett import``, as people call it."""

import json
import os
import pty
import select
import socket
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from ett_service.cli.main import main
from tests.builders.mllog import RUN, line, run_lines, without, written
from tests.builders.sacct import row
from tests.builders.sacct import written as rows_written
from tests.builders.servers.ett import Server
from tests.builders.servers.waiting import PATIENCE_S, wait_for
from tests.builders.servers.web import Received, Reply, accepting, serving


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return written(tmp_path, *RUN)


def test_a_dry_run_prints_the_events_and_needs_no_server(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", "mlperf", str(log), "--dry-run"]) == 0

    printed = capsys.readouterr()
    events = [json.loads(text) for text in printed.out.splitlines()]
    assert [event["type"] for event in events][:2] == ["job", "attempt_started"]
    assert len({event["id"] for event in events}) == len(events)
    assert printed.err == (
        "1 files, 14 records read, 0 lines skipped, 1 jobs: "
        f"{len(events)} events, printed, 0 refused\n"
    )
    assert main(["import", "mlperf", str(log), "--dry-run", "--json"]) == 0
    again = capsys.readouterr()
    assert again.out == printed.out
    assert json.loads(again.err)["records"] == 14


def test_events_are_sent_as_history_with_the_key_in_the_header(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving() as web:
        code = main(["import", "mlperf", str(log), "--url", web.url, "--key", "ett_secret"])
        (got,) = web.received

    printed = capsys.readouterr()
    assert code == 0
    assert (got.method, got.path) == ("POST", "/v1/events")
    assert got.headers["authorization"] == "Bearer ett_secret"
    assert got.batch["history"] is True
    assert printed.out == "llama2-2xBOX-20250421T185730.000Z\n"
    count = len(got.batch["events"])
    said = (
        f"14 records read, 0 lines skipped, 1 jobs: {count} events, {count} accepted, 0 duplicates"
    )
    assert f"1 files, {said}, 0 refused" in printed.err


def test_many_events_go_in_several_batches(tmp_path: Path) -> None:
    for number in range(60):
        written(tmp_path, *run_lines(number * 200), name=f"result_{number}.txt")
    with serving() as web:
        assert main(["import", "mlperf", str(tmp_path), "--url", web.url]) == 0
        sizes = [len(got.batch["events"]) for got in web.received]

    assert len(sizes) > 1
    assert max(sizes) <= 500
    assert len(web.events) == sum(sizes)


def test_the_summary_is_json_on_demand(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving() as web:
        args = ["import", "mlperf", str(log), "--url", web.url, "--json", "--job", "mine"]
        assert main(args) == 0

    summary = json.loads(capsys.readouterr().out)
    assert (summary["files"], summary["records"], summary["skipped"]) == (1, 14, 0)
    assert summary["jobs"] == ["mine"]
    assert summary["accepted"] == summary["events"] > 0


def test_skipped_lines_are_listed_by_number_and_the_rest_is_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = written(tmp_path, *RUN[:6], line("init_stop", 30)[:50], *RUN[6:])
    with serving() as web:
        assert main(["import", "mlperf", str(log), str(tmp_path / "no"), "--url", web.url]) == 0
        assert web.events

    printed = capsys.readouterr()
    assert "1 lines were skipped, the first of them:" in printed.err
    assert f"{log}:7: the JSON after :::MLLOG is truncated or malformed" in printed.err
    assert f"{tmp_path / 'no'}: No such file or directory" in printed.err
    assert "skipped" not in printed.out


def test_it_fails_if_nothing_could_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = written(tmp_path, *[text[:40] for text in without("RUNANDTIME")])

    assert main(["import", "mlperf", str(log), "--dry-run"]) == 1

    printed = capsys.readouterr()
    assert printed.out == ""
    assert "nothing could be read" in printed.err
    assert "14 lines were skipped" in printed.err


def test_a_server_out_of_reach_is_exit_4(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"

        assert main(["import", "mlperf", str(log), "--url", url]) == 4
    assert "cannot be reached" in capsys.readouterr().err


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_may_not_is_exit_5(log: Path, status: int) -> None:
    def refusing(_: Received) -> Reply:
        return Reply(status, b'{"title": "No.", "status": 401}')

    with serving(refusing) as web:
        assert main(["import", "mlperf", str(log), "--url", web.url]) == 5


def test_refused_events_fail_the_command_with_their_codes(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refusing_one(got: Received) -> Reply:
        verdict = json.loads(accepting(got).body)
        refused = {"accepted": verdict["accepted"] - 1, "rejected": 1}
        errors = [{"index": 0, "code": "bad_job", "pointer": "/events/0/job"}]
        return Reply(body=json.dumps({**verdict, **refused, "errors": errors}).encode())

    with serving(refusing_one) as web:
        assert main(["import", "mlperf", str(log), "--url", web.url]) == 1
    assert "the server refused 1 events: bad_job (1)" in capsys.readouterr().err


def test_an_address_that_is_no_ett_server_is_reported_as_such(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(lambda _: Reply(body=b'{"hello": "world"}')) as web:
        assert main(["import", "mlperf", str(log), "--url", web.url]) == 1
    assert "not from an ett server" in capsys.readouterr().err


def test_an_unknown_format_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["import", "punch-cards", "x"])

    assert left.value.code == 2
    assert "mlperf" in capsys.readouterr().err


def test_on_a_terminal_a_long_import_shows_how_far_it_is_and_keeps_data_apart() -> None:
    slow, writing = os.pipe()
    terminal, stderr = pty.openpty()
    command = "import sys; from ett_service.cli.main import main; sys.exit(main(sys.argv[1:]))"
    with subprocess.Popen(
        [sys.executable, "-c", command, "import", "mlperf", "--dry-run", f"/dev/fd/{slow}"],
        stdout=subprocess.PIPE,
        stderr=stderr,
        pass_fds=[slow],
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    ) as importing:
        os.close(stderr)
        os.close(slow)
        with os.fdopen(writing, "w") as log:
            log.write("\n".join(RUN[:8]) + "\n")
            log.flush()
            shown = read_until(terminal, b"7 records")
            log.write("\n".join(RUN[8:]) + "\n")
        printed, _ = importing.communicate(timeout=120)
    os.close(terminal)

    assert b"7 records" in shown
    assert importing.returncode == 0
    assert len([json.loads(text) for text in printed.splitlines()]) > 5


def test_a_bar_shows_how_much_of_a_file_has_been_read(tmp_path: Path) -> None:
    (path := tmp_path / "a.txt").write_bytes(b"x" * 100_000)
    (other := tmp_path / "b.txt").write_bytes(b"x" * 100_000)
    terminal, stderr = pty.openpty()
    command = (
        "import sys, pathlib; from ett_service.cli.progress import reading\n"
        "paths = [pathlib.Path(each) for each in sys.argv[1:]]\n"
        "with reading(paths, lambda: '7 records'), paths[1].open('rb', 0) as file:\n"
        "    file.read(50_000); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", command, str(path), str(other)],
        stdin=subprocess.PIPE,
        stderr=stderr,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    ) as process:
        os.close(stderr)
        shown = read_until(terminal, b"150.0/200.0 kB")
        process.communicate(timeout=120)
    os.close(terminal)
    assert b"150.0/200.0 kB" in shown
    assert b"7 records" in shown


def read_until(terminal: int, expected: bytes, seconds: float = PATIENCE_S) -> bytes:
    """What a terminal showed until *expected* was on it."""
    shown = b""
    deadline = monotonic() + seconds
    while expected not in shown and monotonic() < deadline:
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 4096)
    return shown


def test_slurms_accounting_is_imported_in_a_zone_and_under_a_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = rows_written(tmp_path, row())
    options = ["--dry-run", "--timezone", "Asia/Tokyo", "--name", "slurm-{id}"]
    assert main(["import", "sacct", str(path), *options]) == 0
    events = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert {event["job"] for event in events} == {"slurm-8041"}
    assert events[-1]["at"] == "2026-03-01T04:00:00Z"


def test_a_zone_that_is_none_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["import", "sacct", "gone.txt", "--timezone", "Mars/Olympus"])
    assert "no time zone is named 'Mars/Olympus'" in capsys.readouterr().err


@pytest.mark.usefixtures("in_environment")
def test_two_clusters_with_the_same_ids_imported_apart_are_not_one_job(
    tmp_path: Path, served: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """Taken for lives of one launch they would be a job of five hours, each having trained one."""
    for cluster, hour in (("alpha", 12), ("beta", 16)):
        times = {"Start": f"2026-03-01T{hour}:00:00", "End": f"2026-03-01T{hour + 1}:00:00"}
        rows_written(
            tmp_path, row(Cluster=cluster, JobName="twice", **times), name=f"{cluster}.txt"
        )
    assert main(["import", "sacct", str(tmp_path / "alpha.txt"), "--timezone", "UTC"]) == 0
    before = served.get("/v1/jobs/twice/events")["events"]
    capsys.readouterr()

    beta = str(tmp_path / "beta.txt")
    assert main(["import", "sacct", beta, "--timezone", "UTC", "--json"]) == 1
    printed = capsys.readouterr()
    assert served.get("/v1/jobs/twice/events")["events"] == before
    why = "launch 8041 of job twice is recorded of another cluster: tell the jobs of each apart"
    assert f"ett: {beta}:2: {why}, by --name '{{cluster}}-{{name}}'" in printed.err
    assert "1 runs were not imported\n     Nothing was stored." in printed.err
    summary = json.loads(printed.out)
    assert (summary["accepted"], summary["runs"]) == (0, 0)
    assert summary["codes"] == {"other_cluster": summary["events"]}

    started = {"type": "attempt_started", "launch": "8041", "at": "2026-03-01T12:00:00Z"}
    served.send([{**started, "job": "slurm-8041"}])
    wait_for(lambda: served.knows("slurm-8041"))
    named = ["--name", "{cluster}-{name}"]
    assert main(["import", "sacct", beta, "--timezone", "UTC", *named]) == 0
    why = "slurm-8041, as its trainer calls it, and beta-twice are one job told twice"
    assert why in capsys.readouterr().err
