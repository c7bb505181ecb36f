"""Which thread trains, and what runs beside it, on real PyTorch."""

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.forking import Forking
from tests.builders.trainers import recorded

pytestmark = [pytest.mark.torch, pytest.mark.xdist_group("torch")]

SETUP = """
import os
import threading
import time
import ett_service as ett
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

def slowly(graph, _inputs):
    time.sleep(0.5)
    return graph.forward

compiled = torch.compile(lambda x: x * 2, backend=slowly)

def in_a_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    return thread
"""

Events = list[dict[str, Any]]
EventsOf = Callable[[str], Events]


@pytest.fixture
def events_of(trainers: Forking, tmp_path: Path) -> EventsOf:
    """Run a trainer's code, and return what it recorded, by instant."""

    def train(code: str) -> Events:
        events, _ = recorded(trainers, SETUP + textwrap.dedent(code), tmp_path)
        return events

    return train


def compiles(events: Events) -> list[str]:
    """The begins and ends of compiles, and the stages inside them."""
    return [
        event.get("stage") or event["type"]
        for event in events
        if event.get("phase") == "pt2_compile"
    ]


def last_facts(events: Events) -> dict[str, Any]:
    """What the process has said of its compiles when it ended."""
    facts: dict[str, Any] = [e["attributes"] for e in events if e["type"] == "heartbeat"][-1]
    return facts


@pytest.mark.slow
def test_a_compile_beside_the_thread_that_trains_is_counted_and_no_wall_time(
    events_of: EventsOf,
) -> None:
    events = events_of(
        """
        ett.auto()
        with ett.train_loop():
            ett.step(1)
            beside = in_a_thread(lambda: compiled(torch.ones(2)))
            n = 1
            while beside.is_alive():
                ett.step(n := n + 1)
        """
    )
    assert compiles(events) == []
    facts = last_facts(events)
    assert facts["background_compiles"] == 1
    assert facts["background_compile_seconds"] >= 0.5


def test_of_two_compiles_at_once_that_of_the_thread_that_trains_is_wall_time(
    events_of: EventsOf,
) -> None:
    events = events_of(
        """
        ett.auto()
        other = torch.compile(lambda x: x * 3, backend=lambda graph, _: time.sleep(0.2) or graph)
        with ett.train_loop():
            ett.step(1)
            beside = in_a_thread(lambda: compiled(torch.ones(2)))
            time.sleep(0.1)
            other(torch.ones(2))  # begins and ends inside the one beside it
            ett.step(2)
            beside.join()
        """
    )
    edges = [e for e in events if e.get("phase") == "pt2_compile" and "stage" not in e]
    assert [edge["type"] for edge in edges] == ["phase_started", "phase_ended"]
    spans = [e for e in events if e.get("phase") == "pt2_compile" and e["type"] == "span"]
    assert {span["attributes"]["compile_id"] for span in spans} == {"1/0"}
    assert last_facts(events)["background_compiles"] == 1


def test_a_compile_in_a_thread_of_autograd_for_which_training_waits_is_wall_time(
    events_of: EventsOf,
) -> None:
    # So deep a backward pass goes on in a thread of autograd's own, as it does on a GPU.
    events = events_of(
        """
        threads = set()

        class Deep(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, depth):
                ctx.depth = depth
                return x.clone()

            @staticmethod
            def backward(ctx, gradient):
                threads.add(threading.get_ident())
                if ctx.depth:
                    with torch.enable_grad():
                        inner = Deep.apply(torch.ones(2, requires_grad=True), ctx.depth - 1)
                        inner.sum().backward()
                else:
                    compiled(torch.ones(2))
                return gradient, None

        ett.auto()
        with ett.train_loop():
            ett.step(1)
            Deep.apply(torch.ones(2, requires_grad=True), 70).sum().backward()
            ett.step(2)
        assert len(threads) > 1, threads
        """
    )
    assert compiles(events)[0] == "phase_started"
    assert compiles(events)[-1] == "phase_ended"
    assert "background_compiles" not in last_facts(events)


def test_a_trainer_that_trains_in_another_thread_loses_nothing(events_of: EventsOf) -> None:
    events = events_of(
        """
        import torch  # in the main thread, which does nothing but wait

        def train():
            ett.auto()
            store = f"file://{os.environ['FOLDER']}/store"
            dist.init_process_group("gloo", init_method=store, rank=0, world_size=1)
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(600, 600))
            optimizer = torch.optim.Adam(model.parameters())
            for n, batch in enumerate(DataLoader([torch.ones(600)] * 3)):
                compiled(torch.ones(2))
                model(batch).sum().backward()
                optimizer.step()
            torch.save(model.state_dict(), os.environ["FOLDER"] + "/weights")
            dist.destroy_process_group()

        in_a_thread(train).join()
        """
    )
    stages = {(event["phase"], event.get("stage")) for event in events if "phase" in event}
    assert {
        ("launcher_init", "process_group_init"),
        ("launcher_init", "train_module_creation"),
        ("launcher_init", "get_first_batch_data"),
        ("pt2_compile", None),
        ("pt2_compile", "dynamo"),
        ("train_loop", None),
        ("checkpoint_blocking", "save"),
        ("shutdown", "teardown"),
    } <= stages
    assert "background_compiles" not in last_facts(events)


def test_the_thread_that_steps_trains_whichever_began_the_recording(events_of: EventsOf) -> None:
    events = events_of(
        """
        ett.auto()

        in_the_loop, is_over = threading.Event(), threading.Event()

        def train():
            with ett.train_loop():
                ett.step(1)
                in_the_loop.set()
                is_over.wait()
                torch.save(torch.ones(1 << 19), os.environ["FOLDER"] + "/weights")
                ett.step(2)

        training = in_a_thread(train)
        in_the_loop.wait()
        compiled(torch.ones(2))
        is_over.set()
        training.join()
        """
    )
    assert compiles(events) == []
    assert last_facts(events)["background_compiles"] == 1
    assert any(event["type"] == "checkpoint_saved" for event in events)
