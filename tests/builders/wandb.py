"""Logs of offline runs of W&B: framing, and protobuf written by the numbers of fields."""

import json
import zlib

BLOCK = 32 << 10


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    body = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(body)) + body


def timestamp(seconds: float) -> bytes:
    return field(1, int(seconds)) + field(2, round(seconds % 1 * 1e9))


def run(run_id: str, name: str, project: str, begin: float) -> bytes:
    members = field(1, run_id) + field(3, project) + field(8, name) + field(17, timestamp(begin))
    return field(1, 1) + field(17, members)


def history(at: float, **items: object) -> bytes:
    logged = {"_timestamp": at, **items}
    parts = [field(2, key) + field(16, json.dumps(value)) for key, value in logged.items()]
    return field(2, b"".join(field(1, part) for part in parts))


def stats(at: float) -> bytes:
    return field(7, field(2, timestamp(at)))


def exit_of(code: int, runtime: int) -> bytes:
    return field(18, (field(1, code) if code else b"") + field(2, runtime))


def framed(*records: bytes) -> bytes:
    """Return the bytes of a log, its records cut at the ends of blocks."""
    out = bytearray(b":W&B\xe1\xbe\x01")
    for record in records:
        rest, begun = record, False
        while True:
            left = BLOCK - len(out) % BLOCK
            if left < 7:
                out += bytes(left)
                left = BLOCK
            piece, rest = rest[: left - 7], rest[left - 7 :]
            kind = {(False, True): 1, (False, False): 2, (True, False): 3, (True, True): 4}
            body = bytes([kind[begun, not rest]]) + piece
            out += zlib.crc32(body).to_bytes(4, "little") + len(piece).to_bytes(2, "little") + body
            begun = True
            if not rest:
                break
    return bytes(out)
