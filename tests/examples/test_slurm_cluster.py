"""A real Slurm of one node runs the scripts."""

import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.builders.servers.ett import Server
from tests.builders.servers.slurm import Slurm, slurm
from tests.builders.servers.waiting import wait_for
from tests.builders.trainers import spooled
from tests.examples.conftest import EXAMPLES
from tests.examples.slurm import Hooks

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("slurm")]


@pytest.fixture(scope="module")
def hooks(shared: Server, tmp_path_factory: pytest.TempPathFactory) -> Hooks:
    """Install the scripts for a project of their own."""
    server = shared.project("slurm")
    return Hooks.install(tmp_path_factory.mktemp("slurm") / "ett", server.url, server.key)


@pytest.fixture(scope="module")
def cluster(hooks: Hooks) -> Iterator[Slurm]:
    """Run a cluster that is configured as docs/howto/record-without-python.md has it."""
    with slurm(
        {
            "PrologSlurmctld": hooks.folder / "prolog.sh",
            "JobCompType": "jobcomp/script",
            "JobCompLoc": hooks.folder / "epilog.sh",
        }
    ) as running:
        yield running


@pytest.fixture
def server(shared: Server) -> Server:
    """Return the server with a key of the project."""
    return shared.project("slurm")


def _ended(server: Server, job: str, *outcomes: str) -> dict[str, Any]:
    """Wait for the attempts of a job, and return its answer."""
    answer: dict[str, Any] = server.reaches(
        f"/v1/jobs/{job}",
        lambda job: [attempt["outcome"] for attempt in job["attempts"]] == list(outcomes),
    )
    return answer


def test_a_job_that_ends_well(server: Server, cluster: Slurm) -> None:
    number = cluster.submit("good", "sleep 2")
    job = _ended(server, "good", "completed")
    assert job["state"] == "finished"
    (attempt,) = job["attempts"]
    assert (attempt["launch"], attempt["attempt"], attempt["gpus"]) == (number, 0, 8)
    assert 1 < job["e2e_seconds"] < 30
    assert (job["owner"], job["cluster"]) == ("root", "tiny")


def test_a_job_that_fails_and_is_submitted_again(server: Server, cluster: Slurm) -> None:
    first = cluster.submit("flaky", "exit 3")
    second = cluster.submit("flaky", "kill -9 $$", f"--dependency=afterany:{first}")
    third = cluster.submit("flaky", "true", f"--dependency=afterany:{second}")
    job = _ended(server, "flaky", "failed", "failed", "completed")
    assert [attempt["launch"] for attempt in job["attempts"]] == [first, second, third]
    assert (job["state"], job["failures"]) == ("finished", 2)
    events = server.get("/v1/jobs/flaky/events")["events"]
    ends = {event["launch"]: event for event in events if event["type"] == "attempt_ended"}
    assert ends[first]["exit_code"] == 3
    assert ends[second]["signal"] == 9


def test_a_job_that_is_preempted_goes_on_later(server: Server, cluster: Slurm) -> None:
    number = cluster.submit("meek", "[ ${SLURM_RESTART_COUNT:-0} -gt 0 ] || sleep 600", "--requeue")
    cluster.reaches(number, "RUNNING")
    cluster.submit("pushy", "sleep 1", "--partition=urgent")
    _ended(server, "meek", "preempted")
    _ended(server, "pushy", "completed")
    cluster.again(number)
    job = _ended(server, "meek", "preempted", "completed")
    assert [(each["launch"], each["attempt"]) for each in job["attempts"]] == [
        (number, 0),
        (number, 1),
    ]
    assert (job["failures"], job["infra_failures"], job["state"]) == (1, 1, "finished")
    assert job["categories"]["restart_wait"] > 0


def test_a_job_that_somebody_requeues(server: Server, cluster: Slurm) -> None:
    script = "[ ${SLURM_RESTART_COUNT:-0} -gt 0 ] || sleep 600"
    number = cluster.submit("shifted", script, "--requeue")
    cluster.reaches(number, "RUNNING")
    cluster.command("scontrol", "requeue", number)
    _ended(server, "shifted", "cancelled")
    cluster.again(number)
    job = _ended(server, "shifted", "cancelled", "completed")
    assert (job["failures"], len(job["runs"])) == (0, 1)


def test_a_job_that_somebody_cancels(server: Server, cluster: Slurm) -> None:
    number = cluster.submit("dropped", "sleep 600")
    cluster.reaches(number, "RUNNING")
    cluster.command("scancel", number)
    assert _ended(server, "dropped", "cancelled")["failures"] == 0
    never = cluster.submit("never", "true", "--begin=now+1hour")
    cluster.command("scancel", never)
    cluster.reaches(never, "CANCELLED")


def test_tasks_of_an_array_are_jobs_of_their_own(server: Server, cluster: Slurm) -> None:
    cluster.submit("sweep", "exit $((SLURM_ARRAY_TASK_ID - 1))", "--array=1-2")
    _ended(server, "sweep-1", "completed")
    _ended(server, "sweep-2", "failed")


def test_a_trainer_in_shell_and_the_scripts_report_one_attempt(
    server: Server, cluster: Slurm, tmp_path: Path
) -> None:
    environment = f"ETT_URL={server.url} ETT_API_KEY={server.key} ETT_JOB=$SLURM_JOB_NAME"
    trainer = f"cd {tmp_path} && {environment} {EXAMPLES / 'curl' / 'train.sh'}"
    first = cluster.submit("both", f"{trainer} 7 6")
    second = cluster.submit("both", f"{trainer} 7", f"--dependency=afternotok:{first}")
    job = _ended(server, "both", "failed", "completed")
    assert [attempt["launch"] for attempt in job["attempts"]] == [first, second]
    assert [attempt["last_step"] for attempt in job["attempts"]] == [6, 7]
    assert job["categories"]["repeated_training"] > 0
    assert job["categories"]["effective_training"] > 0


def test_nothing_is_left_behind(server: Server, cluster: Slurm, hooks: Hooks) -> None:
    last = cluster.submit("last", "true")
    _ended(server, "last", "completed")
    cluster.reaches(last, "COMPLETED")
    hooks.delivered()
    assert list((hooks.spool / "running").iterdir()) == []
    assert list((hooks.spool / "refused").iterdir()) == []
    assert server.get("/v1/jobs/never") is None
    wait_for(lambda: cluster.node == "idle")


def test_an_outage_of_the_service_holds_no_job_up(
    server: Server, cluster: Slurm, hooks: Hooks, tmp_path: Path
) -> None:
    hooks.point_at("http://127.0.0.1:9", server.key)
    done = tmp_path / "done"
    number = cluster.submit("alone", f"touch {done}")
    cluster.reaches(number, "COMPLETED")
    assert done.exists()
    assert hooks.unsent
    hooks.point_at(server.url, server.key)
    cluster.submit("after", "true")
    _ended(server, "after", "completed")
    _ended(server, "alone", "completed")


def test_a_launcher_asks_the_controller_when_its_job_was_submitted_and_why_it_is_to_stop(
    cluster: Slurm, tmp_path: Path
) -> None:
    variables = {"ETT_SPOOL": str(tmp_path), "ETT_JOB": "asked", "PYTHONPATH": str(EXAMPLES.parent)}
    exported = "".join(f"export {name}={value}; " for name, value in variables.items())
    start = "import sys; from ett_service.cli.main import main; sys.exit(main())"
    launcher = f"{sys.executable} -c '{start}' run -- sleep 600"
    submitted_at = time.time()
    number = cluster.submit("asked", f"{exported} exec {launcher}", "--begin=now+3")
    cluster.reaches(number, "RUNNING")
    wait_for(lambda: any(event["type"] == "attempt_started" for event in spooled(tmp_path)))
    cluster.command("scancel", "--signal=TERM", "--full", number)
    wait_for(lambda: any(event["type"] == "attempt_ended" for event in spooled(tmp_path)))
    events = {event.get("phase", event["type"]): event for event in spooled(tmp_path)}
    begun = datetime.fromisoformat(events["scheduling"]["start"]).timestamp()
    assert begun == pytest.approx(submitted_at, abs=2)
    assert events["hardware_setup"]["start"] == events["scheduling"]["at"]
    assert "told to stop by SIGTERM" in events["attempt_ended"]["message"]
