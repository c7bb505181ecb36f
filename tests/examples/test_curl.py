import json
import socket
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.builders.servers.ett import Server
from tests.builders.servers.processes import bare_environment
from tests.examples.conftest import EXAMPLES

SCRIPT = EXAMPLES / "curl" / "train.sh"
STEPS, CRASH_AT = 7, 6

SAME_IN_PYTHON = f"""
import pathlib, sys, time
import ett_service as ett

crash_at = int(sys.argv[1])
ett.init(gpus=8, team="vision", model="resnet")
checkpoint, step = pathlib.Path("checkpoint"), 0
if checkpoint.exists():
    with ett.stage("checkpoint_restore"):
        step = int(checkpoint.read_text())
        ett.restored(step)
with ett.train_loop():
    while step < {STEPS}:
        time.sleep(0.05)
        step += 1
        ett.step(step)
        if step == crash_at:
            sys.exit(3)
        if step % 5 == 0:
            with ett.checkpoint(step):
                checkpoint.write_text(str(step))
with ett.phase("shutdown"):
    pass
ett.end(final=True)
"""


def _train(
    server: Server, folder: Path, *arguments: object, job: str = "shell", **more: str
) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    environment = {
        **bare_environment(),
        "ETT_URL": server.url,
        "ETT_API_KEY": server.key,
        "ETT_JOB": job,
        "ETT_SPOOL": "spool",
        **more,
    }
    command = [SCRIPT] if job == "shell" else [sys.executable, "-c", SAME_IN_PYTHON]
    return subprocess.run(
        [*command, *map(str, arguments)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def _crash_and_go_on(server: Server, folder: Path) -> dict[str, Any]:
    assert _train(server, folder, STEPS, CRASH_AT).returncode == 3
    again = _train(server, folder, STEPS)
    assert (again.returncode, again.stderr) == (0, "")
    answer: dict[str, Any] = server.reaches("/v1/jobs/shell", _is_finished)
    return answer


def _is_finished(job: dict[str, Any]) -> bool:
    return bool(job["state"] == "finished")


def _us(event: dict[str, Any]) -> int:
    at = datetime.fromisoformat(event["at"])
    return int(at.timestamp()) * 1_000_000 + at.microsecond


_OF_A_BUSY_MACHINE = {"stalled", "unattributed"}
"""What a slow step or a pause between two calls may be; each is there or not, as it happens."""


def _facts(job: dict[str, Any]) -> dict[str, Any]:
    """Return what does not depend on how long things took."""
    members = ("attempt", "cycle", "gpus", "outcome", "basis", "last_step")
    return {
        "attempts": [{name: attempt[name] for name in members} for attempt in job["attempts"]],
        "spent": {name for name, seconds in job["categories"].items() if seconds}
        - _OF_A_BUSY_MACHINE,
        **{name: job[name] for name in ("state", "outcome", "failures", "team", "model")},
        "resumed": [recovery["resumed"] for recovery in job["recoveries"]],
    }


def test_the_ledger_is_that_of_the_lines_to_the_microsecond(server: Server, tmp_path: Path) -> None:
    job = _crash_and_go_on(server, tmp_path / "run")
    lines = (tmp_path / "run" / "spool" / "events.ndjson").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    instants = [_us(event) for event in events if event["type"] != "job_ended"]
    assert round(job["e2e_seconds"] * 1e6) == max(instants) - min(instants)
    saves = [
        _us(event) * (1 if event["type"] == "phase_ended" else -1)
        for event in events
        if event.get("phase") == "checkpoint_blocking"
    ]
    assert round(job["categories"]["checkpoint_blocking"] * 1e6) == sum(saves)
    assert job["categories"]["repeated_training"] > 0
    answers = (tmp_path / "run" / "spool" / "answers").read_text()
    assert sum(answer["accepted"] for answer in _each_json(answers)) == len(events)
    assert all(answer["rejected"] == 0 for answer in _each_json(answers))


def test_the_client_would_have_sent_the_same(server: Server, tmp_path: Path) -> None:
    by_shell = _crash_and_go_on(server, tmp_path / "shell")
    launch = {"ETT_LAUNCH": "first"}
    crashed = _train(server, tmp_path / "python", CRASH_AT, job="python", **launch)
    assert crashed.returncode == 3, crashed.stderr
    done = _train(server, tmp_path / "python", 0, job="python", ETT_LAUNCH="second")
    assert done.returncode == 0, done.stderr
    by_client = server.reaches("/v1/jobs/python", _is_finished)
    assert _facts(by_shell) == _facts(by_client)


def test_lines_that_are_sent_again_count_nothing_twice(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert _train(server, folder, 2, ETT_LAUNCH="1").returncode == 0
    before = server.reaches("/v1/jobs/shell", _is_finished)
    (folder / "spool" / "sent").unlink()
    (folder / "spool" / "answers").unlink()
    sent_again = ". $1; ett_send"
    environment = {**bare_environment(), "ETT_SPOOL": "spool"}
    subprocess.run(
        ["sh", "-c", sent_again, "sh", SCRIPT.with_name("ett.sh")],
        cwd=folder,
        env=environment,
        check=True,
    )
    counts = [*_each_json((folder / "spool" / "answers").read_text())]
    assert sum(answer["accepted"] for answer in counts) == 0
    assert sum(answer["duplicate"] for answer in counts) > 0
    assert server.get("/v1/jobs/shell")["attempts"] == before["attempts"]


def test_an_outage_delays_events_and_no_training(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        done = _train(server, folder, STEPS, CRASH_AT, ETT_URL=url)
    assert done.returncode == 3
    assert "events are not sent; they lie in spool" in done.stderr
    assert server.get("/v1/jobs/shell") is None
    assert _train(server, folder, STEPS).returncode == 0
    job = server.reaches("/v1/jobs/shell", _is_finished)
    assert [attempt["outcome"] for attempt in job["attempts"]] == ["failed", "completed"]


def test_the_key_is_its_owners_alone(server: Server, tmp_path: Path) -> None:
    assert _train(server, tmp_path / "run", 1).returncode == 0
    config = tmp_path / "run" / "spool" / "curl"
    assert server.key in config.read_text()
    assert config.stat().st_mode & 0o777 == 0o600


def _each_json(text: str) -> list[dict[str, Any]]:
    decoder, answers = json.JSONDecoder(), []
    while text := text.lstrip():
        answer, end = decoder.raw_decode(text)
        answers.append(answer)
        text = text[end:]
    return answers
