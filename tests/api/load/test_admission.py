"""Who is let in, who waits, and who is told to come back when."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from ett_service.api.load.admission import Admission, BodyBytes, Pool, Refused
from ett_service.api.problems import Problem
from ett_service.api.state import Capacities, Capacity

SMALL = Capacity(requests=2, cost=100, waiting=4, wait_s=60)


class Work:
    """Requests that are worked on until the test lets them end."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.began: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Event] = {}

    async def send(self, name: str, cost: int = 1) -> None:
        """Send a request; its name begins with its key's."""
        self._ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.ensure_future(self._work(name, cost))
        await settled()

    async def end(self, *names: str) -> None:
        """Let requests end."""
        for name in names:
            self._ends[name].set()
            await settled()

    async def _work(self, name: str, cost: int) -> None:
        async with self.pool.working(name[0], cost):
            self.began.append(name)
            await self._ends[name].wait()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def status(task: asyncio.Task[None]) -> int:
    error = task.exception()
    assert isinstance(error, Problem)
    assert int(error.headers["Retry-After"]) >= 1
    return error.kind.status


def test_what_does_not_fit_waits_and_is_let_in_in_its_turn() -> None:
    async def test() -> None:
        work = Work(Pool(SMALL))
        for name in ("a1", "a2", "a3", "a4"):
            await work.send(name)
        assert (work.began, work.pool.waiting) == (["a1", "a2"], 2)
        await work.end("a2", "a1")
        assert work.began == ["a1", "a2", "a3", "a4"]
        await work.end("a3", "a4")
        assert (work.pool.requests, work.pool.cost, work.pool.waiting) == (0, 0, 0)

    run(test())


def test_bytes_count_as_requests_do_and_what_is_too_large_is_let_in_alone() -> None:
    async def test() -> None:
        work = Work(Pool(SMALL))
        await work.send("a1", 60)
        await work.send("a2", 60)
        await work.send("a3", 1000)
        assert work.began == ["a1"]
        await work.end("a1")
        assert work.began == ["a1", "a2"]
        await work.end("a2")
        assert work.began == ["a1", "a2", "a3"]
        await work.end("a3")

    run(test())


def test_a_key_with_many_requests_keeps_none_waiting_but_its_own() -> None:
    async def test() -> None:
        work = Work(Pool(SMALL))
        for name in ("a1", "a2", "a3", "a4", "b1"):
            await work.send(name)
        await work.end("a1")
        assert work.began[-1] == "b1"
        await work.end("a2", "b1")
        assert work.began[-2:] == ["a3", "a4"]
        await work.end("a3", "a4")

    run(test())


def test_keys_that_hold_nothing_are_let_in_in_turn() -> None:
    async def test() -> None:
        work = Work(Pool(Capacity(1, 100)))
        for name in ("a1", "a2", "a3", "b1", "b2"):
            await work.send(name)
        for name in ("a1", "a2", "b1", "a3", "b2"):
            await work.end(name)
        assert work.began == ["a1", "a2", "b1", "a3", "b2"]

    run(test())


def test_a_full_queue_refuses_the_key_that_fills_it() -> None:
    async def test() -> None:
        refusals: list[Refused] = []
        work = Work(Pool(SMALL, refusals.append))
        for n in range(7):
            await work.send(f"a{n}")
        assert status(work.tasks["a6"]) == 503  # there is no other key whose part it could take
        await work.send("b1")
        assert status(work.tasks["a5"]) == 429
        assert not work.tasks["b1"].done()
        await work.send("a7")
        assert status(work.tasks["a7"]) == 429
        assert refusals == [Refused.OVERLOADED, Refused.KEY_SHARE, Refused.KEY_SHARE]
        await work.end(*(f"a{n}" for n in range(5)), "b1")
        assert work.pool.requests == work.pool.waiting == 0

    run(test())


def test_who_waits_too_long_is_refused_and_leaves_no_place_behind() -> None:
    async def test() -> None:
        work = Work(Pool(Capacity(1, 100, 4, wait_s=0.01)))
        await work.send("a1")
        await work.send("b1")
        await asyncio.wait([work.tasks["b1"]])
        assert status(work.tasks["b1"]) == 503
        assert work.pool.waiting == 0
        await work.end("a1")
        await work.send("b2")
        assert work.began == ["a1", "b2"]
        await work.end("b2")

    run(test())


def test_the_work_of_a_sender_that_has_gone_is_not_begun() -> None:
    async def test() -> None:
        refusals: list[Refused] = []
        pool = Pool(Capacity(1, 100), refusals.append)
        has_gone = asyncio.Event()
        async with pool.working("a", 1):
            has_gone.set()
            with pytest.raises(ClientDisconnect):
                await pool.enter(pool.place("b", 1), has_gone.wait)
        assert refusals == [Refused.SENDER_GONE]
        assert (pool.requests, pool.waiting) == (0, 0)

    run(test())


def test_those_who_are_sent_away_come_back_one_after_another() -> None:
    async def test() -> None:
        pool = Pool(Capacity(1, 100, waiting=0), clock=lambda: 0.0)
        async with pool.working("a", 1):
            waits = []
            for _ in range(100):
                with pytest.raises(Problem) as refused:
                    await pool.enter(pool.place("a", 1))
                waits.append(int(refused.value.headers["Retry-After"]))
        assert waits == sorted(waits)
        assert (waits[0], waits[-1]) == (1, 5)  # twenty a second, until it is known better

    run(test())


def test_work_that_turns_out_larger_is_refused_unless_there_is_room_or_it_is_alone() -> None:
    async def test() -> None:
        pool = Pool(SMALL)
        async with pool.working("a", 10) as first:
            first.enlarge(40)
            async with pool.working("b", 10) as second:
                second.enlarge(40)
                for place in (first, second):
                    with pytest.raises(Problem) as refused:
                        place.enlarge(1)
                    assert refused.value.kind.status == 503
            first.enlarge(1000)
            assert pool.cost == 1050
        assert pool.cost == 0

    run(test())


def test_a_key_that_has_other_work_is_told_that_it_takes_too_much() -> None:
    async def test() -> None:
        pool = Pool(SMALL)
        async with pool.working("a", 90), pool.working("a", 5) as place:
            with pytest.raises(Problem) as refused:
                place.enlarge(10)
        assert refused.value.kind.status == 429

    run(test())


def test_one_key_may_fill_half_of_what_bodies_may_take() -> None:
    refusals: list[Refused] = []
    bodies = BodyBytes(100, refusals.append)
    with bodies.held("a") as first, bodies.held("b") as second:
        first(50)
        with pytest.raises(Problem) as own:
            first(1)
        second(49)
        with bodies.held("c") as third, pytest.raises(Problem) as full:
            third(2)
    assert [own.value.kind.status, full.value.kind.status] == [429, 503]
    assert bodies.total == 0


def test_refusals_are_logged_together(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        admission = Admission(Capacities())
        for _ in range(1000):
            admission.refuse(Refused.OVERLOADED)

    run(test())
    (line,) = caplog.records
    assert line.__dict__["refused"] == {"overloaded": 1}
