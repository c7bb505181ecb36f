"""Spools of dead processes are sent, whatever becomes of one connection."""

import itertools
import time
from pathlib import Path

from ett_service.client.sending.backlog import spools
from ett_service.client.sending.delivery import Fate, Target
from ett_service.client.sending.leftovers import Shipment, ship
from ett_service.client.sending.pace import Pace
from tests.builders.servers.waiting import PATIENCE_S
from tests.builders.servers.web import Received, Reply, accepting, serving
from tests.builders.spools import leave_spool

_SPOOLS = 6


def left(tmp_path: Path, count: int = _SPOOLS) -> list[str]:
    """Leave spools of dead processes, and return the ids of their events."""
    return [each for _ in range(count) for each in leave_spool(tmp_path, 3)]


def shipped(tmp_path: Path, url: str) -> Shipment:
    return ship(spools(tmp_path), Target(url), seconds=PATIENCE_S)


def soon() -> Pace:
    """Wait as long as the server asks, and no longer."""
    return Pace(draw=lambda least, _: least)


def test_a_server_that_is_busy_is_tried_again_until_it_takes_everything(tmp_path: Path) -> None:
    ids = left(tmp_path)
    told: list[str] = []
    tries = itertools.count()

    def busy(received: Received) -> Reply:
        """Store what comes, but lose the answer of the first twelve."""
        return Reply(504) if next(tries) < 2 * _SPOOLS else accepting(received)

    with serving(busy) as web:
        shipment = ship(
            spools(tmp_path),
            Target(web.url),
            seconds=PATIENCE_S,
            patience_s=PATIENCE_S,
            say=told.append,
            pace=soon,
        )
        assert (shipment.spools, shipment.left) == (_SPOOLS, 0)
        assert shipment.tally.accepted == len(ids)
        assert {event["id"] for event in web.events} == set(ids)
    assert set(told) == {"the server answered 504; trying again in 0 s"}


def test_a_server_that_asks_for_more_than_our_patience_is_not_tried_before(tmp_path: Path) -> None:
    left(tmp_path, 1)
    with serving() as web:
        web.answer = lambda _: Reply(503, headers={"Retry-After": "60"})
        shipment = ship(spools(tmp_path), Target(web.url), seconds=PATIENCE_S, patience_s=50.0)
        assert shipment.left == 1
        assert len(web.received) == 1


def test_our_patience_with_a_server_that_is_away_ends(tmp_path: Path) -> None:
    left(tmp_path, 40)
    began = time.monotonic()
    with serving() as web:
        web.answer = lambda _: Reply(503, headers={"Retry-After": "1"})
        shipment = ship(spools(tmp_path), Target(web.url), seconds=600, patience_s=2.5, pace=soon)
        assert (shipment.spools, shipment.left) == (0, 40)
        assert 8 < len(web.received) < 40
    assert time.monotonic() - began < 300


def test_one_broken_exchange_keeps_one_spool_back(tmp_path: Path) -> None:
    ids = left(tmp_path)
    refused: set[str] = set()

    def flaky(received: Received) -> Reply:
        """Fail for all events of the first batch, and for no others."""
        batch = {event["id"] for event in received.batch["events"]}
        if not refused:
            refused.update(batch)
        return Reply(503) if batch & refused else accepting(received)

    with serving() as web:
        web.answer = flaky
        shipment = shipped(tmp_path, web.url)
        assert (shipment.spools, shipment.left) == (_SPOOLS - 1, 1)
        assert shipment.stopped_by is not None
        assert shipment.stopped_by.fate is Fate.LATER
        web.answer = accepting
        assert shipped(tmp_path, web.url).left == 0
        assert {event["id"] for event in web.events} == set(ids)


def test_a_server_that_takes_nothing_is_soon_left_alone(tmp_path: Path) -> None:
    left(tmp_path, 40)
    with serving() as web:
        web.answer = lambda _: Reply(503)
        shipment = shipped(tmp_path, web.url)
        assert (shipment.spools, shipment.left) == (0, 40)
        assert len(web.received) < 20


def test_a_key_that_may_not_write_stops_all_at_once(tmp_path: Path) -> None:
    left(tmp_path, 40)
    with serving() as web:
        web.answer = lambda _: Reply(401)
        shipment = shipped(tmp_path, web.url)
        assert shipment.left == 40
        assert shipment.stopped_by is not None
        assert shipment.stopped_by.fate is Fate.FORBIDDEN
        assert len(web.received) <= 4
