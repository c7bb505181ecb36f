"""Bodies are inflated up to the limit, and read at once as they are when walked by value."""

import gzip
import json
import os
import tracemalloc

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ett_service.ingest.decode import Around, inflate, read_at_once, read_in_steps, read_object
from ett_service.ingest.refusals import BadEncoding, BodyTooLarge, Refused, UnsupportedMedia
from tests.builders.record import wire

MIB = 1 << 20
COMPRESS = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}
ENCODINGS = tuple(COMPRESS)

MOST = 3
EVENT = json.dumps(wire("progress", step=1)).encode()

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab", max_size=4),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text("ab"), inside),
    max_leaves=6,
)
bodies = st.fixed_dictionaries(
    {"events": st.lists(values, max_size=MOST + 1)},
    optional={"batch_id": st.text("ab", max_size=3) | st.integers(), "producer": st.text("ab")},
)
written = st.builds(
    lambda body, separators: json.dumps(body, separators=separators).encode(),
    bodies,
    st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\t")]),
)


@given(body=st.binary(max_size=2000), encoding=st.sampled_from(ENCODINGS))
def test_a_body_comes_out_as_it_went_in(body: bytes, encoding: str) -> None:
    assert inflate(COMPRESS[encoding](body), encoding, 2000) == body


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_body_may_be_as_large_as_the_limit_and_no_larger(encoding: str) -> None:
    body = os.urandom(100_000)
    compressed = COMPRESS[encoding](body)

    assert inflate(compressed, encoding, 100_000) == body
    with pytest.raises(BodyTooLarge) as refused:
        inflate(compressed, encoding, 99_999)
    assert (refused.value.what, refused.value.limit) == ("inflated bytes", 99_999)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_bomb_is_stopped_at_the_limit(encoding: str) -> None:
    bomb = COMPRESS[encoding](bytes(128 * MIB))
    tracemalloc.start()
    with pytest.raises(BodyTooLarge):
        inflate(bomb, encoding, MIB)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 32 * MIB


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_body_that_is_cut_broken_or_followed_by_something_is_refused(encoding: str) -> None:
    whole = COMPRESS[encoding](b"some events " * 100)
    for body in (whole[:-1], whole[: len(whole) // 2], b"", b"plain", whole + b"x", whole + whole):
        with pytest.raises(BadEncoding):
            inflate(body, encoding, MIB)


def test_a_window_that_the_sender_chose_too_large_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    body = stream.compress(b"x" * 100) + stream.flush()

    with pytest.raises(BadEncoding):
        inflate(body, "zstd", MIB)


@pytest.mark.parametrize("encoding", ["", "identity", " Identity "])
def test_a_body_that_is_not_compressed_is_left_alone(encoding: str) -> None:
    assert inflate(b"{}", encoding, 1) == b"{}"


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip", "gzip, zstd", "x-gzip"])
def test_other_and_stacked_encodings_are_not_taken(encoding: str) -> None:
    with pytest.raises(UnsupportedMedia):
        inflate(b"{}", encoding, MIB)


def outcome(body: bytes, *, walked: bool) -> object:
    try:
        read = read_in_steps(body, MOST) if walked else read_at_once(body, MOST)
    except Refused as refused:
        return type(refused), str(refused)
    return None if read is None else members(read)


def members(read: Around) -> object:
    about, raws = read
    return msgspec.structs.asdict(about) | {"events": raws}


@given(body=written, cut=st.none() | st.integers(0, 40))
def test_it_says_the_same_walked_or_at_once(body: bytes, cut: int | None) -> None:
    text = (body if cut is None else body[:cut] + body[cut + 1 :]) + b" " * 200
    at_once = outcome(text, walked=False)

    assert at_once in (None, outcome(text, walked=True))


@pytest.mark.parametrize(
    ("around", "events"),
    [
        (b'{"events":[%b,%b]}', 2),
        (b' {"events" : [ %b , %b ] , "batch_id":"b"} ', 2),
        (b'{"events":[],"events":[%b,%b]}', 2),
        (b'{"events":[%b],"events":[%b]}', 1),
    ],
)
def test_what_senders_write_is_read_at_once(around: bytes, events: int) -> None:
    body = around % (EVENT, EVENT)

    assert outcome(body, walked=False) == outcome(body, walked=True)
    assert len(read_object(body, MOST)[1]) == events


@pytest.mark.parametrize(
    "around",
    [
        b'{"events":[%b],"events":3}',
        b'{"events":3,"events":[%b]}',
        b'{"events":[%b],"more":1}',
        b'{"events":[%b]}}',
        b'{"events":[%b',
        b"[%b]",
    ],
)
def test_anything_else_is_walked(around: bytes) -> None:
    assert outcome(around % EVENT, walked=False) is None


@pytest.mark.parametrize("value", [b"0", b"{}", b'""', b"[[]]"])
def test_a_body_of_many_small_values_is_counted_before_a_parser_sees_it(value: bytes) -> None:
    body = b'{"events":[%b]}' % b",".join([value] * 100_000)

    assert read_at_once(body, 10**6) is None
    with pytest.raises(BodyTooLarge, match="at most 3 events"):
        read_object(body, MOST)


def test_values_without_end_and_deep_ones_are_walked() -> None:
    deep = b'{"events":[{"attributes":%b}]}' % (b"[" * 5000 + b"]" * 5000)
    long = b'{"events":["%b"]}' % (b"x" * (1 << 20))

    assert read_at_once(deep, MOST) is read_at_once(long, MOST) is None


def test_a_usual_body_has_at_most_so_many_events() -> None:
    body = b'{"events":[%b]}' % b",".join([EVENT] * (MOST + 1))

    assert len(read_object(body, MOST + 1)[1]) == MOST + 1
    with pytest.raises(BodyTooLarge, match="at most 3 events"):
        read_at_once(body, MOST)
