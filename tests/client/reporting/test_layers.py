"""What hooks report of real PyTorch beside what the script itself reports, in one process each."""

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.forking import Forking
from tests.builders.trainers import environment, recorded, spooled

pytestmark = [pytest.mark.torch, pytest.mark.xdist_group("torch")]

SETUP = """
import ett_service as ett
import time
import torch
from torch.utils.data import DataLoader
ett.auto()
model = torch.nn.Linear(600, 600)
sgd, adam = (kind(model.parameters(), lr=0.1) for kind in (torch.optim.SGD, torch.optim.Adam))
def train(optimizer=adam):
    optimizer.zero_grad()
    model(torch.ones(2, 600)).sum().backward()
    optimizer.step()
"""

Events = list[dict[str, Any]]
EventsOf = Callable[[str], Events]


@pytest.fixture
def events_of(trainers: Forking, tmp_path: Path) -> EventsOf:
    """Run a trainer's code, and return what it recorded, by instant."""

    def train(code: str) -> Events:
        events, errors = recorded(trainers, SETUP + textwrap.dedent(code), tmp_path)
        assert len(errors.splitlines()) == 1, errors  # where the events lie
        return events

    return train


def steps(events: Events) -> list[tuple[int, str | None]]:
    """The steps that were reported, with their source."""
    return [
        (event["step"], event.get("attributes", {}).get("source"))
        for event in events
        if event["type"] == "progress"
    ]


def edges(events: Events, phase: str) -> list[tuple[str, str | None]]:
    """The begins and ends of a phase, with their source."""
    return [
        (event["type"], event.get("attributes", {}).get("source"))
        for event in events
        if event.get("phase") == phase and "stage" not in event
    ]


@pytest.mark.long
def test_steps_of_the_script_silence_those_of_hooks(events_of: EventsOf) -> None:
    events = events_of("for n in range(100, 104):\n    train()\n    ett.step(n)")
    assert {source for _, source in steps(events)} == {None}
    assert (steps(events)[0][0], steps(events)[-1][0]) == (100, 103)
    assert edges(events, "train_loop") == [("phase_started", "auto"), ("phase_ended", "auto")]


def test_a_loop_of_the_script_silences_that_of_hooks(events_of: EventsOf) -> None:
    events = events_of("with ett.train_loop():\n    for _ in range(3):\n        train()")
    assert edges(events, "train_loop") == [("phase_started", None), ("phase_ended", None)]
    assert steps(events)[0] == (1, "auto")
    assert steps(events)[-1] == (3, "auto")


def test_checkpoints_of_the_script_silence_those_of_hooks(events_of: EventsOf) -> None:
    events = events_of(
        """
        import os
        train(); train()
        torch.save(model.state_dict(), os.environ["FOLDER"] + "/before.pt")
        with ett.checkpoint(7):
            torch.save(model.state_dict(), os.environ["FOLDER"] + "/seven.pt")
        torch.save(model.state_dict(), os.environ["FOLDER"] + "/after.pt")
        torch.save({"small": 1}, os.environ["FOLDER"] + "/small.pt")
        """,
    )
    saved = [
        (event["step"], event.get("attributes", {}).get("source"))
        for event in events
        if event["type"] == "checkpoint_saved"
    ]
    assert saved == [(2, "auto"), (7, None)]
    assert edges(events, "checkpoint_blocking") == [
        ("span", "auto"), ("phase_started", None), ("phase_ended", None)
    ]  # fmt: skip


def test_a_phase_that_the_script_has_open_is_entered_once(events_of: EventsOf) -> None:
    events = events_of(
        """
        with ett.phase("shutdown"):
            pass
        train(); train()
        compiled = torch.compile(model, backend="eager")
        with ett.phase("pt2_compile"):
            compiled(torch.ones(2, 600))
        compiled(torch.ones(3, 600))
        """,
    )
    begins = [source for kind, source in edges(events, "pt2_compile") if kind == "phase_started"]
    assert begins == [None, "auto"]


@pytest.mark.parametrize(
    ("before", "optimizer", "expected"),
    [
        ("ett.restored(40)", "sgd", (41, 43)),
        ("adam.load_state_dict(torch.load(path, weights_only=False))", "adam", (3, 5)),
        ("torch.load(path, weights_only=False)", "sgd", None),
        ("", "sgd", (1, 3)),
    ],
)
def test_steps_are_counted_from_what_was_restored(
    events_of: EventsOf, before: str, optimizer: str, expected: tuple[int, int] | None
) -> None:
    code = f"""
    import os
    path = os.environ["FOLDER"] + "/adam.pt"
    if os.fork() == 0:
        train(); train()
        torch.save(adam.state_dict(), path)
        os._exit(0)
    os.wait()
    {before}
    for _ in range(3):
        train({optimizer})
    """
    reported = [step for step, _ in steps(events_of(code))]
    assert (reported[0], reported[-1]) == expected if expected else reported == []


def test_optimizers_of_one_iteration_are_one_step_and_skipped_ones_are_none(
    events_of: EventsOf,
) -> None:
    events = events_of(
        """
        scaler = torch.amp.GradScaler("cpu")
        for n in range(4):
            train(sgd)
            adam.zero_grad()
            loss = model(torch.ones(2, 600)).sum() * (float("inf") if n == 1 else 1)
            scaler.scale(loss).backward()
            scaler.step(adam)
            scaler.update()
        """,
    )
    assert steps(events)[-1] == (4, "auto")


def test_a_batch_that_blocks_the_loop_is_a_stall_and_shorter_waits_are_summed(
    events_of: EventsOf,
) -> None:
    events = events_of(
        """
        class Slow(torch.utils.data.Dataset):
            def __len__(self):
                return 8
            def __getitem__(self, n):
                time.sleep(1.1 if n == 4 else 0.05 if n == 6 else 0)
                return torch.ones(600)
        for batch in DataLoader(Slow(), batch_size=1):
            train()
        """,
    )
    (stall,) = [event for event in events if event.get("phase") == "stalled"]
    assert stall["attributes"] == {"source": "auto", "waited_for": "data"}
    last = [event for event in events if event["type"] == "progress"][-1]
    assert last["attributes"]["data_wait_seconds"] >= 1.15
    first = [e["type"] for e in events if e.get("stage") == "get_first_batch_data"]
    assert first == ["phase_started", "phase_ended"]


def test_a_hook_that_keeps_failing_is_reported_and_falls_silent(events_of: EventsOf) -> None:
    code = """
    from ett_service.client.torch.states import body_of, states
    from ett_service.client import guard
    import logging
    logging.disable()
    fails = body_of("data", "nothing")(lambda: 1 / 0)
    assert [fails() for _ in range(9)] == ["nothing"] * 9
    assert states["data"] == "error" and guard.errors["ZeroDivisionError"] == 5
    """
    events_of(code)


def test_a_compiled_step_of_an_optimizer_is_counted_and_dynamo_leaves_the_hook_alone(
    events_of: EventsOf,
) -> None:
    events = events_of(
        """
        import logging
        logging.getLogger("torch").setLevel(logging.ERROR)
        model(torch.ones(2, 600)).sum().backward()
        compiled = torch.compile(adam.step, backend="eager")
        for _ in range(4):
            compiled()
        """,
    )
    assert steps(events)[-1] == (4, "auto")


def test_graphs_and_the_reasons_of_breaks_are_reported_once_at_the_end(events_of: EventsOf) -> None:
    events = events_of(
        """
        @torch.compile(backend="eager")
        def broken(x):
            y = x + 1
            torch._dynamo.graph_break()
            return y * 2
        broken(torch.ones(2))
        """,
    )
    last = [event["attributes"] for event in events if event["type"] == "heartbeat"][-1]
    assert last["graphs"] == 2
    assert last["graph_breaks"] == {"Call to `torch._dynamo.graph_break()`": 1}
    assert last["hooks"]["compile"] == "ok"
    assert "compile_seconds" not in last  # torch counts the same
    (end,) = [event for event in events if event["type"] == "attempt_ended"]
    assert events[-1] is end


def test_a_compile_that_the_hook_missed_shows_in_torchs_own_count(events_of: EventsOf) -> None:
    events = events_of(
        """
        function = torch.compile(lambda x: x + 1, backend="eager")
        function(torch.ones(2))
        from torch._dynamo.callback import callback_handler
        del callback_handler.install_callbacks
        function(torch.ones(2, 3, 4))
        slow = torch.compile(lambda x: x * 2, backend=lambda graph, _: time.sleep(0.3) or graph)
        slow(torch.ones(2))
        """,
    )
    last = [event["attributes"] for event in events if event["type"] == "heartbeat"][-1]
    if last["hooks"]["wait_counters"] == "missing":
        pytest.skip("this torch counts nothing")
    assert last["compile_seconds"]["counted"] >= last["compile_seconds"]["seen"] + 0.3


def test_a_compile_without_a_graph_is_warned_of_and_caches_that_are_off_are_reported(
    trainers: Forking, tmp_path: Path
) -> None:
    code = """
    from ett_service.client.torch.compiles import facts_of
    import torch._inductor.config
    torch._inductor.config.force_disable_caches = True
    assert facts_of({})["compile_cache"] == "disabled"
    torch._inductor.config.force_disable_caches = False
    assert "compile_cache" not in facts_of({})
    @torch.compile(backend="eager")
    def broken(x):
        torch._dynamo.graph_break()
        return x
    broken(torch.ones(2))
    """
    env = environment(tmp_path / "spool", OMP_NUM_THREADS="1")
    done = trainers.run_trainer(SETUP + textwrap.dedent(code), env, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "torch.compile captured no graph" in done.stderr


def test_a_loaded_compile_cache_is_compile_time(events_of: EventsOf) -> None:
    code = """
    import logging
    logging.disable()
    torch.compiler.load_cache_artifacts(b"of another version")
    """
    events = events_of(code)
    stages = {event.get("stage") for event in events if event.get("phase") == "pt2_compile"}
    assert stages == {None, "cache_load"}


UNGUARDED = """
import os
import sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.fsdp import FullyShardedDataParallel
import ett_service as ett
ett.auto()

def main():
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/store", rank=0, world_size=1)
    cpu = torch.device("cpu")
    model = FullyShardedDataParallel(torch.nn.Linear(600, 600), device_id=cpu)
    adam = torch.optim.Adam(model.parameters())
    for _ in range(2):
        model(torch.ones(2, 600)).sum().backward()
        adam.step()
    saved = dcp.async_save(
        {"model": torch.nn.Linear(600, 600).state_dict()},
        checkpoint_id=f"{sys.argv[1]}/one",
        async_checkpointer_type=dcp.state_dict_saver.AsyncCheckpointerType.PROCESS,
    )
    saved.result()

if __name__ == "__main__":
    main()
"""


def test_a_build_without_cuda_has_no_device_to_set_up(events_of: EventsOf) -> None:
    events = events_of("""
        import pytest
        with pytest.raises((AssertionError, RuntimeError)):  # or no GPU is here
            torch.cuda._lazy_init()
        if torch.backends.cuda.is_built():
            ett.end(reason="built with CUDA")
    """)
    if events[-1].get("reason") == "built with CUDA":
        pytest.skip("this PyTorch is built with CUDA")
    assert [event for event in events if event.get("stage") == "device_init"] == []


@pytest.mark.long
def test_a_checkpoint_in_a_process_of_its_own_is_no_life_of_the_rank_and_waits_for_it_block(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(UNGUARDED)
    spool = tmp_path / "spool"
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env=environment(spool, OMP_NUM_THREADS="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0"),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    events = spooled(spool)
    assert len({event["producer"] for event in events}) == 1
    (saved,) = [event for event in events if event["type"] == "checkpoint_saved"]
    assert saved["step"] == 2
    assert saved["attributes"]["blocking_seconds"] < saved["duration_seconds"]
    waits = [e for e in events if e.get("stage") == "wait_for_upload"]
    assert [event["type"] for event in waits] == ["phase_started", "phase_ended"]
    # Its process is started in the background, so nearly all of it is waited for here.
    waited = (waits[1]["mono_us"] - waits[0]["mono_us"]) / 1e6
    assert waited > saved["duration_seconds"] / 2
    wrapping = [e["type"] for e in events if e.get("stage") == "train_module_creation"]
    assert wrapping == ["phase_started", "phase_ended"]
