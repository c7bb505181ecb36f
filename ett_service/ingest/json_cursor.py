"""A walk through JSON text that makes nothing of what it passes.

A parser makes an object of a hundred bytes for each of a body's characters before its caller can
count them. This one finds where a value ends, at the speed of a regular expression, so its caller
can stop at a limit and hand small values to a parser. It accepts more than JSON: the parser of each
value refuses what is none.
"""

import re
from collections.abc import Iterator

import msgspec

from ett_service.ingest.refusals import BodyTooLarge, MalformedBody

LONGEST_VALUE = 1 << 20
"""Bytes of one value at most. A walk over it keeps all other threads waiting."""

FAR_TOO_DEEP = 64
"""Deeper than any limit, and well before a parser gives up."""

_MOST_MEMBERS = 1000

_STRING = rb'"(?:[^"\\]++|\\.)*+"'
#: A string without an end is one, too: none of it is ever looked at twice.
_STRUCTURE = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
_SPACE = re.compile(rb"[ \t\r\n]*+")
_KEY = re.compile(rb"(%s)[ \t\r\n]*+:[ \t\r\n]*+" % _STRING, re.DOTALL)
_SPACES = b" \t\r\n"


def _inside(levels: int) -> bytes:
    """Return a pattern of what may stand inside brackets, with so many levels of them."""
    flat = rb'[^"\[\]{}]++|' + _STRING
    pattern = flat
    for _ in range(levels):
        pattern = flat + rb"|[\[{](?:" + pattern + rb")*+[\]}]"
    return pattern


_VALUE = re.compile(
    rb'(?:[^",\[\]{}]++|%s|[\[{](?:%s)*+[\]}])*+' % (_STRING, _inside(FAR_TOO_DEEP)), re.DOTALL
)
#: An object in a list that goes on.
_ITEM = re.compile(rb"(\{(?:%s)*+\})[ \t\r\n]*+,[ \t\r\n]*+" % _inside(2), re.DOTALL)
_USUAL = 2048


class Cursor:
    """A place in a JSON text; each method moves it on."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._place = 0
        self._slow_bytes = LONGEST_VALUE
        self._skip_space()

    def is_at(self, opening: bytes) -> bool:
        """Whether a value that begins with this character comes next."""
        return self._body.startswith(opening, self._place)

    def members(self) -> Iterator[str]:
        """Yield the keys of the object that comes next; its user passes the value of each.

        Raises:
            MalformedBody: No object comes next, or it is not JSON.
        """
        for count, _ in enumerate(self._parts(b"{", b"}")):
            key = _KEY.match(self._body, self._place)
            if key is None or count == _MOST_MEMBERS:
                raise _malformed()
            self._place = key.end()
            yield _text(key[1])

    def elements(self) -> Iterator[None]:
        """Yield once before each element of the list that comes next; its user passes them.

        Raises:
            MalformedBody: No list comes next, or it is not JSON.
        """
        yield from self._parts(b"[", b"]")

    def values(self) -> Iterator[bytes]:
        """Yield each element of the list that comes next; as ``elements`` and ``value`` do."""
        for _ in self.elements():
            # Most are followed by another at once: those are passed in one step.
            while (item := _ITEM.match(self._body, self._place, self._place + _USUAL)) is not None:
                self._place = item.end()
                yield item[1]
            yield self.value()

    def value(self) -> bytes:
        """Pass the value that comes next and return it, with 0 for what lies far too deep in it.

        Raises:
            MalformedBody: There is none, or it has no end.
            BodyTooLarge: It has more than ``LONGEST_VALUE`` bytes.
        """
        start, end = self._place, min(self._place + LONGEST_VALUE + 1, len(self._body))
        match = _VALUE.match(self._body, start, end)
        stop = start if match is None else match.end()
        if stop < end and self._body[stop] in b"[{":
            return self._deep_value(start, end)
        if end < len(self._body) and (stop == end or self._body[stop] in b'"'):
            raise _too_large()
        self._place = stop
        return _stripped(self._body[start:stop])

    def finish(self) -> None:
        """Require that nothing follows. Raises ``MalformedBody``."""
        self._skip_space()
        if self._place < len(self._body):
            raise _malformed()

    def _deep_value(self, start: int, end: int) -> bytes:
        """Pass a value that is nested far too deep, one bracket after the other: that is slow."""
        depth = 0
        end = min(end, start + self._slow_bytes)
        for token in _STRUCTURE.finditer(self._body, start, end):
            if token[0] in b"[{":
                depth += 1
            elif token[0] in b"]}":
                depth -= 1
                if depth == 0:
                    self._place = token.end()
                    self._slow_bytes -= token.end() - start
                    return _stripped(cut_deep(self._body[start : token.end()]))
        raise _malformed() if end == len(self._body) else _too_large()

    def _parts(self, opening: bytes, closing: bytes) -> Iterator[None]:
        self._pass(opening)
        if self.is_at(closing):
            self._pass(closing)
            return
        while True:
            yield
            self._skip_space()
            if self.is_at(closing):
                self._pass(closing)
                return
            self._pass(b",")

    def _pass(self, character: bytes) -> None:
        if not self.is_at(character):
            raise _malformed()
        self._place += 1
        self._skip_space()

    def _skip_space(self) -> None:
        space = _SPACE.match(self._body, self._place)
        if space is not None:
            self._place = space.end()


def cut_deep(value: bytes) -> bytes:
    """Return *value* with 0 for what lies far too deep: a limit refuses it, others are read."""
    pieces: list[bytes] = []
    depth = start = 0
    for token in _STRUCTURE.finditer(value):
        if token[0] in b"[{":
            depth += 1
            if depth == FAR_TOO_DEEP:
                pieces += value[start : token.start()], b"0"
        elif token[0] in b"]}":
            if depth == FAR_TOO_DEEP:
                start = token.end()
            depth -= 1
    return b"".join(pieces) + (value[start:] if depth < FAR_TOO_DEEP else b"")


def _stripped(value: bytes) -> bytes:
    value = value.strip(_SPACES)
    if not value:
        raise _malformed()
    return value


def _text(quoted: bytes) -> str:
    try:
        return msgspec.json.decode(quoted, type=str)
    except msgspec.DecodeError as error:
        raise _malformed() from error


def _malformed() -> MalformedBody:
    return MalformedBody("The body is not JSON.")


def _too_large() -> BodyTooLarge:
    return BodyTooLarge("bytes in one value", LONGEST_VALUE)
