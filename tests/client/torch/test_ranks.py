"""Ranks that a script starts itself, on real PyTorch."""

from pathlib import Path

import pytest

from tests.builders.forking import Forking
from tests.builders.trainers import recorded

pytestmark = [pytest.mark.torch, pytest.mark.xdist_group("torch")]

TRAINER = """
import multiprocessing
import os
import ett_service as ett
import torch.distributed as dist

def train(rank):
    store = "file://" + os.path.join(os.environ["FOLDER"], "store")
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    os.environ.update(MASTER)
    ett.init("spawned", torch=False)
    with ett.train_loop():
        for n in range(1, 4):
            ett.step(n)
    dist.barrier()
    dist.destroy_process_group()
    ett.end()

processes = [multiprocessing.get_context("fork").Process(target=train, args=(n,)) for n in (0, 1)]
for process in processes:
    process.start()
for process in processes:
    process.join()
    assert process.exitcode == 0
"""


@pytest.mark.parametrize(("master", "is_named"), [({}, True), ({"MASTER_ADDR": "10.1.2.3"}, False)])
def test_ranks_that_a_script_starts_itself_are_of_one_attempt(
    trainers: Forking, tmp_path: Path, master: dict[str, str], *, is_named: bool
) -> None:
    events, _ = recorded(trainers, TRAINER.replace("MASTER)", f"{master})"), tmp_path)

    started = [event for event in events if event["type"] == "attempt_started"]
    assert sorted(event["rank"] for event in started) == [0, 1]
    (launch,) = {event.get("launch", "") for event in events}
    assert bool(launch) == is_named  # several nodes have nothing in common
    assert {event["rank"] for event in events if event["type"] == "progress"} == {0}
