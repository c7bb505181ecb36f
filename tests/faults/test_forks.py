"""Forks in every way, from threads that record: none hangs, none takes another's ids."""

import json
import logging
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from ett_service.client.sending.backlog import spools
from ett_service.client.sending.delivery import Target
from ett_service.client.sending.leftovers import ship
from tests.builders.servers.waiting import PATIENCE_S
from tests.builders.servers.web import Web, serving
from tests.builders.trainers import REPOSITORY, environment, run_trainer

log = logging.getLogger(__name__)

FAULTS = ("lost", "double", "shared ids", "foreign")

WORKERS = """
import sys
from torch.utils.data import DataLoader, Dataset
class Samples(Dataset):
    def __len__(self): return 40
    def __getitem__(self, n):
        with ett.phase("stalled"):
            return n
ett.init()
for _ in range(int(sys.argv[1])):
    assert len(list(DataLoader(Samples(), num_workers=2))) == 40
ett.end()
"""


@pytest.mark.parametrize("rounds", [1, pytest.param(None, marks=pytest.mark.long, id="long")])
def test_forks_hang_nowhere_and_lose_and_repeat_nothing(
    tmp_path: Path, rounds: int | None, pytestconfig: pytest.Config
) -> None:
    rounds = rounds or pytestconfig.getoption("--rounds")
    with serving() as web:
        done = subprocess.run(
            [sys.executable, "-m", "tests.faults.forkers", str(rounds)],
            cwd=REPOSITORY,
            env=environment(tmp_path, web.url),
            capture_output=True,
            timeout=PATIENCE_S * rounds,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        counts = counted(tmp_path, web)
    log.warning("%d children: %s", int(done.stdout) - 1, counts)
    assert counts["producers"] == int(done.stdout)
    assert not any(counts[fault] for fault in FAULTS), counts
    # Each child says its phase; the parent says none.
    assert counts["stalled"] == 2 * (int(done.stdout) - 1)


@pytest.mark.long
def test_workers_of_a_data_loader_lose_and_repeat_nothing(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    rounds = pytestconfig.getoption("--rounds")
    with serving() as web:
        env = environment(tmp_path, web.url)
        done = run_trainer(WORKERS, env, str(rounds), seconds=PATIENCE_S * rounds)
        assert done.returncode == 0, done.stderr
        counts = counted(tmp_path, web)
    log.warning("%d loaders: %s", rounds, counts)
    assert not any(counts[fault] for fault in FAULTS), counts
    assert counts["stalled"] == 2 * 40 * rounds


def counted(root: Path, web: Web) -> dict[str, int]:
    """Send what is left, and count what has arrived, by producer.

    ``double`` are numbers that a producer gave to two events, ``shared ids`` likewise of ids, and
    ``foreign`` events that another process sent as its own.
    """
    shipment = ship(spools(root), Target(web.url), seconds=PATIENCE_S)
    assert shipment.stopped_by is None
    batches = [got.batch for got in web.received if got.method == "POST"]
    sent = [event for batch in batches for event in batch["events"]]
    # A process that left before it read the answer is sent for again: the very same events.
    distinct = list({json.dumps(event): event for event in sent}.values())
    numbers: defaultdict[str, set[int]] = defaultdict(set)
    for event in distinct:
        numbers[event["producer"]].add(event["seq"])
    return {
        "producers": len(numbers),
        "lost": sum(max(each) - len(each) for each in numbers.values()),
        "double": len(distinct) - sum(map(len, numbers.values())),
        "shared ids": len(distinct) - len({event["id"] for event in distinct}),
        "foreign": sum(
            event["producer"] != batch["producer"] for batch in batches for event in batch["events"]
        ),
        "stalled": sum(event.get("phase") == "stalled" for event in distinct),
    }
