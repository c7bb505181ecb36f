"""Events as the bytes of one line each, made once and never changed afterwards."""

import itertools
import json
import secrets
import time
from collections.abc import Mapping

from ett_service.client.clock import MICRO, mono_us, rfc3339, second_text, wall_base_us
from ett_service.client.identity import Identity
from ett_service.client.sending.seals import sealed

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

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_producer() -> str:
    """Name one life of one process: 26 characters that sort by the time they were made."""
    number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


class Lines:
    """Writes the events of one producer."""

    __slots__ = ("_common", "base_us", "numbers", "producer")

    def __init__(self, identity: Identity, producer: str) -> None:
        self.producer = producer
        self.base_us = wall_base_us()
        self.numbers = itertools.count(1)
        members = {
            "job": identity.job,
            "launch": identity.launch,
            "attempt": identity.attempt,
            "cycle": identity.cycle,
            "rank": identity.rank,
            "host": identity.host,
        }
        self._common = {name: value for name, value in members.items() if value not in ("", None)}

    def template(self, **members: object) -> bytes:
        """Write what never changes about a kind of event.

        What is missing is its number, twice, its microseconds of the clock, the text of its
        second and the microseconds of that.
        """
        constant = self._constant({**self._common, **members})
        tail = f',"id":"{self.producer}-%d","seq":%d,"mono_us":%d,"at":"%b%06dZ"}}\n'
        return constant.replace(b"%", b"%%") + tail.encode()

    def line(self, members: Mapping[str, object], mono: int | None = None) -> bytes:
        """Write any event, at an instant of the monotonic clock or now.

        A member that is None is left out; ``cycle`` may be None to name no cycle. Raises
        ``ValueError`` or ``TypeError`` for what JSON cannot say.
        """
        mono = mono_us() if mono is None else mono
        event = {**self._common, **members}
        stated = {name: value for name, value in event.items() if value is not None}
        constant = self._constant(stated)
        seq, at = next(self.numbers), self.at(mono)
        changing = f'"id":"{self.producer}-{seq}","seq":{seq},"mono_us":{mono},"at":"{at}"'
        return b"%b,%b}\n" % (constant, changing.encode())

    def at(self, mono: int) -> str:
        """Name an instant of the monotonic clock, as RFC 3339."""
        return rfc3339(mono + self.base_us)

    def second(self, mono: int) -> tuple[bytes, int]:
        """Return the text of the second in which an instant of the clock lies, and the rest."""
        seconds, micros = divmod(mono + self.base_us, MICRO)
        return second_text(seconds).encode(), micros

    def _constant(self, members: Mapping[str, object]) -> bytes:
        """Write an object of what does not change, up to where it would be closed."""
        named = {**members, "producer": self.producer}
        text = json.dumps(named, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return sealed(text[:-1].encode("utf-8", "replace"))
