"""Trainers that know nothing of ett, on real PyTorch and two ranks: what hooks report of them."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builders.installed import python_path
from tests.builders.servers.web import serving
from tests.builders.trainers import environment, run_ett

pytestmark = [pytest.mark.long, pytest.mark.torch, pytest.mark.xdist_group("torch")]

HERE = Path(__file__).parent
TORCHRUN = str(Path(sys.executable).parent / "torchrun")

Events = list[dict[str, Any]]


def launched(folder: Path, wrapping: str, run: str, backend: str = "eager") -> Events:
    """Run the trainer under ``ett run -- torchrun``; return its events by instant."""
    pytest.importorskip("torch")
    with serving() as web:
        more = {
            "OMP_NUM_THREADS": "1",
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
        }
        env = environment(folder / run, web.url, **more)
        env["PYTHONPATH"] = python_path(folder / run / "site")
        done = run_ett(
            env,
            *("run", "--", TORCHRUN, "--standalone", "--nproc-per-node=2"),
            *(str(HERE / "untouched.py"), wrapping, str(folder), backend),
            seconds=1_000,
        )
        assert done.returncode == 0, done.stderr
        return sorted(web.events, key=lambda event: int(event["mono_us"]))


@pytest.fixture(scope="module", params=["ddp", "fsdp2"])
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Events, Events]:
    """A first run, and one that is restored from its checkpoint."""
    folder = tmp_path_factory.mktemp(request.param)
    first, second = (launched(folder, request.param, run) for run in ("first", "second"))
    return request.param, first, second


def of_rank(events: Events, rank: int) -> Events:
    return [event for event in events if event.get("rank") == rank]


def stages(events: Events) -> set[tuple[str, str | None]]:
    return {(event["phase"], event.get("stage")) for event in events if "phase" in event}


def test_every_stage_of_an_untouched_trainer_is_reported(
    runs: tuple[str, Events, Events],
) -> None:
    _, first, second = runs
    # Whether an upload is waited for depends on the disk; the call of any backend is AOT dispatch
    # to torch, if it takes long enough; and when a process began is known to 10 ms.
    some_times = {
        ("checkpoint_blocking", "wait_for_upload"),
        ("pt2_compile", "aot_dispatch"),
        ("launcher_init", "start_workers"),
    }
    assert stages(of_rank(first, 0)) - some_times == {
        ("launcher_init", None),
        ("launcher_init", "rendezvous"),
        ("launcher_init", "imports"),
        ("launcher_init", "process_group_init"),
        ("launcher_init", "train_module_creation"),
        ("launcher_init", "get_first_batch_data"),
        ("pt2_compile", None),
        ("pt2_compile", "dynamo"),
        ("train_loop", None),
        ("checkpoint_blocking", None),
        ("checkpoint_blocking", "save"),
        ("checkpoint_blocking", "staging"),
        ("shutdown", None),
        ("shutdown", "teardown"),
    }
    assert ("launcher_init", "checkpoint_restore") in stages(of_rank(second, 0))


def test_each_rank_is_one_producer_and_the_launcher_another(
    runs: tuple[str, Events, Events],
) -> None:
    _, first, _ = runs
    producers = {rank: {e["producer"] for e in of_rank(first, rank)} for rank in (0, 1)}
    assert [len(names) for names in producers.values()] == [1, 1]
    assert len({event["producer"] for event in first}) == 3


def test_what_hooks_report_names_its_source(runs: tuple[str, Events, Events]) -> None:
    _, first, _ = runs
    own = {"attempt_started", "attempt_ended", "heartbeat", "job"}
    for event in of_rank(first, 0):
        is_launch = event.get("phase") == "launcher_init" and "stage" not in event
        if event["type"] not in own and not is_launch:
            assert event["attributes"]["source"] == "auto", event


def test_an_iteration_is_one_step_and_a_restored_run_goes_on_counting(
    runs: tuple[str, Events, Events],
) -> None:
    _, _, second = runs
    steps = [[e["step"] for e in of_rank(run, 0) if e["type"] == "progress"] for run in runs[1:]]
    assert (steps[0][0], steps[0][-1]) == (1, 6)
    assert (steps[1][0], steps[1][-1]) == (7, 12)
    restored = [e["step"] for e in of_rank(second, 0) if e["type"] == "checkpoint_restored"]
    assert restored == [6]


def test_checkpoints_are_durable_after_the_step_that_they_hold(
    runs: tuple[str, Events, Events],
) -> None:
    _, first, _ = runs
    saved = [e for e in of_rank(first, 0) if e["type"] == "checkpoint_saved"]
    assert [event["step"] for event in saved] == [2, 4, 6]
    assert saved[1]["attributes"]["blocking_seconds"] <= saved[1]["duration_seconds"]
    assert saved[2]["bytes"] > 1 << 20


def test_the_loop_begins_with_the_first_batch_that_trains_and_ends_with_the_last_step(
    runs: tuple[str, Events, Events],
) -> None:
    _, first, _ = runs
    events = of_rank(first, 0)
    (begin,) = (e["mono_us"] for e in events if is_edge(e, "phase_started", "train_loop"))
    (end,) = (e["mono_us"] for e in events if is_edge(e, "phase_ended", "train_loop"))
    compiled = [e["mono_us"] for e in events if is_edge(e, "phase_ended", "pt2_compile")]
    progress = [e["mono_us"] for e in events if e["type"] == "progress"]
    assert min(compiled) <= begin < progress[0]
    assert end == progress[-1]
    shutdown = [e["mono_us"] for e in events if is_edge(e, "phase_started", "shutdown")]
    assert shutdown == [end]


def is_edge(event: dict[str, Any], kind: str, phase: str) -> bool:
    return event["type"] == kind and event["phase"] == phase and "stage" not in event


def spans(events: Events, stage: str) -> list[dict[str, Any]]:
    return [e["attributes"] for e in events if e["type"] == "span" and e.get("stage") == stage]


@pytest.mark.long
@pytest.mark.parametrize("wrapping", ["ddp", "fsdp2"])
def test_a_real_compiler_shows_its_stages_and_then_its_cache(wrapping: str, tmp_path: Path) -> None:
    first, second = (
        of_rank(launched(tmp_path, wrapping, run, "inductor"), 0) for run in ("first", "second")
    )
    for stage in ("dynamo", "aot_dispatch", "inductor"):  # one thread compiles, so none waits
        assert spans(first, stage), stage
    assert {attributes["compile_cache"] for attributes in spans(first, "inductor")} == {"cold"}
    assert {attributes["compile_cache"] for attributes in spans(second, "cache_load")} == {"warm"}
    graphs = [e["attributes"].get("graphs", 0) for e in first if e["type"] == "heartbeat"]
    assert graphs[-1] >= 1
    waits = [e["attributes"].get("data_wait_seconds") for e in first if e["type"] == "progress"]
    assert waits[-1] > 0
    assert [e["step"] for e in second if e["type"] == "checkpoint_restored"] == [6]
