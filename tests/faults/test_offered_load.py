"""More is sent than a server takes: it says so, keeps what it took, and stays there for others.

The senders run on the same processors as the server. So times are compared with those of the same
machine, senders and server in the same minute, and printed; what is asserted of them is what holds
wherever the senders do.
"""

import logging
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing, contextmanager
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import pytest
from sqlalchemy import func, select

from ett_service.aggregation.fold_job import MOST_EVENTS
from ett_service.storage.engine.store import open_for_reading
from ett_service.storage.schema import event
from tests.builders.servers.ett import Server, serving_new
from tests.builders.servers.resident import resident_mib
from tests.builders.tally import Tally
from tests.faults.offered_load import Answers, Offer, send

log = logging.getLogger(__name__)

QUIET = {"ETT_DETECTION": '{"enabled": false}'}
LITTLE_ROOM = {"ETT_OVERLOAD": '{"write_requests": 4, "waiting": 32}'}
"""So that senders without processors of their own bring more than there is room for."""
LONG = pytest.param(None, marks=pytest.mark.long, id="long")
NORMAL = 0.3  #: of what the server takes at most
BACK_S = 30.0
_LOOK_EVERY_S = 0.5
_FLAT = 0.1

_numbers = count()


@contextmanager
def senders() -> Iterator[ProcessPoolExecutor]:
    """Start processes that send."""
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        yield pool


def offer(server: Server, seconds: float, rate: float = 1e9, **more: int) -> Offer:
    """Offer batches that nobody has offered before."""
    name = f"offer-{next(_numbers)}"
    return Offer(server.url, server.key, name, seconds, rate, **more)


def most(pool: ProcessPoolExecutor, server: Server) -> float:
    """Return how many batches a second it takes of senders that wait for each answer."""
    return pool.submit(send, offer(server, 5.0, connections=16)).result().batches_a_second


def stored(server: Server) -> int:
    """Count the events in the database."""
    with closing(open_for_reading(server.database_url)) as store, store.reading() as conn:
        return conn.execute(select(func.count()).select_from(event)).scalar_one()


def watched(sending: "Future[Answers]", server: Server) -> tuple[Answers, list[tuple[float, int]]]:
    """Wait for the answers, and return with them what the server held in memory, and when."""
    held: list[tuple[float, int]] = []
    while not sending.done():
        held.append((time.monotonic(), resident_mib(server.pid)))
        time.sleep(_LOOK_EVERY_S)
    return sending.result(), held


def with_full_folds(answers: Answers, held: list[tuple[float, int]], before: int) -> list[int]:
    """Return what was held once the worker kept as many events as it ever does."""
    each = answers.accepted / len(answers.taken)
    left = max(0, int((MOST_EVENTS - before) / each))
    if left >= len(answers.taken):
        return []
    full_at = answers.taken[left][0]
    return [mib for at, mib in held if at >= full_at]


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [3, LONG])
def test_five_times_what_it_takes_is_refused_until_it_is_less_and_nothing_is_lost(
    tmp_path: Path, rounds: int | None, tally: Tally
) -> None:
    seconds = 3.0 * (rounds or tally.rounds)
    room = {} if rounds is None else LITTLE_ROOM
    with serving_new(tmp_path, **QUIET, **room) as server, senders() as pool:
        rate = most(pool, server)
        before = pool.submit(send, offer(server, 10.0, NORMAL * rate)).result()
        kept = stored(server)
        beyond, held = watched(
            pool.submit(send, offer(server, seconds, 5 * rate, connections=1500)), server
        )
        ended = time.monotonic()
        after = pool.submit(send, offer(server, BACK_S + 10, NORMAL * rate)).result()
        there = stored(server)
    flat = with_full_folds(beyond, held, kept)
    slow = [at - ended for at, took in after.taken if took > max(1.0, 3 * before.p99())]
    log.warning(
        "%.0f batches a second; of 5 times as many for %.0f s %s, p99 %.2f s; before %.3f s, "
        "after %.3f s, the last slow one %.1f s after; MiB %d to %d, with full folds %s",
        rate, seconds, dict(beyond.statuses), beyond.p99(), before.p99(), after.p99(ended + BACK_S),
        max(slow, default=0.0), held[0][1], max(mib for _, mib in held),
        (min(flat), max(flat)) if flat else "never",
    )  # fmt: skip

    every = (before, beyond, after)
    assert set(beyond.statuses) <= {200, 429, 503}
    assert beyond.statuses[503] + beyond.statuses[429] > 0
    assert sum(each.without_retry_after for each in every) == 0
    assert sum(each.broken for each in every) == 0
    assert set(before.statuses) | set(after.statuses) == {200}
    assert max(slow, default=0.0) <= BACK_S
    if flat:
        assert max(flat) <= (1 + _FLAT) * median(flat)
        assert min(flat) >= (1 - _FLAT) * median(flat)
    taken = kept + beyond.accepted + after.accepted
    tally.add(acknowledged=taken, others=sum(beyond.statuses.values()) - beyond.statuses[200])
    tally.require_none(lost=max(0, taken - there), double_counted=max(0, there - taken))


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [2, LONG])
def test_a_key_that_floods_has_no_other_key_refused(
    tmp_path: Path, rounds: int | None, tally: Tally
) -> None:
    seconds = 5.0 + 0.1 * (rounds or tally.rounds)
    room = {} if rounds is None else LITTLE_ROOM
    with serving_new(tmp_path, **QUIET, **room) as server, senders() as pool:
        noisy, quiet = server.project("noisy"), server.project("quiet")
        rate = most(pool, noisy)

        def beside(seconds: float, noise: Offer | None) -> tuple[Answers, Answers | None]:
            sending = None if noise is None else pool.submit(send, noise)
            mine = offer(quiet, seconds, 20.0, events=10, connections=20)
            answers = pool.submit(send, mine).result()
            return answers, None if sending is None else sending.result()

        alone, _ = beside(seconds, None)
        shared, _ = beside(seconds, offer(noisy, seconds, connections=16))
        flooded, flood = beside(seconds, offer(noisy, seconds, 10 * rate))
    assert flood is not None
    log.warning(
        "p99 of the quiet key %.3f s alone, %.3f s beside one that waits for its answers, %.3f s "
        "beside 10 times as much, which got %s: %.1f times",
        alone.p99(), shared.p99(), flooded.p99(), dict(flood.statuses),
        flooded.p99() / shared.p99(),
    )  # fmt: skip
    assert flood.statuses[429] > 0
    assert flood.without_retry_after == 0
    for each in (alone, shared, flooded):
        assert set(each.statuses) == {200}
        assert each.broken == 0
    tally.add(others=flood.statuses[429] + flood.statuses[503])
