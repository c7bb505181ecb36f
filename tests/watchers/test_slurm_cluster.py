"""A real Slurm of one node, which keeps accounts, is watched."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders.servers.ett import Server, serving_new
from tests.builders.servers.processes import Running
from tests.builders.servers.slurm import Slurm, slurm
from tests.builders.servers.waiting import wait_for

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("slurm")]

ONCE = "[ ${SLURM_RESTART_COUNT:-0} -gt 0 ] || sleep 600"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    with slurm({}, keeps_accounts=True) as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving_new(tmp_path_factory.mktemp("watched")) as running:
        yield running.project("watched")


def watching(cluster: Slurm, server: Server) -> Running:
    environment = cluster.environment | {"ETT_URL": server.url, "ETT_API_KEY": server.key}
    log = ("--controller-log", str(cluster.folder / "slurmctld.log"))
    return Running("watch", "slurm", "--every", "1s", *log, environment=environment)


@pytest.fixture(scope="module")
def watcher(cluster: Slurm, server: Server) -> Iterator[Running]:
    running = watching(cluster, server)
    yield running
    assert running.stop() == 0


def ended(server: Server, job: str, *outcomes: str) -> dict[str, Any]:
    """Wait for the attempts of a job, and return its answer."""
    answer: dict[str, Any] = server.reaches(
        f"/v1/jobs/{job}",
        lambda job: [attempt["outcome"] for attempt in job["attempts"]] == list(outcomes),
    )
    return answer


def identities(job: dict[str, Any]) -> list[tuple[str, int]]:
    return [(attempt["launch"], attempt["attempt"]) for attempt in job["attempts"]]


@pytest.mark.usefixtures("watcher")
def test_a_chain_is_one_job(cluster: Slurm, server: Server) -> None:
    first = cluster.submit("chain", "sleep 2; exit 3")
    second = cluster.submit("chain", "kill -9 $$", f"--dependency=afterany:{first}")
    third = cluster.submit("chain", "sleep 1", f"--dependency=afterany:{second}")
    job = ended(server, "chain", "failed", "failed", "completed")
    assert identities(job) == [(first, 0), (second, 0), (third, 0)]
    assert (job["state"], job["failures"], len(job["runs"])) == ("finished", 2, 1)
    assert job["queue_wait_seconds"] <= 2


@pytest.mark.usefixtures("watcher")
def test_a_preempted_job_goes_on_later(cluster: Slurm, server: Server) -> None:
    number = cluster.submit("meek", ONCE, "--requeue")
    cluster.reaches(number, "RUNNING")
    cluster.submit("pushy", "sleep 1", "--partition=urgent")
    ended(server, "meek", "preempted")
    cluster.again(number)
    job = ended(server, "meek", "preempted", "completed")
    assert identities(job) == [(number, 0), (number, 1)]
    assert (job["failures"], job["infra_failures"]) == (1, 1)
    events = server.reaches("/v1/jobs/meek/events", lambda answer: answer["events"])["events"]
    assert {event["preempted_by"] for event in events if "preempted_by" in event} == {"pushy"}


@pytest.mark.usefixtures("watcher")
def test_tasks_are_jobs(cluster: Slurm, server: Server) -> None:
    cluster.submit("sweep", "exit $((SLURM_ARRAY_TASK_ID - 1))", "--array=1-2%1")
    ended(server, "sweep-1", "completed")
    ended(server, "sweep-2", "failed")


@pytest.mark.usefixtures("watcher")
def test_cancelled_jobs(cluster: Slurm, server: Server) -> None:
    number = cluster.submit("dropped", "sleep 600")
    cluster.reaches(number, "RUNNING")
    never = cluster.submit("never", "true")
    server.reaches("/v1/jobs/never", lambda job: job["state"] == "queued")
    cluster.command("scancel", never, number)
    assert ended(server, "dropped", "cancelled")["failures"] == 0
    server.reaches("/v1/jobs/never", lambda job: job["state"] == "finished")


def test_what_ended_while_nobody_watched_is_found(
    cluster: Slurm, server: Server, watcher: Running
) -> None:
    number = cluster.submit("alone", "sleep 600", "--requeue")
    server.reaches("/v1/jobs/alone", lambda job: job["state"] == "running")
    assert watcher.stop() == 0
    cluster.command("scontrol", "requeue", number)
    cluster.again(number)
    cluster.reaches(number, "RUNNING")
    again = watching(cluster, server)
    try:
        job = ended(server, "alone", "cancelled", "running")
        assert identities(job) == [(number, 0), (number, 1)]
        wait_for(lambda: "watching Slurm: " in again.err)
        assert "refused" not in again.err
    finally:
        again.stop()
