"""What a trainer and a launcher write to standard error when they end."""

import json
import sys
from pathlib import Path

import pytest

from ett_service.client.sending.courier import Tally
from ett_service.client.sending.delivery import Target
from ett_service.client.sending.notices import Closing
from ett_service.client.sending.spool import job_directory
from tests.builders.servers.web import Received, Reply, accepting, serving
from tests.builders.trainers import environment, run_ett, run_trainer, spooled

HERE = Path("/spool/j")


def _answering(**job: object) -> Reply:
    return Reply(body=json.dumps(job).encode())


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (_answering(ett_ratio=0.5487), "ETT 54.9% so far; more: ett job j"),
        (_answering(ett_ratio=None), "; more: ett job j"),
        (Reply(403), "; more: ett job j"),
        (Reply(404), "; more: ett job j"),
        (Reply(200, b"[]"), "; more: ett job j"),
        (Reply(200, b"no JSON"), "; more: ett job j"),
    ],
)
def test_what_was_sent_is_counted_with_the_ratio_so_far(reply: Reply, words: str) -> None:
    with serving(lambda _: reply) as web:
        closing = Closing("j", Target(web.url, "key"), HERE, Tally(accepted=7, duplicate=1), 0)
        line = closing.line()
    assert line.startswith(f"j: 8 events sent to {web.url}")
    assert line.endswith(words)
    assert ("ETT" in line) == ("ETT" in words)


def test_a_job_that_is_not_folded_yet_is_asked_for_again() -> None:
    asked: list[Received] = []

    def answer(received: Received) -> Reply:
        asked.append(received)
        return Reply(404) if len(asked) == 1 else _answering(ett_ratio=1.0)

    with serving(answer) as web:
        line = Closing("a b", Target(web.url), HERE, Tally(accepted=1), 0).line()
    assert line == f"a b: 1 event sent to {web.url}; ETT 100.0% so far; more: ett job 'a b'"
    assert {received.path for received in asked} == {"/v1/jobs/a%20b"}


def test_what_was_refused_is_named_with_where_it_lies() -> None:
    with serving(lambda _: Reply(403)) as web:
        line = Closing("j", Target(web.url), HERE, Tally(accepted=1, rejected=2), 0).line()
    assert "2 refused, see refused.jsonl in /spool/j" in line


def test_what_is_left_is_named_with_the_reason_and_the_command_that_sends_it() -> None:
    closing = Closing("j", Target("http://127.0.0.1:1"), HERE, Tally(), 3, "connection refused")
    assert closing.line() == "j: 3 events not sent (connection refused); later: ett sync /spool/j"


def test_without_an_address_the_line_says_where_the_events_lie() -> None:
    line = Closing("j", None, HERE, Tally(), 3).line()
    assert line == (
        "j: 3 events kept, as ETT_URL is not set; to send them: ett sync /spool/j --url URL"
    )


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:1"])
def test_what_no_disk_took_and_no_server_is_called_lost(url: str | None) -> None:
    target = Target(url) if url else None
    line = Closing("j", target, HERE, Tally(), 0, "", lost=3).line()
    assert line == "j: 3 events lost, which could not be kept in /spool/j"


def test_what_is_lost_is_reported_beside_what_is_left_and_what_was_sent() -> None:
    left = Closing("j", Target("http://127.0.0.1:1"), HERE, Tally(), 2, "away", lost=1).line()
    assert left == (
        "j: 2 events not sent (away); later: ett sync /spool/j; "
        "1 event lost, which could not be kept in /spool/j"
    )
    with serving(lambda _: Reply(403)) as web:
        sent = Closing("j", Target(web.url), HERE, Tally(accepted=2), 0, lost=1).line()
    assert sent == (
        f"j: 2 events sent to {web.url}; 1 event lost, which could not be kept in /spool/j; "
        "more: ett job j"
    )


def test_a_trainer_whose_server_is_away_says_so_at_its_end(tmp_path: Path) -> None:
    done = run_trainer("ett.init()\nett.end()", environment(tmp_path, "http://127.0.0.1:1"))
    assert done.returncode == 0
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ett: j: {len(spooled(tmp_path))} events not sent (")
    assert "http://127.0.0.1:1 cannot be reached (Connection refused)" in last
    assert last.endswith(f"later: ett sync {job_directory(tmp_path, 'j')}")


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:1"])
def test_a_trainer_without_a_disk_says_what_is_lost(tmp_path: Path, url: str | None) -> None:
    (tmp_path / "file").touch()
    done = run_trainer("ett.init()\nett.end()", environment(tmp_path / "file", url))
    assert done.returncode == 0
    assert "not sent" not in done.stderr
    assert "measurement" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.endswith(
        f"lost, which could not be kept in {job_directory(tmp_path / 'file', 'j')}"
    )
    assert not last.startswith("ett: j: 0")


def test_a_rank_that_does_not_lead_says_nothing(tmp_path: Path) -> None:
    env = environment(tmp_path, "http://127.0.0.1:1", RANK="1")
    assert run_trainer("ett.init()\nett.end()", env).stderr == ""


def test_a_launcher_counts_what_its_child_sent_in_one_line(tmp_path: Path) -> None:
    trainer = "import ett_service as ett; ett.init(); ett.end()"
    with serving(accepting) as web:
        env = environment(tmp_path, web.url)
        done = run_ett(env, "run", "--", sys.executable, "-c", trainer)
        count = len(web.events)
    assert done.stderr == f"ett: j: {count} events sent to {web.url}; more: ett job j\n"
    assert list(tmp_path.rglob("sent-*")) == []


_SENT, _LEFT = "assert ett.flush(60);", "ett.phase('evaluation').__enter__();"


@pytest.mark.parametrize("said", [_LEFT, _SENT, _SENT + _LEFT], ids=["left", "sent", "both"])
def test_a_launcher_counts_what_a_killed_child_had_sent_and_left(tmp_path: Path, said: str) -> None:
    trainer = (
        "import ett_service as ett, os, signal; ett.init();"
        f"{said} os.kill(os.getpid(), signal.SIGKILL)"
    )
    with serving(accepting) as web:
        env = environment(tmp_path, web.url)
        done = run_ett(env, "run", "--", sys.executable, "-c", trainer)
        count = len(web.events)
    assert done.returncode == 137
    assert done.stderr == f"ett: j: {count} events sent to {web.url}; more: ett job j\n"


def test_what_a_killed_worker_had_sent_is_counted_whoever_sends_the_rest(tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text("""
import os, signal, ett_service as ett
ett.init()
assert ett.flush(60)
ett.phase("evaluation").__enter__()
os.kill(os.getpid(), signal.SIGKILL)
""")
    successor = tmp_path / "successor.py"
    successor.write_text("""
import json, os, pathlib, sys, time, ett_service as ett
ett.init()
spools = pathlib.Path(os.environ["ETT_SPOOL"])
def is_left(pid):
    return any(json.loads(path.read_text())["pid"] == pid for path in spools.rglob("owner.json"))
while is_left(int(sys.argv[1])):
    time.sleep(0.1)
ett.end()
""")
    script = (
        f"{sys.executable} {worker} & pid=$!; wait; ETT_CYCLE=1 {sys.executable} {successor} $pid"
    )
    with serving(accepting) as web:
        done = run_ett(environment(tmp_path / "spool", web.url), "run", "--", "sh", "-c", script)
        count = len(web.events)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == (
        f"ett: j: {count} events sent to {web.url}; more: ett job j"
    )


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (
            "http://127.0.0.1:1",
            "not sent (http://127.0.0.1:1 cannot be reached (Connection refused)); later: {}",
        ),
        ("nowhere", "not sent (nowhere is not an http or https address); later: {}"),
        (None, "kept, as ETT_URL is not set; to send them: {} --url URL"),
    ],
)
def test_a_launcher_says_in_one_line_why_nothing_went(
    tmp_path: Path, url: str | None, why: str
) -> None:
    done = run_ett(environment(tmp_path, url), "run", "--", "true")
    assert done.returncode == 0
    *before, last = done.stderr.splitlines()
    command = f"ett sync {job_directory(tmp_path, 'j')}"
    assert last == f"ett: j: 3 events {why.format(command)}"
    assert len(before) <= (url is not None)  # at most that events do not arrive
    assert list(tmp_path.rglob("sent-*")) == []
