"""Events as the bytes of one line each, made once and never changed afterwards."""

import itertools
import json
import secrets
import time
from collections.abc import Callable, Mapping

from ett_service.client.clock import CLOCK_ID, mono_us, rfc3339, second_text, wall_base_us
from ett_service.client.identity import Identity

PHASES = (
    "queued",
    "scheduling",
    "hardware_setup",
    "launcher_init",
    "train_loop",
    "pt2_compile",
    "checkpoint_blocking",
    "evaluation",
    "stalled",
    "shutdown",
)
"""What an attempt can be doing; the server refuses other words."""

OUTCOMES = ("completed", "failed", "preempted", "cancelled")
"""How an attempt or a job can end."""

_MICRO = 1_000_000
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_producer() -> str:
    """Name one life of one process: 26 characters that sort by the time they were made."""
    number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


class Lines:
    """Writes the events of one producer.

    An edge is the hot path: its line is one f-string around a prefix made beforehand.
    """

    __slots__ = ("_common", "_second", "_seq", "base_us", "producer")

    def __init__(self, identity: Identity, producer: str) -> None:
        self.producer = producer
        self.base_us = wall_base_us()
        self._seq = itertools.count(1)
        self._second = (0, "")
        members = {
            "job": identity.job,
            "launch": identity.launch,
            "attempt": identity.attempt,
            "cycle": identity.cycle,
            "rank": identity.rank,
            "host": identity.host,
        }
        self._common = {name: value for name, value in members.items() if value not in ("", None)}

    def prefix(self, **members: object) -> str:
        """Write what never changes about a kind of event, up to its number."""
        said = members | self._common | {"producer": self.producer}
        return f'{_json(said)[:-1]},"id":"{self.producer}-'

    def edge(
        self,
        prefix: str,
        *,
        _read: Callable[[int], int] = time.clock_gettime_ns,
        _clock: int = CLOCK_ID,
    ) -> bytes:
        """Write an event that happens now."""
        mono = _read(_clock) // 1000
        at = mono + self.base_us
        start, text = self._second
        micros = at - start
        if not 0 <= micros < _MICRO:
            text, micros = self._turn(at)
        seq = next(self._seq)
        return (
            f'{prefix}{seq}","seq":{seq},"mono_us":{mono},"at":"{text}{micros:06d}Z"}}\n'
        ).encode()

    def line(self, members: Mapping[str, object], mono: int | None = None) -> bytes:
        """Write any event, at an instant of the monotonic clock or now.

        A member that is None is left out; ``cycle`` may be None to name no cycle. Raises
        ``ValueError`` or ``TypeError`` for what JSON cannot say.
        """
        mono = mono_us() if mono is None else mono
        seq = next(self._seq)
        said = self._common | {
            **members,
            "producer": self.producer,
            "id": f"{self.producer}-{seq}",
            "seq": seq,
            "mono_us": mono,
            "at": self.at(mono),
        }
        kept = {name: value for name, value in said.items() if value is not None}
        return (_json(kept) + "\n").encode("utf-8", "replace")

    def at(self, mono: int) -> str:
        """Name an instant of the monotonic clock, as RFC 3339."""
        return rfc3339(mono + self.base_us)

    def _turn(self, at: int) -> tuple[str, int]:
        second, micros = divmod(at, _MICRO)
        text = second_text(second)
        # One tuple, so that another thread never sees half of it.
        self._second = (second * _MICRO, text)
        return text, micros


def _json(members: Mapping[str, object]) -> str:
    return json.dumps(members, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
