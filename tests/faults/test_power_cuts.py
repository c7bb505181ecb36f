"""The power goes at any instant: what was acknowledged is on the disk, with its mark, and whole."""

import itertools
import json
import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select

from ett_service.client.sending.transport import request
from ett_service.storage.engine.store import open_for_reading
from ett_service.storage.schema import dirty
from tests.builders.record import wire
from tests.builders.servers.ett import Server
from tests.builders.servers.waiting import wait_for
from tests.builders.tally import Tally
from tests.faults.mortal import checkpoints_often, forgets_to_sync
from tests.faults.power_cuts import Disk, Step, Sync, lets_be_traced, strace, traced
from tests.faults.senders import steps_of

ALONE = {"ETT_DETECTION": '{"enabled": false}', "ETT_EMBEDDED_WORKER": "false"}
FILES = ("ett.db", "ett.db-wal")
EVENTS = 3
AT_ONCE = 3  #: senders

pytestmark = pytest.mark.skipif(not strace(), reason="strace is missing, or may trace nothing")


def all_of(*acts: Callable[[], None]) -> None:
    for act in acts:
        act()


def ran(
    database_url: str, folder: Path, batches: int, *more: Callable[[], None]
) -> tuple[Disk, list[Step]]:
    """Send batches to a traced server, and return its disk before them and its steps."""
    server = Server(database_url, folder, **ALONE)
    server.start(partial(all_of, lets_be_traced, *more))
    pause(server.pid)  # nothing is written between the copy and the trace
    disk = Disk({name: bytearray((folder / name).read_bytes()) for name in FILES})
    with traced(server.pid, folder) as steps:
        os.kill(server.pid, signal.SIGCONT)
        numbers = iter(range(batches))
        threads = [threading.Thread(target=_send, args=(server, numbers)) for _ in range(AT_ONCE)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    server.kill()
    return disk, steps


def pause(process: int) -> None:
    """Stop a process, and return once all of it stands still."""
    os.kill(process, signal.SIGSTOP)
    tasks = Path(f"/proc/{process}/task")
    wait_for(lambda: all(_is_stopped(task) for task in tasks.iterdir()))


def _is_stopped(task: Path) -> bool:
    return (task / "stat").read_text().rpartition(") ")[2].startswith("T")


def _send(server: Server, numbers: Iterator[int]) -> None:
    for number in numbers:
        events = [
            wire("progress", job=f"job-{number}", step=step, id=f"{number}-{step}")
            for step in range(1, EVENTS + 1)
        ]
        headers = {"Content-Type": "application/json", "X-Request-Id": f"batch-{number}"}
        body = json.dumps({"events": events}).encode()
        answer = request("POST", f"{server.url}/v1/events", server.key, body, headers, timeout=60)
        assert answer.status == 200, answer.body


def lost_by(disk: Disk, files: dict[str, bytearray], folder: Path) -> int:
    """Open what a cut has left, and count the acknowledged events that are not there."""
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "ett.db-shm").unlink(missing_ok=True)
    path = folder / "ett.db"
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    there = steps_of(f"sqlite:///{path}")
    with closing(open_for_reading(f"sqlite:///{path}")) as store, store.reading() as conn:
        marked = set(conn.execute(select(dirty.c.job)).scalars())
    assert {job for job, _ in there} == marked
    acknowledged = itertools.product(disk.acknowledged, range(1, EVENTS + 1))
    return sum(there[f"job-{number}", step] != 1 for number, step in acknowledged)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("batches", "cuts"), [(6, 16), pytest.param(200, None, marks=pytest.mark.long, id="long")]
)
def test_nothing_acknowledged_is_lost_to_a_power_cut(
    database_url: str, tmp_path: Path, batches: int, cuts: int | None, tally: Tally
) -> None:
    disk, steps = ran(database_url, tmp_path, batches, checkpoints_often)
    draw = tally.draw
    chosen = set(draw.sample(range(len(steps)), min(len(steps), cuts or 5 * tally.rounds)))
    after = tmp_path / "after"
    after.mkdir()
    lost = 0
    for number, step in enumerate(steps):
        disk.take(step)
        if number in chosen:
            lost += lost_by(disk, disk.cut(draw if number % 4 else None), after)
            tally.add(power_cuts=1)
    assert disk.acknowledged == set(range(batches))
    assert {Sync("ett.db"), Sync("ett.db-wal")} <= set(steps)
    tally.add(acknowledged=EVENTS * batches)
    tally.require_none(lost=lost, double_counted=0)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
@pytest.mark.parametrize("is_forgetful", [False, True])
def test_an_answer_comes_after_the_sync_of_its_commit(
    database_url: str, tmp_path: Path, tally: Tally, *, is_forgetful: bool
) -> None:
    more = [forgets_to_sync] if is_forgetful else []
    disk, steps = ran(database_url, tmp_path, 4, *more)
    after = tmp_path / "after"
    after.mkdir()
    lost = 0
    for step in steps:
        before = len(disk.acknowledged)
        disk.take(step)
        if len(disk.acknowledged) > before:
            lost += lost_by(disk, disk.cut(None), after)
            tally.add(power_cuts=1)
    assert disk.acknowledged == set(range(4))
    if is_forgetful:
        assert lost > 0
    else:
        tally.require_none(lost=lost, double_counted=0)
