"""Batches that are sent at a given rate whatever becomes of them, from a process of their own.

A client that waits for each answer slows down with the server, and hides what an overload does.
This one sends when the time has come, as a fleet does.
"""

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import quantiles
from urllib.parse import urlsplit

_JOB_EVENTS = 5_000  #: of one job, before the next one begins


@dataclass(frozen=True)
class Offer:
    """What is sent: batches of so many events, so many a second, for some seconds."""

    url: str
    key: str
    name: str
    seconds: float
    batches_a_second: float = 1e9
    events: int = 100
    connections: int = 400  #: batches under way at most; without one that is free they are late


@dataclass
class Answers:
    """What came back."""

    statuses: Counter[int] = field(default_factory=Counter)
    accepted: int = 0  #: events
    without_retry_after: int = 0  #: of the answers 429 and 503
    broken: int = 0  #: connections that ended without an answer
    taken: list[tuple[float, float]] = field(default_factory=list)
    """When each batch that was taken was sent, in monotonic seconds, and how many it took."""

    @property
    def batches_a_second(self) -> float:
        """How many were taken, from the first that was to the last."""
        began, ended = self.taken[0][0], max(at + seconds for at, seconds in self.taken)
        return len(self.taken) / (ended - began)

    def p99(self, since: float = 0.0) -> float:
        """Return how many seconds all but a hundredth took at most, of those sent *since*."""
        seconds = [each for at, each in self.taken if at >= since]
        return quantiles(seconds, n=100)[98] if len(seconds) > 1 else float("inf")


def send(offer: Offer) -> Answers:
    """Send it all, and wait for the answers."""
    return asyncio.run(_send(offer))


async def _send(offer: Offer) -> Answers:
    answers = Answers()
    begin = time.monotonic()
    numbers = itertools.count()
    clients = min(offer.connections, max(1, round(offer.batches_a_second * offer.seconds)))
    await asyncio.gather(
        *(_client(offer, _due(offer, begin, numbers), answers) for _ in range(clients))
    )
    answers.taken.sort()
    return answers


def _due(offer: Offer, begin: float, numbers: Iterator[int]) -> Iterator[tuple[int, float]]:
    """Yield the number of each batch that a client is to send, and when."""
    for number in numbers:
        at = begin + number / offer.batches_a_second
        if max(at, time.monotonic()) > begin + offer.seconds:
            return
        yield number, at


async def _client(offer: Offer, due: Iterator[tuple[int, float]], answers: Answers) -> None:
    connection: _Connection | None = None
    for number, at in due:
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        sent = _request(offer, number)
        began = time.monotonic()
        try:
            connection = connection or await _Connection.to(offer.url)
            status, head, body = await connection.ask(sent)
        except (OSError, EOFError):
            answers.broken += 1
            connection = None
            continue
        answers.statuses[status] += 1
        if status == 200:
            answers.taken.append((began, time.monotonic() - began))
            answers.accepted += json.loads(body)["accepted"]
        elif status in (429, 503):
            answers.without_retry_after += b"\r\nretry-after: " not in head
        if b"\r\nconnection: close" in head:
            connection.close()
            connection = None
    if connection is not None:
        connection.close()


class _Connection:
    """One connection, with one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, url: str) -> "_Connection":
        address = urlsplit(url)
        return cls(*await asyncio.open_connection(address.hostname, address.port))

    async def ask(self, sent: bytes) -> tuple[int, bytes, bytes]:
        """Return status, head in lower case, and body. Raises ``OSError`` and ``EOFError``."""
        self._writer.write(sent)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0])
        return int(head[9:12]), head, await self._reader.readexactly(length)

    def close(self) -> None:
        with suppress(OSError):
            self._writer.close()


def _request(offer: Offer, number: int) -> bytes:
    first = number * offer.events
    line = b'{"type":"progress","job":"%s-%d","at":"2026-03-01T12:00:00Z","step":%d}'
    job = first // _JOB_EVENTS
    lines = (line % (offer.name.encode(), job, first + n) for n in range(offer.events))
    body = b"\n".join(lines)
    return (
        b"POST /v1/events HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-ndjson\r\n"
        b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n" % (offer.key.encode(), len(body))
    ) + body
