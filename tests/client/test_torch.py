"""Real PyTorch: what its own hooks record, on the CPU."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ett_service.client.torch import compiles
from ett_service.client.torch.agent import first_failure
from ett_service.client.torch.compile_records import laid_out, stages_of
from ett_service.client.torch.compiles import facts_of
from ett_service.core.failures.rules import RULES
from ett_service.core.ledger.attempt_results import first_match
from tests.builders.installed import python_path
from tests.builders.servers.web import serving
from tests.builders.trainers import environment, recording, run_ett

pytestmark = [pytest.mark.torch, pytest.mark.xdist_group("torch")]

HERE = Path(__file__).parent
CORPUS = Path(os.environ.get("ETT_CORPUS", HERE.parents[1] / ".." / "shared" / "corpus"))

BACKEND = "inductor" if shutil.which("g++") or shutil.which("clang++") else "aot_eager"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The events of one small training, in the order of their instants."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("trainer")
    more = {
        "RANK": "0",
        "OMP_NUM_THREADS": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    with serving() as web:
        done = subprocess.run(
            [sys.executable, HERE / "trainer.py", BACKEND, folder],
            env=environment(folder / "spool", web.url, **more),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return sorted(web.events, key=lambda event: int(event["mono_us"]))


def intervals(
    events: list[dict[str, Any]], phase: str, stage: str | None = None
) -> list[tuple[int, int]]:
    """The begins and ends of a phase or stage, paired."""
    chosen = [
        event
        for event in events
        if event.get("phase") == phase
        and event.get("stage") == stage
        and event["type"].startswith("phase_")
    ]
    begins = [event["mono_us"] for event in chosen if event["type"] == "phase_started"]
    ends = [event["mono_us"] for event in chosen if event["type"] == "phase_ended"]
    return list(zip(begins, ends, strict=True))


def stage_spans(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The stages of compiles."""
    return [e for e in events if e["type"] == "span" and e["phase"] == "pt2_compile"]


def test_every_compile_is_a_phase_and_the_loop_begins_after_that_of_its_first_step(
    trained: list[dict[str, Any]],
) -> None:
    compiles = intervals(trained, "pt2_compile")
    ((loop, _),) = intervals(trained, "train_loop")
    first = [end for _, end in compiles if end <= loop]

    assert len(compiles) > len(first) >= 1
    # Nothing lies between the compile and the loop, and the step is reported after both.
    assert [e for e in trained if "phase" in e and max(first) < e["mono_us"] < loop] == []
    assert loop < next(e["mono_us"] for e in trained if e["type"] == "progress")
    ((_, launched),) = intervals(trained, "launcher_init")
    assert launched == loop


def test_a_reset_of_dynamo_does_not_silence_later_compiles(trained: list[dict[str, Any]]) -> None:
    ((_, restored),) = intervals(trained, "launcher_init", "checkpoint_restore")
    assert any(begin > restored for begin, _ in intervals(trained, "pt2_compile"))


def test_the_stages_of_a_compile_lie_inside_it(trained: list[dict[str, Any]]) -> None:
    spans = stage_spans(trained)
    compiles = intervals(trained, "pt2_compile")
    assert {span["stage"] for span in spans} >= {"dynamo", "aot_dispatch"}
    for span in spans:
        assert any(begin <= span["mono_us"] <= end for begin, end in compiles)


def test_the_caches_of_a_compile_are_recorded(trained: list[dict[str, Any]]) -> None:
    if BACKEND != "inductor":
        pytest.skip("without a C++ compiler there is no inductor cache")
    cold, *_, warm = [span["attributes"] for span in stage_spans(trained)]
    assert (cold["compile_cache"], warm["compile_cache"]) == ("cold", "warm")
    assert cold["aot_cache_misses"] == 1
    assert warm["aot_cache_hits"] == 1
    assert any(span["stage"] == "cache_load" for span in stage_spans(trained))


def test_checkpoints_are_measured_and_durable_when_their_upload_is(
    trained: list[dict[str, Any]],
) -> None:
    assert len(intervals(trained, "checkpoint_blocking")) == 2
    assert len(intervals(trained, "checkpoint_blocking", "save")) == 1
    ((_, staged),) = intervals(trained, "checkpoint_blocking", "staging")
    saved = [event for event in trained if event["type"] == "checkpoint_saved"]
    assert [event["step"] for event in saved] == [2, 4]
    assert saved[1]["mono_us"] > staged


def test_the_process_group_and_the_first_batch_are_stages_of_the_launch(
    trained: list[dict[str, Any]],
) -> None:
    for stage in ("get_first_batch_data", "checkpoint_restore"):
        assert len(intervals(trained, "launcher_init", stage)) == 1
    # One of the world, and one more for the uploads.
    assert len(intervals(trained, "launcher_init", "process_group_init")) == 2


def test_the_attempt_records_which_hooks_were_found(trained: list[dict[str, Any]]) -> None:
    (started,) = [event for event in trained if event["type"] == "attempt_started"]
    hooks = started["attributes"]["hooks"]
    assert hooks["process_group"] == "ok"
    assert set(hooks.values()) <= {"ok", "waiting"}


@pytest.mark.parametrize("name", ["cold", "warm"])
def test_stages_add_up_to_the_compile_in_torchs_own_metrics(name: str) -> None:
    path = CORPUS / "torch_samples" / f"compilation_metrics_{name}.json"
    if not path.exists():
        pytest.skip(f"{path} is missing")
    records = json.loads(path.read_text("utf-8"))
    for record in records:
        stages = stages_of(record)
        assert sum(length for _, length in stages) == record["duration_us"]
        assert all(length >= 0 for _, length in stages)
    kinds = {stage for record in records for stage, length in stages_of(record) if length}
    assert ("cache_load" in kinds) is (name == "warm")


def test_stages_add_up_in_what_other_versions_of_torch_have_traced() -> None:
    path = CORPUS / "torch_trace" / "reference.json"
    if not path.exists():
        pytest.skip(f"{path} is missing")
    logs = json.loads(path.read_text("utf-8"))
    records = [record for log in logs.values() for record in log["compilation_metrics"]]
    durations = [record.get("duration_us") for record in records]
    assert any(durations)
    for record, duration in zip(records, durations, strict=True):
        lengths = [length for _, length in stages_of(record)]
        assert sum(lengths) == (duration or 0)
        assert min(lengths) >= 0
        assert json.dumps(facts_of(record))


def test_stages_never_leave_their_compile() -> None:
    stages = [("a", 5), ("b", 0), ("c", 9)]
    assert laid_out(stages, 100, 120) == [("a", 100, 105), ("c", 105, 114)]
    assert laid_out(stages, 100, 110) == [("a", 100, 101), ("c", 101, 110)]
    assert laid_out(stages, 100, 107) == [("c", 100, 107)]


def test_the_first_line_of_the_reason_of_a_recompile_is_recorded() -> None:
    record = {"compile_id": "0/1", "is_forward": True, "recompile_reason": "0/0: x\nhttps://y"}
    assert facts_of(record) == {
        "compile_id": "0/1",
        "direction": "forward",
        "recompile_reason": "0/0: x",
    }


def test_a_compile_names_its_function_and_short_lists_of_kernels() -> None:
    kernels = '[["triton_add_0", 1200]]'
    record = {"co_name": "forward", "compile_time_autotune_time_us": 7}
    facts = facts_of({**record, "triton_kernel_compile_times_us": kernels})

    assert facts["function"] == "forward"
    assert (facts["kernels"], facts["compile_autotune_us"]) == (kernels, 7)
    assert "kernels" not in facts_of({**record, "triton_kernel_compile_times_us": "x" * 1_001})


def test_a_profile_that_torch_keeps_otherwise_costs_no_fact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    renamed = SimpleNamespace(_CODE_STATE={object(): object()})
    monkeypatch.setitem(sys.modules, "torch._dynamo.pgo", renamed)
    record = {"compile_id": "0/1", "recompile_reason": "0/0: k == 2"}

    assert facts_of(record) == {**record, "direction": "forward"}


@pytest.mark.parametrize(
    ("counts", "state"),
    [
        ({"inductor_fx_local_cache_hit_count": 2}, "warm"),
        (
            {"aotautograd_local_cache_miss_count": 1, "inductor_fx_local_cache_miss_count": 1},
            "cold",
        ),
        (
            {"aotautograd_local_cache_miss_count": 1, "inductor_fx_local_cache_hit_count": 3},
            "mixed",
        ),
        (
            {"inductor_fx_local_cache_miss_count": 2, "inductor_fx_remote_cache_hit_count": 2},
            "warm",
        ),
        ({"inductor_fx_remote_cache_miss_count": 1}, "cold"),
        ({"aotautograd_local_cache_miss_count": 0}, None),
    ],
)
def test_the_state_of_the_compile_cache_is_recorded(
    counts: dict[str, int], state: str | None
) -> None:
    assert facts_of(counts).get("compile_cache") == state


def test_where_metrics_count_no_caches_dynamos_own_counters_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counters: dict[str, Counter[str]] = {"aot_autograd": Counter(), "inductor": Counter()}
    records: list[SimpleNamespace] = []
    utils = ModuleType("torch._dynamo.utils")
    vars(utils).update(counters=counters, get_compilation_metrics=lambda: records)
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", utils)
    handler = SimpleNamespace(install_callbacks=nullcontext)
    compiles.hook(SimpleNamespace(callback_handler=handler))
    with recording(tmp_path) as here:
        for place, what in enumerate(("miss", "hit")):
            began = time.time_ns() // 1000
            with handler.install_callbacks():
                counters["aot_autograd"][f"autograd_cache_{what}"] += 1
                counters["inductor"][f"fxgraph_cache_{what}"] += 2
                time.sleep(0.01)
            named = {"compile_id": f"counted/{place}", "is_forward": True, "is_runtime": False}
            took = time.time_ns() // 1000 - began
            records.append(SimpleNamespace(**named, start_time_us=began, duration_us=took))
        compiles.report_stages(here.recorder)
        told = [event["attributes"] for event in here.events_of("span")]
    counts = [(e["compile_cache"], e["fx_cache_misses"], e["aot_cache_hits"]) for e in told]
    assert counts == [("cold", 2, 0), ("warm", 0, 1)]


def test_an_agent_names_the_worker_that_began_it() -> None:
    path = CORPUS / "torch_samples" / "agent_monitor_workers_failures.jsonl"
    if not path.exists():
        pytest.skip(f"{path} is missing")
    reports = (json.loads(line).get("failures") for line in path.read_text("utf-8").splitlines())
    chosen = []
    for report in filter(None, reports):
        failures = {
            int(rank): SimpleNamespace(exitcode=each["exitcode"], timestamp=each["t"])
            for rank, each in report.items()
        }
        chosen.append(first_failure(failures)[0])
    assert chosen == [1, 0]


CRASHING = """
import os, signal
import ett_service as ett
ett.init()
with ett.train_loop():
    ett.step(1)
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
ett.end()
"""


def rule_of(ended: dict[str, Any]) -> str:
    place, _ = first_match(ended["message"], "", ended["signal"], None) or (0, "")
    return RULES[place].name


@pytest.mark.parametrize(
    ("shell", "automatic"), [([], "1"), (["sh", "-c", '"$0" "$@"; exit'], "0")]
)
def test_a_worker_killed_under_torchrun_is_recorded_with_its_signal(
    shell: list[str], automatic: str, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "crashing.py"
    script.write_text(CRASHING)
    torchrun = str(Path(sys.executable).parent / "torchrun")
    with serving() as web:
        env = environment(tmp_path / "spool", web.url, ETT_AUTO=automatic)
        env["PYTHONPATH"] = python_path(tmp_path / "site")
        done = run_ett(
            env,
            *("run", "--", *shell, torchrun, "--standalone"),
            *("--nproc-per-node=1", "--max-restarts=1", str(script)),
        )
        assert done.returncode == 0, done.stderr
        events = web.events
    ended = [
        (event.get("cycle"), event["outcome"], event.get("signal"))
        for event in events
        if event["type"] == "attempt_ended"
    ]
    assert sorted(ended, key=str) == [
        (0, "failed", 9),
        (1, "completed", None),
        (None, "completed", None),
    ]
    (killed,) = (event for event in events if event.get("signal") == 9)
    assert rule_of(killed) == "killed_first"
    assert len({event["launch"] for event in events}) == 1
    assert {event["cycle"] for event in events if event["type"] == "progress"} == {0, 1}
