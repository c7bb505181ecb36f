"""A body that a parser reads at once says what it says when it is walked, value by value."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.ingest.envelope import Around, read_at_once, read_in_steps, read_object
from ett_service.ingest.refusals import BodyTooLarge, Refused
from tests.builders.record import wire

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


def outcome(body: bytes, *, walked: bool) -> object:
    try:
        read = read_in_steps(body, MOST) if walked else read_at_once(body, MOST)
    except Refused as refused:
        return type(refused), str(refused)
    return None if read is None else said(read)


def said(read: Around) -> object:
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
