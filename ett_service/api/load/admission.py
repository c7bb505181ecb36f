"""What may be under way at once: requests, and bytes, fairly between keys.

Work is let in by *cost*: an estimate, in bytes, of the memory that it takes. What does not fit
waits in a queue of its key. A place that falls free goes to the key that holds the least, so that a
key with many requests waits for itself. What cannot wait is refused at once, with the seconds after
which it will find a place: 429 for a key that fills more than its part of the queue, else 503.

Everything here runs on the event loop, so nothing is locked.
"""

import asyncio
import logging
import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from anyio import CapacityLimiter
from starlette.requests import ClientDisconnect

from ett_service.api.problems import Problem, ProblemKind
from ett_service.api.state import Capacities, Capacity

log = logging.getLogger(__name__)

LONGEST_RETRY_S = 60
"""The longest `Retry-After`, in seconds."""

UNKNOWN = "unknown"
"""The owner of requests whose key has not been found yet: together they are as one key."""

_LOG_EVERY_S = 60.0
_FIRST_RATE = 20.0  #: finished requests a second, before any was
_FORGET_S = 5.0  #: of work, after which what was measured before counts half


class Refused(StrEnum):
    """Why a request was not worked on, or a connection was closed."""

    OVERLOADED = "overloaded"
    KEY_SHARE = "key_share"
    SENDER_GONE = "sender_gone"
    CONNECTIONS = "connections"
    HEADERS_LARGE = "headers_large"
    ADDRESS_LONG = "address_long"
    MALFORMED = "malformed"
    HEADERS_SLOW = "headers_slow"
    BODY_SLOW = "body_slow"
    ANSWER_SLOW = "answer_slow"


Refusing = Callable[[Refused], None]
Gone = Callable[[], Coroutine[Any, Any, object]]
"""Returns when the client has closed the connection."""


@dataclass(slots=True, eq=False)
class Place:
    """Room for one piece of work, taken until ``leave``."""

    pool: "Pool"
    owner: str
    cost: int
    granted: "asyncio.Future[None] | None" = None  #: while it waits

    def enlarge(self, more: int) -> None:
        """Cost so many bytes *more*, if there is room for them now.

        Raises:
            Problem: 429 or 503 with ``Retry-After``.
        """
        self.pool.enlarge(self, more)

    async def move(self, pool: "Pool", cost: int) -> None:
        """Go on only once *pool* has room for work of this *cost*.

        It waits as it would have at first, and holds nothing meanwhile: weigh work before it takes
        anything that others wait for, such as a connection to the database.

        Raises:
            Problem: 429 or 503 with ``Retry-After``.
        """
        self.leave()
        self.pool, self.cost = pool, cost
        await pool.enter(self)

    def leave(self) -> None:
        """Let others in."""
        if self.cost >= 0:
            self.pool.leave(self)


class Pool:
    """One class of work: what is under way of it, and what waits."""

    def __init__(
        self,
        capacity: Capacity,
        refuse: Refusing = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.capacity = capacity
        self.waiting = 0  #: requests
        self.requests = 0  #: under way
        self.cost = 0  #: of them together
        self._refuse = refuse
        self._clock = clock
        self._held: Counter[str] = Counter()
        self._queues: dict[str, deque[Place]] = {}
        self._booked: dict[str, float] = {}
        self._pace = _Pace(clock)

    @asynccontextmanager
    async def working(
        self, owner: str, cost: int, gone: Gone | None = None
    ) -> AsyncIterator[Place]:
        """Do work of *owner* in the block, once there is room for its *cost* in bytes.

        Raises:
            Problem: 429 or 503 with ``Retry-After``, at once or after the longest wait.
            ClientDisconnect: The sender has gone while it waited.
        """
        place = self.place(owner, cost)
        await self.enter(place, gone)
        try:
            yield place
        finally:
            place.leave()

    def place(self, owner: str, cost: int) -> Place:
        """Return a place that is still to be taken."""
        return Place(self, owner, cost)

    async def enter(self, place: Place, gone: Gone | None = None) -> None:
        """Take *place*; raises as ``working`` does."""
        if not self.waiting and self._fits(place.cost):
            self._take(place)
            return
        try:
            if self.waiting >= self.capacity.waiting:
                self._make_room(place.owner)
            await self._granted(place.owner, self._enqueue(place), gone)
        except BaseException:  # raised again: the place is another's now
            self._give_up(place)
            raise

    def enlarge(self, place: Place, more: int) -> None:
        """Let *place* cost *more*; one that is alone may cost anything. Raises ``Problem``."""
        others = self.cost - place.cost
        if others and self.cost + more > self.capacity.cost:
            others_of_owner = self._held[place.owner] - place.cost
            raise self._busy(
                place.owner, Refused.KEY_SHARE if others_of_owner else Refused.OVERLOADED
            )
        place.cost += more
        self.cost += more
        self._held[place.owner] += more

    def leave(self, place: Place) -> None:
        """Give *place* to those that wait."""
        self.requests -= 1
        self.cost -= place.cost
        self._held[place.owner] -= place.cost
        if self._held[place.owner] <= 0:
            del self._held[place.owner]
        place.cost = -1
        self._pace.finished(still_busy=self.requests > 0)
        self._grant()

    def _enqueue(self, place: Place) -> "asyncio.Future[None]":
        place.granted = asyncio.get_running_loop().create_future()
        self._queues.setdefault(place.owner, deque()).append(place)
        self.waiting += 1
        return place.granted

    async def _granted(
        self, owner: str, granted: "asyncio.Future[None]", gone: Gone | None
    ) -> None:
        watch = None if gone is None else asyncio.create_task(gone())
        try:
            waits: list[asyncio.Future[Any]] = [granted, *([watch] if watch else [])]
            await asyncio.wait(
                waits,
                timeout=self.capacity.wait_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            if watch is not None:
                watch.cancel()
        if granted.done():
            granted.result()
        elif watch is not None and watch.done():
            self._refuse(Refused.SENDER_GONE)
            raise ClientDisconnect
        else:
            raise self._busy(owner, Refused.OVERLOADED)

    def _give_up(self, place: Place) -> None:
        granted = place.granted
        is_in = granted is not None and granted.done() and not granted.cancelled()
        if is_in and granted is not None and granted.exception() is None:
            self.leave(place)
        else:
            self._remove(place)
            place.cost = -1
            self._grant()

    def _remove(self, place: Place) -> None:
        queue = self._queues.get(place.owner)
        if queue is not None and place in queue:
            queue.remove(place)
            self.waiting -= 1
            if not queue:
                del self._queues[place.owner]

    def _fits(self, cost: int) -> bool:
        capacity = self.capacity
        return not self.requests or (
            self.requests < capacity.requests and self.cost + cost <= capacity.cost
        )

    def _take(self, place: Place) -> None:
        if not self.requests:
            self._pace.began()
        self.requests += 1
        self.cost += place.cost
        self._held[place.owner] += place.cost

    def _grant(self) -> None:
        """Let in whoever holds the least, in turn; first come, first served within a key."""
        while self._queues:
            owner = min(self._queues, key=self._held.__getitem__)
            place = self._queues[owner][0]
            if not self._fits(place.cost):
                return
            self._remove(place)
            if owner in self._queues:
                self._queues[owner] = self._queues.pop(owner)  # behind those that hold as little
            if place.granted is not None and not place.granted.done():
                self._take(place)
                place.granted.set_result(None)

    def _make_room(self, owner: str) -> None:
        """Refuse *owner*, or the latest request of a key that has more in the queue.

        Raises:
            Problem: 429 or 503.
        """
        fullest = max(self._queues, key=lambda name: len(self._queues[name]), default=owner)
        if len(self._queues.get(owner, ())) + 1 >= len(self._queues.get(fullest, ())):
            is_alone = {*self._queues, *self._held} <= {owner}
            raise self._busy(owner, Refused.OVERLOADED if is_alone else Refused.KEY_SHARE)
        latest = self._queues[fullest][-1]
        self._remove(latest)
        if latest.granted is not None and not latest.granted.done():
            latest.granted.set_exception(self._busy(fullest, Refused.KEY_SHARE))

    def _busy(self, owner: str, reason: Refused) -> Problem:
        self._refuse(reason)
        return busy(reason, self._book(owner))

    def _book(self, owner: str) -> int:
        """Return the seconds after which *owner* will find a place: each is later than the last."""
        now = self._clock()
        self._booked = {name: due for name, due in self._booked.items() if due > now}
        owners = len({*self._queues, *self._held, owner})
        rate = self._pace.a_second()
        before = self._booked.get(owner, now + self.waiting / rate)
        due = min(before + owners / rate, now + LONGEST_RETRY_S)
        self._booked[owner] = due
        return max(1, math.ceil(due - now))


def busy(reason: Refused, retry_after_s: int) -> Problem:
    """Return the refusal of work that finds no room: 429 for a key's share, else 503."""
    kind = ProblemKind.RATE_LIMITED if reason is Refused.KEY_SHARE else ProblemKind.OVERLOADED
    return Problem(kind, headers={"Retry-After": str(retry_after_s)})


class _Pace:
    """How many requests are finished in a second of work; the recent ones count more."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = 0.0
        self._finished = _FIRST_RATE
        self._seconds = 1.0

    def began(self) -> None:
        """Work has begun."""
        self._since = self._clock()

    def finished(self, *, still_busy: bool) -> None:
        """A request is finished."""
        now = self._clock()
        spent, self._since = now - self._since, now if still_busy else self._since
        kept = 0.5 ** (spent / _FORGET_S)
        self._finished = self._finished * kept + 1.0
        self._seconds = self._seconds * kept + spent

    def a_second(self) -> float:
        """Return the rate."""
        return max(self._finished / max(self._seconds, 0.001), 1.0)


class BodyBytes:
    """The bytes of bodies that are in memory, of all keys together and of each."""

    def __init__(self, most: int, refuse: Refusing = lambda _: None) -> None:
        self.total = 0
        self._most = most
        self._refuse = refuse
        self._held: Counter[str] = Counter()

    @contextmanager
    def held(self, owner: str) -> Iterator[Callable[[int], None]]:
        """Count what the block takes in: it calls what this yields with each number of bytes.

        That raises ``Problem``: 429 for a key with more than half of what there may be, else 503.
        """
        own = 0

        def add(count: int) -> None:
            nonlocal own
            self._check(owner, count)
            own += count
            self.total += count
            self._held[owner] += count

        try:
            yield add
        finally:
            self.total -= own
            self._held[owner] -= own
            if self._held[owner] <= 0:
                del self._held[owner]

    def _check(self, owner: str, count: int) -> None:
        if self.total + count > self._most:
            self._refuse(Refused.OVERLOADED)
            raise busy(Refused.OVERLOADED, 2)
        if self._held[owner] + count > self._most // 2:
            self._refuse(Refused.KEY_SHARE)
            raise busy(Refused.KEY_SHARE, 2)


_SCRAPES = 4
_DECODERS = 16  #: threads; what they have decoded is committed together


class Admission:
    """All that a process has under way. Made and used on the event loop.

    Large bodies have places and a thread of their own: one that takes seconds to decode must not
    keep small ones waiting.
    """

    def __init__(self, capacities: Capacities, count: Refusing = lambda _: None) -> None:
        self._count = count
        self._refused: Counter[Refused] = Counter()
        self._logged_at = -math.inf
        self.writes = Pool(capacities.writes, self.refuse)
        self.large_writes = Pool(capacities.large_writes, self.refuse)
        self.reads = Pool(capacities.reads, self.refuse)
        self.scrapes = Pool(Capacity(_SCRAPES, 1 << 20, _SCRAPES), self.refuse)
        self.bodies = BodyBytes(capacities.body_bytes, self.refuse)
        self.decoding = CapacityLimiter(_DECODERS)
        self.large_decoding = CapacityLimiter(1)
        self.health = CapacityLimiter(1)  #: a thread of its own: the work may hold all others

    @property
    def pools(self) -> dict[str, Pool]:
        """The classes of work, by their names in the metrics."""
        return {
            "write": self.writes,
            "large_write": self.large_writes,
            "read": self.reads,
            "scrape": self.scrapes,
        }

    def refuse(self, reason: Refused) -> None:
        """Count a refusal, and log the sums, once a minute."""
        self._count(reason)
        self._refused[reason] += 1
        now = time.monotonic()
        if now - self._logged_at >= _LOG_EVERY_S:
            self._logged_at = now
            counts = {each.value: count for each, count in self._refused.items()}
            self._refused.clear()
            log.warning("Refused requests.", extra={"event": "refused", "refused": counts})
