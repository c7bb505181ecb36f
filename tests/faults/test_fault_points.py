"""A server dies at every point of an ingest, and an answer of its database is lost there."""

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from ett_service.client.sending.transport import Unreachable
from tests.builders.databases.between import between, commits
from tests.builders.record import wire
from tests.builders.servers.ett import Server, new_key, serving
from tests.builders.servers.waiting import wait_for
from tests.builders.tally import Tally
from tests.faults.mortal import dies_answering, dies_at_write
from tests.faults.plan import Plan
from tests.faults.senders import Senders, Stored, check, marks, verified

ALONE = {"ETT_DETECTION": '{"enabled": false}', "ETT_EMBEDDED_WORKER": "false"}
WORKING = {**ALONE, "ETT_EMBEDDED_WORKER": "true"}
EVENTS = 3

ONCE = {"accepted": EVENTS, "duplicate": 0}
AGAIN = {"accepted": 0, "duplicate": EVENTS}


def batch(number: int) -> list[dict[str, Any]]:
    """Return the events of a job of its own."""
    return [
        wire("progress", job=f"job-{number}", step=step, id=f"{number}-{step}")
        for step in range(1, EVENTS + 1)
    ]


def sent(server: Server, number: int) -> dict[str, int]:
    """Send a batch, and return how many events were new and how many were not."""
    answer = server.send(batch(number))
    assert answer.status == 200, answer.body
    verdict = json.loads(answer.body)
    return {name: verdict[name] for name in ("accepted", "duplicate")}


def dies(server: Server, number: int) -> bool:
    """Send a batch that may cost the server its life, and tell whether it did."""
    try:
        assert sent(server, number) == ONCE
    except Unreachable:
        assert server.wait() < 0
        return True
    return False


@contextmanager
def settled(server: Server) -> Iterator[None]:
    """Have a worker do what there is to do in the end, and recompute everything."""
    yield
    server.stop()
    server.environment |= WORKING
    server.start()
    wait_for(lambda: marks(server.database_url) == 0)
    verified(server)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_server_that_dies_at_any_write_has_stored_all_or_nothing(
    database_url: str, tmp_path: Path, tally: Tally, *, every: bool
) -> None:
    armed = tmp_path / "armed"
    verdicts: Counter[str] = Counter()
    server = Server(database_url, tmp_path, **ALONE)
    with settled(server):
        step = 1 if every else 4
        for number in itertools.count(0 if every else tally.draw.randrange(step), step):
            server.start(partial(dies_at_write, armed, number))
            if number >= step:
                verdicts[str(sent(server, number - step))] += 1
                assert sent(server, number - step) == AGAIN
            armed.touch()
            survived = not dies(server, number)
            armed.unlink()
            if survived:
                break
            tally.add(kills=1, acknowledged=EVENTS)
    server.stop()
    assert set(verdicts) <= {str(ONCE), str(AGAIN)}
    assert verdicts
    assert verdicts[str(ONCE)] or not every


@pytest.mark.parametrize(
    ("dialect", "part"),
    [
        ("sqlite", "begin"),
        *(
            pytest.param(dialect, part, marks=pytest.mark.long, id=f"{dialect}-{part}-long")
            for dialect, part in (("sqlite", "end"), ("postgresql", "begin"), ("postgresql", "end"))
        ),
    ],
    indirect=["dialect"],
)
def test_what_a_server_answers_is_committed_before_the_first_byte(
    database_url: str, tmp_path: Path, part: str, tally: Tally
) -> None:
    armed = tmp_path / "armed"
    server = Server(database_url, tmp_path, **ALONE)
    server.start(partial(dies_answering, armed, part))
    with settled(server):
        armed.touch()
        with suppress(Unreachable):
            assert sent(server, 1) == ONCE
            assert part == "end"
        assert server.wait() < 0
        armed.unlink()
        tally.add(kills=1, acknowledged=EVENTS, absorbed=EVENTS)
        server.start()
        assert sent(server, 1) == AGAIN
    server.stop()


@pytest.mark.long
@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_server_that_dies_at_any_message_to_postgresql_has_stored_all_or_nothing(
    database_url: str, tmp_path: Path, tally: Tally
) -> None:
    verdicts: Counter[str] = Counter()
    plan = Plan()
    with between(database_url, plan.meet) as url:
        server = Server(url, tmp_path, **ALONE)
        server.start()
        with settled(server):
            for number in itertools.count():
                plan.act(number, server.kill)
                if not dies(server, number):
                    plan.forget()
                    break
                tally.add(kills=1, acknowledged=EVENTS)
                server.start()
                verdicts[str(sent(server, number))] += 1
                assert sent(server, number) == AGAIN
        server.stop()
    assert set(verdicts) <= {str(ONCE), str(AGAIN)}
    assert verdicts[str(ONCE)]


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    ("ids", "rounds"),
    [
        (True, 3),
        pytest.param(True, None, marks=pytest.mark.long, id="long"),
        pytest.param(False, 6, marks=pytest.mark.long, id="no ids"),
    ],
)
def test_a_commit_whose_answer_is_lost_counts_once(
    database_url: str,
    tmp_path: Path,
    rounds: int | None,
    tally: Tally,
    *,
    ids: bool,
) -> None:
    wanted = rounds or tally.share(2.5)
    chances, lost, serves = tally.draw, 0, Event()

    def drops(message: bytes) -> bool:
        nonlocal lost
        is_lost = serves.is_set() and commits(message) and chances.random() < 0.5
        lost += is_lost
        return is_lost

    key = new_key(database_url)
    with between(database_url, drops) as url, serving(url, tmp_path, key=key, **ALONE) as server:
        serves.set()
        senders = Senders(server, ids=ids)
        with senders.sending():
            wait_for(lambda: lost >= wanted and (senders.absorbed or not ids))
    tally.add(others=lost)
    senders.server = Server(database_url, tmp_path, server.key, **WORKING)
    if ids:
        with running(senders.server):
            check(senders, tally)
    else:
        assert Stored.by(senders).double_counted > 0


@contextmanager
def running(server: Server) -> Iterator[None]:
    """Have a server run until the end of the block."""
    server.start()
    yield
    server.stop()
