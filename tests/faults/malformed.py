"""Bodies that no sender should send: over four hundred, each with what is wrong with it."""

import gzip
import json
from collections.abc import Iterator
from typing import NamedTuple

from tests.builders.record import wire


class Malformed(NamedTuple):
    """A request that must not be taken as it stands, and must not break anything."""

    name: str
    body: bytes
    encoding: str = "identity"


#: As they stand in a body: most are no value of any member, some no JSON at all.
VALUES = {
    "not a number": b"NaN",
    "infinite": b"-Infinity",
    "too large a float": b"1e400",
    "too large an integer": b"9" * 4000,
    "2 to the 63": b"9223372036854775808",
    "beyond exact floats": b"9007199254740993",
    "negative": b"-1",
    "a fraction": b"1.5",
    "null": b"null",
    "true": b"true",
    "a list": b"[1]",
    "an object": b'{"a": 1}',
    "deep lists": b"[" * 10_000 + b"]" * 10_000,
    "deep objects": b'{"a":' * 1000 + b"1" + b"}" * 1000,
    "half a character": rb'"\ud800"',
    "a nul": rb'"\u0000"',
    "a raw nul": b'"\x00"',
    "an escape": rb'"\u001b[31m"',
    "other direction": rb'"\u202e"',
    "bad utf-8": b'"\xff\xfe"',
    "overlong utf-8": b'"\xc0\xaf"',
    "a surrogate in utf-8": b'"\xed\xa0\x80"',
    "an empty text": b'""',
    "a long text": b'"' + b"x" * 5000 + b'"',
    "a number as text": b'"5"',
    "an unknown escape": rb'"\x41"',
    "an open text": b'"abc',
    "nothing": b"",
    "a year of five digits": b'"10000-01-01T00:00:00Z"',
    "no year": b'"0000-00-00T00:00:00Z"',
    "an instant without a zone": b'"2026-03-01T12:00:00"',
    "far ahead": b'"9999-12-31T23:59:59Z"',
    "SQL": b'"\'; DROP TABLE job; --"',
}

MEMBERS = ("type", "job", "at", "id", "step", "rank", "attempt", "cycle", "mono_us", "producer",
           "attributes", "launch", "evil")  # fmt: skip

WHOLE = {
    "a BOM": b'\xef\xbb\xbf{"events":[]}',
    "UTF-16": '{"events":[]}'.encode("utf-16"),
    "nothing": b"",
    "a list": b"[]",
    "a number": b"5",
    "two bodies": b'{"events":[]}{"events":[]}',
    "no list": b'{"events":{}}',
    "events twice": b'{"events":[],"events":[5]}',
    "an unknown member": b'{"events":[],"evil":1}',
    "many brackets": b'{"events":' + b"[" * 100_000,
    "many lists": b'{"events":[' + b"[]," * 20_000 + b"0]}",
    "a comma too many": b'{"events":[],}',
    "single quotes": b"{'events':[]}",
}


def bodies() -> Iterator[Malformed]:
    """Every value in the place of every member, what is wrong as a whole, and bad encodings."""
    for member in MEMBERS:
        for name, value in VALUES.items():
            yield Malformed(f"{member}: {name}", _with(member, value))
    for name, body in WHOLE.items():
        yield Malformed(name, body)
    for name, body in _compressed():
        yield Malformed(name, body, "gzip")
    yield Malformed("no zstd", b'{"events":[]}', "zstd")
    yield Malformed("two encodings", b'{"events":[]}', "gzip, gzip")


def _with(member: str, value: bytes) -> bytes:
    event = wire("progress", step=1, job="good", id="good")
    kept = {name: kept for name, kept in event.items() if name != member}
    return b'{"events":[%s,"%s":%s}]}' % (
        json.dumps(kept).encode()[:-1], member.encode(), value,
    )  # fmt: skip


def _compressed() -> Iterator[tuple[str, bytes]]:
    whole = gzip.compress(b'{"events":[]}', mtime=0)
    yield "cut", whole[:-4]
    yield "without an end", whole[:-8]
    yield "followed by something", whole + b"x"
    yield "two members", whole + whole
    yield "a wrong sum", whole[:-8] + b"\0\0\0\0" + whole[-4:]
    yield "plain", b'{"events":[]}'
    yield "twice", gzip.compress(whole, mtime=0)
    yield "a bomb", gzip.compress(bytes(1 << 24), mtime=0)
