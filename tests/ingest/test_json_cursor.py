"""Values are passed as a parser would pass them, and nothing is made of them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.ingest.json_cursor import FAR_TOO_DEEP, LONGEST_VALUE, Cursor, cut_deep
from ett_service.ingest.refusals import BodyTooLarge, MalformedBody

VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


def walked(body: bytes) -> dict[str, list[Any]]:
    """Walk through an object of lists, and parse each of their elements."""
    cursor = Cursor(body)
    read = {}
    for name in cursor.members():
        read[name] = [json.loads(value) for value in cursor.values()]
    cursor.finish()
    return read


@given(
    sent=st.dictionaries(st.text(max_size=5), st.lists(VALUES, max_size=3), max_size=3),
    indent=st.sampled_from([None, 0, 2]),
    ascii_only=st.booleans(),
)
def test_what_is_json_is_walked_through(
    sent: dict[str, list[Any]], indent: int | None, ascii_only: bool
) -> None:
    assert walked(json.dumps(sent, indent=indent, ensure_ascii=ascii_only).encode()) == sent


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b'{"a"}', b'{"a":}', b'{"a":[}', b'{"a":[1,]}', b'{"a":[,1]}',
        b'{"a":[1]', b'{"a":["x]}', b'{"a":[1]}]', b'{"a":[1] "b":[]}', b'{"a":[{]}', b"{a:[]}",
        b'{"a":[]}{}', b'{"a":[1}]}', b'{"a":' + b"[" * 100,
    ],
)  # fmt: skip
def test_what_is_not_json_is_refused_here_or_by_the_parser(body: bytes) -> None:
    with pytest.raises((MalformedBody, json.JSONDecodeError)):
        walked(body)


@pytest.mark.parametrize(
    "value", [b'"' + b"a" * LONGEST_VALUE + b'"', b"[" * (2 * LONGEST_VALUE), b"1" * 2_000_000]
)
def test_a_value_has_a_longest_length(value: bytes) -> None:
    with pytest.raises(BodyTooLarge):
        walked(b'{"a":[' + value + b"]}")


@pytest.mark.parametrize("depth", [1, FAR_TOO_DEEP - 1, FAR_TOO_DEEP + 2, 5_000])
def test_what_is_far_too_deep_is_cut_and_what_follows_is_read(depth: int) -> None:
    deep = b"[" * depth + b'"]"' + b"]" * depth
    cursor = Cursor(b"[" + deep + b",7]")
    first, second = [*cursor.values()]
    assert second == b"7"
    assert first == (deep if depth < FAR_TOO_DEEP else cut_deep(deep))
    assert first.count(b"[") <= FAR_TOO_DEEP


def test_deep_values_are_walked_slowly_for_a_megabyte_at_most() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    cursor = Cursor(b"[" + b",".join([deep] * (LONGEST_VALUE // len(deep) + 2)) + b"]")
    with pytest.raises(BodyTooLarge):
        [*cursor.values()]
