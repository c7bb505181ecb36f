import shutil
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from ett_service.client.identity import submitted_at_us
from tests.builders.servers.ett import Server
from tests.builders.servers.programs import needed
from tests.builders.servers.waiting import PATIENCE_S, wait_for
from tests.examples.pod import KUBERNETES, Pod, api_server, containers

JOB = "/v1/jobs/llm-70b"
SIDECAR, TRAINER = containers()

NewPod = Callable[..., Pod]


@pytest.fixture
def new_pod(server: Server, tmp_path: Path) -> Iterator[NewPod]:
    """Return what makes pods that an API server knows, of a given age, placed half of it ago."""
    with ExitStack() as stack:

        def make(age: timedelta = timedelta(seconds=60)) -> Pod:
            now = datetime.now(UTC).replace(microsecond=0)
            uid = str(uuid.uuid4())
            created, scheduled = now - age, now - age / 2
            pod = Pod(tmp_path / uid, uid, created, scheduled)
            pod.mount(server)
            stack.enter_context(api_server(pod))
            return pod

        yield make


def _live(pod: Pod, *command: str, stop: bool = False) -> int:
    """Let a pod live as a kubelet does, and return the trainer's exit code."""
    sidecar = pod.start(SIDECAR)
    trainer = pod.start(TRAINER, *command)
    if stop:
        wait_for((pod.shared / "started").exists)
        wait_for((pod.folder / "trains").exists)
        pod.pre_stop(TRAINER)
        trainer.send_signal(signal.SIGTERM)
    code = trainer.wait(PATIENCE_S)
    sidecar.send_signal(signal.SIGTERM)
    assert sidecar.wait(PATIENCE_S) == 0
    return code


def _ended(server: Server, count: int = 1) -> dict[str, Any]:
    def is_over(job: dict[str, Any]) -> bool:
        attempts = job["attempts"]
        return len(attempts) == count and attempts[-1]["outcome"] != "running"

    answer: dict[str, Any] = server.reaches(JOB, is_over)
    return answer


def _trains(pod: Pod, then: str) -> tuple[str, ...]:
    return ("sh", "-c", f"{then}; touch {pod.folder}/trains; sleep 600 & wait $!; exit 9")


def test_a_pod_that_ends_well(server: Server, new_pod: NewPod) -> None:
    pod = new_pod()
    assert _live(pod, "true") == 0
    job = _ended(server)
    (attempt,) = job["attempts"]
    assert (attempt["launch"], attempt["outcome"], attempt["gpus"]) == (pod.uid, "completed", 8)
    assert (job["state"], job["labels"]) == ("finished", {"node": "node-1"})
    began, over = (datetime.fromisoformat(job[name]) for name in ("started_at", "ended_at"))
    assert began == pod.created
    started = datetime.fromisoformat((pod.shared / "started").read_text().strip())
    spent = {name: seconds for name, seconds in job["categories"].items() if seconds}
    after = (over - started).total_seconds()
    assert spent == {
        "scheduling": 30.0,
        "hardware_setup": (started - pod.scheduled).total_seconds(),
        **({"unattributed": after} if after else {}),
    }


def test_a_trainer_that_fails_and_its_next_pod(server: Server, new_pod: NewPod) -> None:
    assert _live(new_pod(), "sh", "-c", "exit 3") == 3
    job = _ended(server)
    assert (job["state"], job["failures"]) == ("interrupted", 1)
    events = server.get(f"{JOB}/events")["events"]
    assert [event["exit_code"] for event in events if event["type"] == "attempt_ended"] == [3]
    _live(new_pod(age=timedelta(seconds=20)), "true")
    job = _ended(server, 2)
    assert [attempt["outcome"] for attempt in job["attempts"]] == ["failed", "completed"]


@pytest.mark.parametrize(
    ("disruption", "outcome", "origin"),
    [
        ("PreemptionByScheduler", "preempted", "preemption"),
        ("DeletionByTaintManager", "failed", "infra"),
        (None, "cancelled", None),
    ],
)
def test_why_a_pod_was_stopped(
    server: Server, new_pod: NewPod, disruption: str | None, outcome: str, origin: str | None
) -> None:
    pod = new_pod()
    if disruption:
        pod.disrupted(disruption)
    assert _live(pod, *_trains(pod, "trap 'exit 0' TERM"), stop=True) == 0
    (attempt,) = _ended(server)["attempts"]
    assert (attempt["outcome"], attempt["origin"]) == (outcome, origin)
    events = server.get(f"{JOB}/events")["events"]
    (stopping,) = [event for event in events if event.get("phase") == "shutdown"]
    at = datetime.fromisoformat((pod.shared / "stopping").read_text().strip())
    assert datetime.fromisoformat(stopping["at"]) == at


def test_a_signal_that_ends_the_trainer_is_its_exit_code(new_pod: NewPod) -> None:
    pod = new_pod()
    assert _live(pod, *_trains(pod, ":"), stop=True) == 128 + signal.SIGTERM


def test_a_stop_while_the_shell_starts_the_trainer_reaches_it(new_pod: NewPod) -> None:
    pod = new_pod()
    sidecar = pod.start(SIDECAR)
    command = [word.replace("& pid=", "& sleep 1; pid=") for word in TRAINER["command"]]
    assert command != TRAINER["command"]
    trainer = pod.start({**TRAINER, "command": command}, *_trains(pod, "trap 'exit 7' TERM"))
    wait_for((pod.folder / "trains").exists)
    trainer.send_signal(signal.SIGTERM)
    assert trainer.wait(PATIENCE_S) == 7
    sidecar.send_signal(signal.SIGTERM)
    assert sidecar.wait(PATIENCE_S) == 0


def test_a_trainer_that_ran_out_of_memory(server: Server, new_pod: NewPod) -> None:
    pod = new_pod()
    pod.reason = "OOMKilled"
    _live(pod, "sh", "-c", "exit 137")
    (attempt,) = _ended(server)["attempts"]
    assert (attempt["origin"], attempt["cause"]) == ("user", "oom")


def test_all_that_was_sent_again_and_again_counts_once(server: Server, new_pod: NewPod) -> None:
    pod = new_pod()
    _live(pod, "true")
    _ended(server)
    lines = (pod.shared / "events.ndjson").read_text().splitlines()
    assert len(server.get(f"{JOB}/events")["events"]) == len(lines)


def test_without_the_service_or_the_api_the_pod_ends_as_it_would(
    server: Server, new_pod: NewPod
) -> None:
    pod = new_pod()
    pod.port = 9
    recorder = (pod.folder / "recorder.sh").read_text()
    (pod.folder / "recorder.sh").write_text(recorder.replace("sleep 2", "sleep 0"))
    config = (pod.folder / "ett.curl").read_text()
    (pod.folder / "ett.curl").write_text(config.replace(server.url, "http://127.0.0.1:9"))
    assert _live(pod, "true") == 0
    assert server.get(JOB) is None


def test_a_job_in_python_is_told_when_it_was_submitted() -> None:
    """Do what its first lines say, and what the downward API does with the annotation."""
    text = (KUBERNETES / "python-job.yaml").read_text()
    assert "date -u +%Y-%m-%dT%H:%M:%SZ" in text
    manifest = text.partition("apiVersion")[2].replace("SUBMITTED_AT", "2026-03-01T12:00:00Z", 1)
    template = yaml.safe_load("apiVersion" + manifest)["spec"]["template"]
    (trainer,) = template["spec"]["containers"]
    sources = {each["name"]: each.get("valueFrom", {}) for each in trainer["env"]}
    path = sources["ETT_SUBMITTED_AT"]["fieldRef"]["fieldPath"]
    annotation = path.removeprefix("metadata.annotations['").removesuffix("']")
    env = {"ETT_SUBMITTED_AT": template["metadata"]["annotations"][annotation]}
    assert submitted_at_us(env) == 1_772_366_400_000_000


@pytest.mark.parametrize("version", ["1.29", "1.36"])
def test_kubernetes_takes_every_object(version: str) -> None:
    files = [KUBERNETES / name for name in ("access.yaml", "job.yaml", "python-job.yaml")]
    objects = [each for path in files for each in yaml.safe_load_all(path.read_text())]
    assert [each["kind"] for each in objects] == [
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "Job",
        "Job",
    ]
    for each in objects:
        kubernetes_validate.validate(each, version, strict=True)


def test_it_is_built_into_objects_that_find_each_other(tmp_path: Path) -> None:
    kubectl = needed("kubectl", "kubernetes-client")
    folder = tmp_path / "kubernetes"
    shutil.copytree(KUBERNETES, folder)
    shutil.copy(folder / "ett.curl.example", folder / "ett.curl")
    built = subprocess.run(
        [kubectl, "kustomize", folder], capture_output=True, text=True, check=True
    )
    objects = list(yaml.safe_load_all(built.stdout))
    (job,) = [each for each in objects if each["kind"] == "Job"]
    volumes = job["spec"]["template"]["spec"]["volumes"]
    (sources,) = [each["projected"]["sources"] for each in volumes if "projected" in each]
    names = {(each["kind"], each["metadata"]["name"]) for each in objects}
    assert ("ConfigMap", sources[0]["configMap"]["name"]) in names
    assert ("Secret", sources[1]["secret"]["name"]) in names
