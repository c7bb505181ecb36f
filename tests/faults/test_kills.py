"""Trainers that are killed around a call: what had returned reaches the server, torn or not."""

import subprocess
import sys
from pathlib import Path

import pytest

from ett_service.client.sending.backlog import spools
from ett_service.client.sending.delivery import Target
from ett_service.client.sending.leftovers import ship
from tests.builders.servers.web import serving
from tests.builders.tally import Tally
from tests.builders.trainers import REPOSITORY, environment


def lost_of(root: Path, rounds: int) -> tuple[int, int, int]:
    """Send a spool, and return how many events arrived, were lost, and came twice."""
    with serving() as web:
        shipment = ship(spools(root), Target(web.url), seconds=60.0)
        sent = [event for got in web.received for event in got.batch["events"]]
    assert shipment.stopped_by is None
    assert shipment.tally.unreadable <= 1
    saved = {event["step"] for event in sent if event["type"] == "checkpoint_saved"}
    edges = sum(event["type"] == "phase_ended" for event in sent)
    lost = len(set(range(1, rounds + 1)) - saved) + max(0, 2 * rounds - edges)
    numbers = sorted(event["seq"] for event in sent)
    assert numbers == list(range(1, len(numbers) + 1))
    return len(sent), lost, len(sent) - len({event["id"] for event in sent})


@pytest.mark.parametrize("kills", [12, pytest.param(None, marks=pytest.mark.long, id="long")])
def test_nothing_that_had_returned_is_lost_to_a_kill(
    tmp_path: Path, kills: int | None, tally: Tally
) -> None:
    kills = kills or tally.share(5)
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.writers", str(tmp_path), str(kills), str(tally.seed)],
        cwd=REPOSITORY,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        check=True,
    )
    rounds = [int(line) for line in done.stdout.splitlines()]
    assert len(rounds) == kills
    counts = [lost_of(tmp_path / str(number), count) for number, count in enumerate(rounds)]
    acknowledged, lost, double = (sum(each) for each in zip(*counts, strict=True))
    tally.add(acknowledged=acknowledged, others=kills)
    tally.require_none(lost=lost, double_counted=double)
    assert sum(rounds) > kills
