"""Many clients that begin at once get everything to a server that has room for few of them."""

import itertools
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

import pytest
from sqlalchemy import func, select

from ett_service.client.sending.delivery import Batch, Fate, Target, deliver
from ett_service.client.sending.pace import Pace
from ett_service.storage.engine.store import open_for_reading
from ett_service.storage.schema import event
from tests.builders.servers.ett import Server, serving_new
from tests.builders.servers.waiting import wait_for
from tests.builders.tally import Tally

log = logging.getLogger(__name__)

_FEW = 8


def batch(client: str, events: int, after: int = 0) -> Batch:
    """Return what a client has recorded of its job *after* a step."""
    line = '{"type":"progress","job":"%s","at":"2026-03-01T12:00:00Z","step":%d}'
    lines = [(line % (client, after + step)).encode() for step in range(1, events + 1)]
    return Batch(lines, client, None)


class Clients:
    """Each sends one batch, with the pace of a trainer's sender, until it is acknowledged."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.fates: Counter[Fate] = Counter()
        self.stored = 0
        self._counting = threading.Lock()

    def send(self, batches: Sequence[Batch], at_once: int) -> float:
        """Send all of them, and return how many seconds it took."""
        began = time.monotonic()
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(self._send, batches))
        return time.monotonic() - began

    def _send(self, batch: Batch) -> None:
        pace, fate = Pace(), Fate.LATER
        while fate is not Fate.SETTLED:
            time.sleep(max(0.0, pace.not_before - time.monotonic()))
            verdict = deliver(self.target, batch)
            pace.heed(verdict, time.monotonic(), 0)
            fate = verdict.fate
            with self._counting:
                self.fates[fate] += 1
                self.stored += verdict.accepted + verdict.duplicate


def settings(overload: Mapping[str, int]) -> dict[str, str]:
    return {
        "ETT_OVERLOAD": json.dumps(overload),
        "ETT_DETECTION": '{"enabled": false}',
        "ETT_EMBEDDED_WORKER": "false",
    }


def served_to(server: Server, clients: int, events: int) -> tuple[Clients, float, float]:
    """Send from a few clients in turn, then as much from all at once; return both times."""
    herd = Clients(Target(server.url, server.key))
    patient = herd.send([batch(f"patient-{n}", events) for n in range(clients)], _FEW)
    herd.fates.clear()
    herd.stored = 0
    at_once = herd.send([batch(f"herd-{n}", events) for n in range(clients)], clients)
    log.warning(
        "%d clients: %.1f s in turn, %.1f s at once, %s", clients, patient, at_once, herd.fates
    )
    assert herd.stored == clients * events
    assert herd.fates[Fate.SETTLED] == clients
    return herd, patient, at_once


def test_those_who_are_sent_away_come_back_and_lose_nothing(tmp_path: Path) -> None:
    overload = {"write_requests": 1, "waiting": 2}
    with serving_new(tmp_path, **settings(overload)) as server:
        herd, _, _ = served_to(server, 12, 100)
    assert herd.fates[Fate.BUSY] > 0


def test_a_key_that_sends_without_an_end_keeps_no_other_from_its_answers(tmp_path: Path) -> None:
    overload = {"write_requests": 1, "waiting": 8, "wait_seconds": 9}
    stopped = threading.Event()
    with serving_new(tmp_path, **settings(overload)) as server:
        noisy, quiet = server.project("noisy"), server.project("quiet")
        refused: list[int] = []

        def flood(number: int) -> None:
            while not stopped.is_set():
                verdict = deliver(Target(noisy.url, noisy.key), batch(f"noisy-{number}", 50))
                refused.append(verdict.fate is Fate.BUSY)

        with ThreadPoolExecutor(12) as pool:
            floods = [pool.submit(flood, number) for number in range(12)]
            wait_for(lambda: any(refused))
            quiet_target = Target(quiet.url, quiet.key)
            verdicts = [deliver(quiet_target, batch(f"quiet-{n}", 50)) for n in range(5)]
            stopped.set()
            for each in floods:
                each.result()
    assert [each.reason for each in verdicts] == [""] * 5


class Told(NamedTuple):
    """What one process was told."""

    fates: Counter[Fate]
    stored: int
    seconds: list[float]  #: of each request


def store_for(seconds: float, url: str, key: str, name: str) -> Told:
    """Send batch after batch, and say what became of them."""
    target, fates, stored, taken = Target(url, key), Counter[Fate](), 0, list[float]()
    end = time.monotonic() + seconds
    for number in itertools.count():
        began = time.monotonic()
        if began >= end:
            return Told(fates, stored, taken)
        verdict = deliver(target, batch(f"{name}-{number // 50}", 10, after=number * 10))
        taken.append(time.monotonic() - began)
        fates[verdict.fate] += 1
        stored += verdict.accepted
    raise AssertionError("numbers do not end")


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [10, pytest.param(None, marks=pytest.mark.long, id="long")])
def test_eight_processes_that_write_are_never_told_that_the_database_is_busy(
    tmp_path: Path, rounds: int | None, tally: Tally
) -> None:
    seconds = 0.3 * (rounds or tally.rounds)
    with (
        serving_new(tmp_path, ETT_DETECTION='{"enabled": false}') as server,
        ProcessPoolExecutor(_FEW, get_context("spawn")) as pool,
    ):
        sending = [
            pool.submit(store_for, seconds, server.url, server.key, f"writer-{number}")
            for number in range(_FEW)
        ]
        told = [each.result() for each in sending]
        stored = sum(each.stored for each in told)
        fates = sum((each.fates for each in told), Counter[Fate]())
        taken = quantiles([each for one in told for each in one.seconds], n=100)
        log.warning("%d events, p50 %.3f s, p99 %.3f s", stored, taken[49], taken[98])
        with closing(open_for_reading(server.database_url)) as store, store.reading() as conn:
            kept = conn.execute(select(func.count()).select_from(event)).scalar_one()

    assert set(fates) == {Fate.SETTLED}, fates
    assert "locked" not in server.log
    tally.add(acknowledged=stored)
    tally.require_none(lost=max(0, stored - kept), double_counted=max(0, kept - stored))


@pytest.mark.long
def test_512_that_begin_at_once_take_about_as_long_as_their_work(tmp_path: Path) -> None:
    with serving_new(tmp_path, **settings({})) as server:
        herd, patient, at_once = served_to(server, 512, 1000)
    assert herd.fates.total() < 4 * 512
    assert at_once < 3 * patient + 10
