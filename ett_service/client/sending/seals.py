"""The seal of a line in a spool, by which what was written is told from what it has become.

A line is ``{"crc":"1c291ca3","type":...,"producer":"P","id":"P-7","seq":7,"mono_us":1,"at":...}``.
The seal is the CRC-32 of what stands between it and the id. That is the same for all events of a
kind, so a begin or an end costs the trainer no computing. What follows stands there twice: the
number in ``id`` and ``seq``, the instant in ``mono_us`` and ``at``, which lie apart by what
``owner.json`` calls ``base_us``. The server gets the line without its seal.
"""

import re
import zlib

from ett_service.client.clock import MICRO, second_text

_SEAL = b'{"crc":"%08x",'
_SEAL_BYTES = len(_SEAL % 0)

_LINE = (
    rb'\{"crc":"([0-9a-f]{8})",(.*),"id":"%b-(\d{1,18})","seq":\3,'
    rb'"mono_us":(-?\d{1,18}),"at":"(.{20})(\d{6})Z"\}\n?'
)


def sealed(constant: bytes) -> bytes:
    """Put the seal into what is constant about a line: an object up to its id, still open."""
    return _SEAL % zlib.crc32(constant[1:]) + constant[1:]


def bare(line: bytes) -> bytes:
    """Return the event of a line that is known to be whole, as the server takes it."""
    return b"{" + line[_SEAL_BYTES:].rstrip(b"\n")


class Unsealing:
    """Looks at the lines of one producer; without *base_us*, instants are taken as they are."""

    def __init__(self, producer: str, base_us: int | None) -> None:
        self._base_us = base_us
        self._second = 0, second_text(0).encode()
        self._line = re.compile(_LINE % re.escape(producer.encode()))

    def event(self, line: bytes) -> bytes | None:
        """Return the event of a line as the server takes it, None where the line is not whole."""
        found = self._line.fullmatch(line)
        if found is None:
            return None
        crc, constant, _, mono, second, micros = found.groups()
        if zlib.crc32(constant) != int(crc, 16) or not self._is_at(int(mono), second, micros):
            return None
        return bare(line)

    def _is_at(self, mono: int, second: bytes, micros: bytes) -> bool:
        if self._base_us is None:
            return True
        seconds, rest = divmod(mono + self._base_us, MICRO)
        if rest != int(micros):
            return False
        if seconds != self._second[0]:
            try:
                self._second = seconds, second_text(seconds).encode()
            except (ValueError, OverflowError, OSError):  # an instant of no calendar
                return False
        return self._second[1] == second
