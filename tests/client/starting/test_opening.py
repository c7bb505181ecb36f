"""How an attempt begins: with its process, its agent, its allocation, and after which failure."""

import json
import os
import time
from pathlib import Path
from typing import Any

from ett_service.client.starting.opening import FOLDER, begins_first
from tests.builders.trainers import environment, run_trainer, spooled

TORCHRUN = {
    "TORCHELASTIC_RESTART_COUNT": "0",
    "TORCHELASTIC_RUN_ID": "llm",
    "MASTER_ADDR": "node-0",
    "MASTER_PORT": "29500",
    "GROUP_WORLD_SIZE": "1",
    "RANK": "0",
    "LOCAL_RANK": "0",
}


def test_a_broken_cycle_is_recorded_by_the_next_from_torchruns_error_files(tmp_path: Path) -> None:
    logs = tmp_path / "none_x"
    message = {"message": "ValueError: bad batch", "extraInfo": {"timestamp": "1795208354"}}
    (logs / "attempt_0" / "1").mkdir(parents=True)
    (logs / "attempt_0" / "1" / "error.json").write_text(json.dumps({"message": message}))
    (logs / "attempt_0" / "2").mkdir()
    (logs / "attempt_0" / "2" / "error.json").write_text("{torn")
    torchrun = {
        "TORCHELASTIC_ERROR_FILE": str(logs / "attempt_1" / "0" / "error.json"),
        "TORCHELASTIC_RESTART_COUNT": "1",
        "LOCAL_RANK": "0",
        "RANK": "4",
        "ETT_RANK": "0",
        "GROUP_RANK": "2",
        "LOCAL_WORLD_SIZE": "4",
    }
    run_trainer("ett.init()\nimport os; os._exit(0)", environment(tmp_path / "s", **torchrun))
    (ended,) = [event for event in spooled(tmp_path / "s") if event["type"] == "attempt_ended"]
    assert (ended["cycle"], ended["rank"], ended["exception"]) == (0, 9, "ValueError")
    assert (ended["message"], ended["at"]) == ("bad batch", "2026-11-20T20:59:14.000000Z")


def test_a_trainer_says_of_which_cluster_slurm_is_unless_it_names_another(tmp_path: Path) -> None:
    slurm = {"SLURM_JOB_ID": "8041", "SLURM_CLUSTER_NAME": "tiny"}
    for code, cluster in (("ett.init()", "tiny"), ("ett.init(cluster='own')", "own")):
        root = tmp_path / cluster
        run_trainer(code, environment(root, **slurm))
        (job,) = [event for event in spooled(root) if event["type"] == "job"]
        assert job["cluster"] == cluster
    run_trainer("ett.init()", environment(tmp_path / "2", **slurm, SLURM_PROCID="1"))
    assert all("cluster" not in event for event in spooled(tmp_path / "2"))


def test_a_worker_under_a_count_of_0_begins_with_its_agent_once(tmp_path: Path) -> None:
    agent = """
import subprocess, sys, time
time.sleep(0.3)
for _ in range(2):
    subprocess.run([sys.executable, "-c", "import ett_service as ett; ett.init()"])
"""
    allocated = {"SLURM_JOB_ID": "8041", "SLURM_JOB_START_TIME": str(int(time.time()) - 40)}
    run_trainer(agent, environment(tmp_path, **TORCHRUN, **allocated))
    events = spooled(tmp_path)
    starts, launches = (
        sorted((e for e in events if e["type"] == kind), key=lambda e: int(e["mono_us"]))
        for kind in ("attempt_started", "phase_started")
    )
    first = starts[0]
    assert launches[0]["mono_us"] + 250_000 < first["mono_us"]
    assert launches[1]["mono_us"] == starts[1]["mono_us"]
    (ended,) = [
        event["mono_us"]
        for event in events
        if event["type"] == "attempt_ended" and event["producer"] == first["producer"]
    ]
    assert first["mono_us"] < ended < starts[1]["mono_us"]
    assert first["attributes"] == {
        "restart_count": "0",
        "run_id": "llm",
        "master_addr": "node-0",
        "master_port": "29500",
    }
    assert sum(event.get("phase") == "hardware_setup" for event in events) == 1


def test_a_later_life_begins_with_the_stages_that_its_own_agent_reports(
    tmp_path: Path,
) -> None:
    agent = """
import os, subprocess, sys, time
from ett_service.client.clock import mono_us
from ett_service.client.starting.torchrun import AGENT_STAGES, agent_stages_text
os.environ["TORCHELASTIC_RESTART_COUNT"] = "1"
for process in (os.getpid(), 1):
    began = mono_us()
    begun = {"stop_workers": began, "rendezvous": began + 20_000, "start_workers": began + 50_000}
    stages = agent_stages_text(process, begun)
    os.environ |= {AGENT_STAGES: stages, "ETT_JOB": f"{process == 1}-{began}"}
    time.sleep(0.1)
    subprocess.run([sys.executable, "-c", "import ett_service as ett; ett.init()"])
"""
    run_trainer(agent, environment(tmp_path, **TORCHRUN))
    began = {(e["job"], e.get("stage", e["type"])): e["mono_us"] for e in spooled(tmp_path)}
    ours, others = sorted({job for job, _ in began})
    assert began[ours, "phase_started"] == int(ours.partition("-")[2])
    ends = [began[ours, stage] for stage in ("stop_workers", "rendezvous", "start_workers")]
    launched = began[ours, "phase_started"]
    assert ends == [launched + 20_000, launched + 50_000, began[ours, "attempt_started"]]
    assert began[others, "phase_started"] == began[others, "attempt_started"]
    assert (others, "rendezvous") not in began


def test_only_the_leading_rank_begins_with_its_agent(tmp_path: Path) -> None:
    agent = """
import os, subprocess, sys, time
time.sleep(0.3)
for rank in "10":
    os.environ["RANK"] = rank
    subprocess.run([sys.executable, "-c", "import ett_service as ett; ett.init()"])
"""
    run_trainer(agent, environment(tmp_path, **TORCHRUN))
    began = {
        (event["type"], event["rank"]): event["mono_us"]
        for event in spooled(tmp_path)
        if event["type"] in ("attempt_started", "phase_started")
    }
    for rank in (0, 1):  # rank 0 is the second life of its agent
        assert began["attempt_started", rank] == began["phase_started", rank]


def test_an_agent_that_is_alone_for_now_names_its_launch_as_all_nodes_do(tmp_path: Path) -> None:
    agent = """
import subprocess, sys
subprocess.run([sys.executable, "-c", "import ett_service as ett; ett.init()"])
"""
    elastic = ["--nnodes=1:2", "--rdzv-id=llm"]
    run_trainer(agent, environment(tmp_path, **TORCHRUN), *elastic)
    assert {event["launch"] for event in spooled(tmp_path)} == {"llm"}


def test_hardware_setup_reaches_from_the_allocation_to_the_process(tmp_path: Path) -> None:
    start = str(int(time.time()) - 40)
    slurm = {"SLURM_JOB_ID": "8041", "SLURM_JOB_START_TIME": start, "SLURM_PROCID": "0"}
    run_trainer("ett.init()", environment(tmp_path, **slurm))
    (span,) = [event for event in spooled(tmp_path) if event.get("phase") == "hardware_setup"]
    assert span["start"].startswith(time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(int(start))))


def test_scheduling_reaches_from_the_submission_to_the_allocation_of_the_first_attempt(
    tmp_path: Path,
) -> None:
    now = int(time.time())
    submitted = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now - 300))
    variables = {"ETT_SUBMITTED_AT": submitted, "ETT_ALLOCATED_AT": str(now - 40)}
    for attempt in ("0", "1"):
        spool = tmp_path / attempt
        run_trainer(
            "ett.init()", environment(spool, **variables, ETT_LAUNCH="l", ETT_ATTEMPT=attempt)
        )
    first, second = ([(e["phase"], e["start"]) for e in spans(tmp_path / n)] for n in "01")
    allocated = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(now - 40))
    assert second == [("hardware_setup", allocated)]
    assert first == [("scheduling", submitted[:-1] + ".000000Z"), *second]


def spans(folder: Path) -> list[dict[str, Any]]:
    phases = ("scheduling", "hardware_setup")
    return [event for event in spooled(folder) if event.get("phase") in phases]


def test_only_the_first_of_a_name_begins_first(tmp_path: Path) -> None:
    assert begins_first(tmp_path, "a/1")
    assert not begins_first(tmp_path, "a/1")
    assert begins_first(tmp_path, "a/2")


def test_where_no_mark_can_be_left_something_may_have_begun(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("in the way")
    assert not begins_first(tmp_path, "a")


def test_marks_are_forgotten_after_months(tmp_path: Path) -> None:
    begins_first(tmp_path, "old")
    os.utime(tmp_path / FOLDER / "old", (0, 0))
    begins_first(tmp_path, "new")
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == ["new"]
