"""Facts come in any order, twice, at once and against each other: the numbers are of their set."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, select

from ett_service.core.ledger.fold import fold
from ett_service.ingest.accept import Verdicts, accept
from ett_service.ingest.decode import Batch
from ett_service.storage.engine.store import Store
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import dirty
from ett_service.worker.ledgers import Worker
from tests.builders.batches import batch
from tests.builders.clock import RECEIVED_AT
from tests.builders.drawn.timelines import Timeline, timelines
from tests.builders.jobs import failing_job
from tests.builders.ledgers import marked, recomputed, stored
from tests.builders.record import wire
from tests.builders.servers.ett import Server, serving
from tests.builders.tally import Tally
from tests.core.laws import check_order
from tests.faults.senders import verified

QUIET = {"ETT_DETECTION": '{"enabled": false}'}
LONG = pytest.param(None, marks=pytest.mark.long, id="long")
SENDERS = 8


@pytest.mark.parametrize("examples", [30, LONG])
def test_any_order_and_repetition_of_facts_gives_the_same_ledger(
    examples: int | None, tally: Tally
) -> None:
    count = examples or tally.share(50)

    @seed(tally.seed)
    @settings(max_examples=count, derandomize=False)
    @given(timelines, st.integers(0, 2**32).map(Random))
    def check(timeline: Timeline, chance: Random) -> None:
        check_order(fold, timeline, chance)

    check()
    tally.add(permutations=count)


def pieces(job: str, draw: Random) -> list[list[dict[str, Any]]]:
    """Cut the facts of a job into batches in any order, a third of which come twice."""
    facts = failing_job(job)
    draw.shuffle(facts)
    cut = [facts[start : start + 3] for start in range(0, len(facts), 3)]
    return cut + draw.sample(cut, len(cut) // 3)


@pytest.mark.long
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"], indirect=True)
def test_jobs_whose_facts_arrive_interleaved_are_as_if_they_came_in_order(
    database_url: str, tmp_path: Path, tally: Tally
) -> None:
    draw = tally.draw
    names = [f"job-{number}" for number in range(tally.share(1.0))]
    sent = [piece for name in names for piece in pieces(name, draw)]
    draw.shuffle(sent)
    with serving(database_url, tmp_path, **QUIET) as server:
        server.send(failing_job("in-order"))

        def send(piece: list[dict[str, Any]]) -> int:
            time.sleep(draw.random() / 100)
            verdict = json.loads(server.send(piece).body)
            assert verdict["rejected"] == 0, verdict
            return int(verdict["accepted"])

        with ThreadPoolExecutor(SENDERS) as pool:
            accepted = sum(pool.map(send, sent))
        assert accepted == len(names) * len(failing_job())
        expected = numbers(server, "in-order")
        wrong = [name for name in names if numbers(server, name) != expected]
        verified(server)
    tally.add(acknowledged=accepted, permutations=len(names))
    assert wrong == []


def numbers(server: Server, job: str) -> dict[str, Any]:
    """Wait until all facts of a job are in its ledger, and return its numbers."""
    answer = server.reaches(f"/v1/jobs/{job}", lambda answer: answer["state"] == "finished")
    kept = ("ett_ratio", "e2e_seconds", "categories", "periods", "recoveries", "failures")
    server.reaches(f"/v1/jobs/{job}", lambda answer: answer["e2e_seconds"] == 3720.0)
    answer = server.get(f"/v1/jobs/{job}")
    return {name: answer[name] for name in kept}


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_facts_that_are_committed_after_later_ones_are_not_missed(
    store: Store, project_id: int
) -> None:
    key = JobKey(project_id, "llm-70b")
    worker = Worker(store, lambda: RECEIVED_AT)
    early, late = batch(wire("progress", step=1)), batch(wire("progress", step=2))
    entered, gate = threading.Event(), threading.Event()

    def take(conn: Connection, taken: Batch, now_us: int) -> Verdicts:
        return accept(conn, taken, project_id=project_id, now_us=now_us)

    def linger(conn: Connection) -> None:
        take(conn, early, RECEIVED_AT + 1)
        entered.set()
        gate.wait(60)

    store.write(lambda conn: take(conn, batch(wire()), RECEIVED_AT))
    lingering = store.submit(linger)
    entered.wait(60)
    store.write(lambda conn: take(conn, late, RECEIVED_AT + 2))
    with store.reading() as conn:
        seen = max(conn.execute(select(dirty.c.marked_us)).scalars())
    while worker.run_once():
        pass
    gate.set()
    lingering.result(60)
    with store.reading() as conn:
        (came_after,) = conn.execute(select(dirty.c.marked_us)).scalars()
    assert came_after < seen  # what follows a cursor would have missed it
    while worker.run_once():
        pass
    assert stored(store, key) == recomputed(store, key, RECEIVED_AT)
    assert marked(store) == []


@pytest.mark.parametrize(
    ("dialect", "ids"),
    [
        ("sqlite", 30),
        pytest.param("sqlite", None, marks=pytest.mark.long, id="sqlite-long"),
        pytest.param("postgresql", None, marks=pytest.mark.long, id="postgresql-long"),
    ],
    indirect=["dialect"],
)
def test_of_one_id_with_several_contents_one_wins_and_the_others_are_conflicts(
    database_url: str, tmp_path: Path, ids: int | None, tally: Tally
) -> None:
    count = ids or tally.share(5)
    with serving(database_url, tmp_path, **QUIET) as server:
        began = threading.Barrier(SENDERS)

        def race(content: int) -> tuple[int, int]:
            events = [wire("progress", id=f"id-{number}", step=content) for number in range(count)]
            began.wait()
            verdict = json.loads(server.send(events).body)
            codes = {error["code"] for error in verdict["errors"]}
            assert codes <= {"conflict"}
            return verdict["accepted"], verdict["rejected"]

        with ThreadPoolExecutor(SENDERS) as pool:
            verdicts = list(pool.map(race, range(1, SENDERS + 1)))
        server.reaches("/v1/jobs/llm-70b", bool)
        verified(server)
    accepted, rejected = (sum(each) for each in zip(*verdicts, strict=True))
    tally.add(acknowledged=accepted)
    assert (accepted, rejected) == (count, (SENDERS - 1) * count)
