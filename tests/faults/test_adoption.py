"""Spools of dead processes, for which several adopters race: each event is sent by one of them."""

import logging
import multiprocessing
import random
from pathlib import Path

import pytest

from ett_service.client.identity import Identity
from ett_service.client.lines import Lines
from ett_service.client.sending.backlog import spools
from ett_service.client.sending.delivery import Target
from ett_service.client.sending.leftovers import ship
from ett_service.client.sending.spool import Spool, job_directory
from tests.builders.servers.waiting import PATIENCE_S
from tests.builders.servers.web import serving
from tests.builders.spools import leave_spool

log = logging.getLogger(__name__)


def adopt(root: Path, url: str) -> None:
    """Send what is left, in a process of its own."""
    shipment = ship(spools(root), Target(url), seconds=PATIENCE_S)
    assert shipment.stopped_by is None


@pytest.mark.parametrize(
    ("dead", "adopters", "events"),
    [(16, 3, 60), pytest.param(50, 8, 3000, marks=pytest.mark.long, id="long")],
)
def test_each_event_of_a_dead_process_is_sent_by_one_adopter(
    tmp_path: Path, dead: int, adopters: int, events: int
) -> None:
    draw = random.Random(7)
    ids = [each for _ in range(dead) for each in leave_spool(tmp_path, draw.randint(1, events))]
    live = Spool(job_directory(tmp_path, "j") / "live", {"job": "j"})
    live.write(Lines(Identity("j", "launch"), "live").line({"type": "heartbeat"}))
    before = {path: path.read_bytes() for path in live.directory.iterdir()}
    fork = multiprocessing.get_context("fork")
    with serving() as web:
        racers = [fork.Process(target=adopt, args=(tmp_path, web.url)) for _ in range(adopters)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join(2 * PATIENCE_S)
        sent = [event["id"] for got in web.received for event in got.batch["events"]]
    log.warning(
        "%d spools, %d adopters: acked %d, lost %d, double counted %d, live spools touched %d",
        *(dead, adopters, len(sent), len(set(ids) - set(sent)), len(sent) - len(set(sent))),
        before != {path: path.read_bytes() for path in live.directory.iterdir()},
    )
    assert [racer.exitcode for racer in racers] == [0] * adopters
    assert sorted(sent) == sorted(ids)
    assert before == {path: path.read_bytes() for path in live.directory.iterdir()}
    live.close()
