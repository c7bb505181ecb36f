"""A real training job, killed once and resumed, sent by the demo and read over HTTP."""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ett_service.api.jobs.timeline import LEDGER_PROCESS
from ett_service.api.start import FIRST_PROJECT
from tests.builders.servers.ett import Server
from tests.builders.servers.processes import ETT

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"
TRAINER = DEMO.with_name("trainer.py")
JOB = "copy"
STEPS = ["--steps=60", "--checkpoint-every=20", "--evaluate-every=5", "--crash-at=38"]

pytestmark = [
    pytest.mark.long,
    pytest.mark.torch,
    pytest.mark.xdist_group("real job"),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for what the demo keeps."""
    return tmp_path_factory.mktemp("demo") / "kept"


@pytest.fixture(scope="module")
def demo(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the demo once, as ``make demo`` does, and return what it printed."""
    done = subprocess.run(
        [sys.executable, DEMO, "--folder", folder, "--days=3", *STEPS],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def server(demo: subprocess.CompletedProcess[str], folder: Path) -> Iterator[Server]:
    """Serve what the demo left behind."""
    assert demo.stdout
    database_url = f"sqlite:///{folder / 'ett.db'}"
    server = Server(database_url, folder)
    server.key = subprocess.run(
        [ETT, "keys", "create", "--project", FIRST_PROJECT, "--scope", "read"],
        env={"PATH": os.environ["PATH"], "ETT_DATABASE_URL": database_url},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def job(server: Server) -> Mapping[str, Any]:
    """Return the service's answer about the job."""
    answer: Mapping[str, Any] = server.get(f"/v1/jobs/{JOB}")
    return answer


def test_the_demo_prints_the_ledger_and_what_the_trainer_does(
    demo: subprocess.CompletedProcess[str], job: Mapping[str, Any]
) -> None:
    rows = [line.split() for line in demo.stdout.splitlines() if line]
    shown = {row[0]: row[1] for row in rows if row[-1].endswith("%") and len(row) == 3}
    assert shown.pop("E2E") == f"{job['e2e_seconds']:.6f}"
    assert shown == {name: f"{spent:.6f}" for name, spent in job["categories"].items() if spent}
    assert "killed: signal=9" in demo.stdout
    assert "categories sum to the job's wall time" in demo.stdout
    (place,) = [row for row in rows if row[0] == "ETT%" and row[-1] == "jobs"]
    assert place[1:3] == [f"{job['ett_ratio']:.2%}"] * 2  # it is all of its cohort
    assert "time to start" in demo.stdout.partition("Its place in the last week")[2]
    for words in (
        "kills itself, 18 steps after a checkpoint",
        "resumes after step 20",
        "step   60",
    ):
        assert words in demo.stderr


def test_the_job_is_killed_once_and_resumes_once(job: Mapping[str, Any]) -> None:
    assert (job["state"], job["failures"]) == ("finished", 1)
    killed, resumed = job["attempts"]
    assert (killed["outcome"], killed["cause"]) == ("failed", "unknown")
    assert killed["evidence"]["text"] == "signal=9"
    assert (resumed["outcome"], resumed["last_step"]) == ("completed", 60)
    assert killed["launch"] == resumed["launch"]
    assert [attempt["cycle"] for attempt in job["attempts"]] == [0, 1]
    (recovery,) = job["recoveries"]
    assert (recovery["interrupted"], recovery["resumed"]) == (0, 1)
    assert round(1e6 * recovery["seconds"]) == microseconds(recovery["parts"])


def test_time_is_found_where_it_was_spent(job: Mapping[str, Any]) -> None:
    spent = job["categories"]
    for category in (
        "launcher_init",
        "pt2_compile",
        "effective_training",
        "repeated_training",
        "checkpoint_blocking",
        "evaluation",
    ):
        assert spent[category] > 0, category
    assert spent["recompile"] == 0
    assert {attempt["basis"] for attempt in job["attempts"]} == {"steps"}
    assert job["quality"]["ends_without_begin"] == job["quality"]["clock_flags"] == 0
    assert job["quality"]["unattributed_ratio"] < 0.25


def test_the_ledger_has_no_hole_and_sums_to_the_wall_time(
    server: Server, job: Mapping[str, Any]
) -> None:
    ledger = server.get(f"/v1/jobs/{JOB}/ledger")
    segments = ledger["segments"]
    assert [segment["end"] for segment in segments[:-1]] == [
        segment["start"] for segment in segments[1:]
    ]
    assert (segments[0]["start"], segments[-1]["end"]) == (job["started_at"], job["ended_at"])
    by_category: Counter[str] = Counter()
    for segment in segments:
        by_category[segment["category"]] += segment["microseconds"]
    assert by_category.total() == ledger["e2e_microseconds"] == round(1e6 * job["e2e_seconds"])
    assert by_category == {
        name: round(1e6 * spent) for name, spent in job["categories"].items() if spent
    }


def test_the_stages_of_the_launch_and_of_the_compile_are_known(server: Server) -> None:
    stages = server.get(f"/v1/jobs/{JOB}/stages")
    pairs = {(each["phase"], each["stage"]) for each in stages["stages"]}
    assert pairs >= {
        ("launcher_init", "device_init"),
        ("launcher_init", "process_group_init"),
        ("launcher_init", "train_module_creation"),
        ("launcher_init", "checkpoint_restore"),
        ("launcher_init", "get_first_batch_data"),
        ("checkpoint_blocking", "save"),
        ("shutdown", "model_publish"),
        ("shutdown", "teardown"),
    }
    compiled = {stage for phase, stage in pairs if phase == "pt2_compile"}
    assert compiled & {"dynamo", "aot_dispatch", "inductor"}


def test_the_trace_ends_all_that_it_begins_and_sums_to_the_ledger(
    server: Server, job: Mapping[str, Any]
) -> None:
    begun: dict[tuple[int, int], list[tuple[str, int]]] = {}
    drawn: Counter[str] = Counter()
    for event in server.get(f"/v1/jobs/{JOB}/trace")["traceEvents"]:
        lane = begun.setdefault((event["pid"], event["tid"]), [])
        if event["ph"] == "B":
            lane.append((event["name"], event["ts"]))
        elif event["ph"] == "E":
            name, began_at = lane.pop()
            if event["pid"] == LEDGER_PROCESS:
                drawn[name] += event["ts"] - began_at
    assert not any(begun.values())
    assert {pid for pid, _ in begun} == {LEDGER_PROCESS, 1, 2}
    assert drawn == {name: round(1e6 * spent) for name, spent in job["categories"].items() if spent}


def test_only_whole_checkpoints_are_left(
    demo: subprocess.CompletedProcess[str], folder: Path
) -> None:
    assert demo.returncode == 0
    names = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert names == ["model.pt", "step-20", "step-40", "step-60"]


@pytest.mark.long
def test_a_half_written_checkpoint_is_not_resumed_from_nor_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "draft-2").mkdir()
    (tmp_path / "draft-2" / "__0_0.distcp").write_bytes(b"half of it")
    torchrun = [str(Path(sys.executable).with_name("torchrun")), "--standalone", str(TRAINER)]
    trained = subprocess.run(
        [*torchrun, "--folder", str(tmp_path), "--steps=2", "--checkpoint-every=2", "--crash-at=0"],
        env={**os.environ, "CXX": "no-such-compiler", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "starts from scratch" in trained.stdout
    assert "a C++ compiler not found: compiles with aot_eager instead" in trained.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.pt", "step-2"]


def test_the_demo_refuses_a_folder_that_is_in_use(tmp_path: Path) -> None:
    shutil.copy(DEMO, tmp_path)
    done = subprocess.run(
        [sys.executable, DEMO, "--folder", tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "is not empty" in done.stderr
    assert "Try:" in done.stderr


def microseconds(parts: Mapping[str, float]) -> int:
    """Sum durations in seconds."""
    return sum(round(1e6 * seconds) for seconds in parts.values())
