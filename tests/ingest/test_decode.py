"""From bytes to a batch: what is refused whole, and what event by event."""

import gzip
import json
import time
import tracemalloc
from typing import Any

import pytest
import zstandard

from ett_service.ingest.refusals import (
    BadBatch,
    BadEncoding,
    BodyTooLarge,
    MalformedBody,
    UnsupportedMedia,
)
from tests.builders.batches import NDJSON, batch, read
from tests.builders.clock import NOON, SECOND
from tests.builders.record import wire

GOOD = json.dumps(wire()).encode()


def codes(body: bytes, headers: dict[str, str] | None = None) -> list[tuple[int | None, str]]:
    return [(each.index, str(each.code)) for each in read(body, headers).refusals]


def test_a_bad_event_leaves_the_others_of_its_batch_standing() -> None:
    read = batch(wire(), wire(colour=1), wire("progress", step=2), wire("nonsense", id="n-1"))

    assert [each.index for each in read.arrivals] == [0, 2]
    assert [(each.index, str(each.code), each.pointer, each.id) for each in read.refusals] == [
        (1, "unknown_member", "/events/1/colour", None),
        (3, "unknown_type", "/events/3/type", "n-1"),
    ]


@pytest.mark.parametrize("event", ["3", "null", '"text"', "[]", "true"])
def test_what_is_no_object_is_no_event(event: str) -> None:
    assert codes(f'{{"events":[{event}]}}'.encode()) == [(0, "wrong_type")]


def test_an_id_that_can_be_none_is_not_repeated() -> None:
    (refusal,) = batch(wire(id="<script>")).refusals

    assert (refusal.id, refusal.pointer) == (None, "/events/0/id")


def test_what_stands_around_the_events_is_read() -> None:
    read = batch(
        wire(),
        wire(producer="own"),
        batch_id="b-1",
        sent_at="2026-03-01T12:00:01Z",
        producer="p",
        history=True,
        dropped={"full": 3},
    )

    assert (read.batch_id, read.sent_at, read.history) == ("b-1", NOON + SECOND, True)
    assert read.dropped == {"full": 3}
    assert [each.event.producer for each in read.arrivals] == ["p", "own"]


def test_lines_say_the_same_by_headers() -> None:
    headers = {
        **NDJSON,
        "ETT-Batch-Id": "b-1",
        "ETT-Sent-At": "2026-03-01T12:00:01Z",
        "ETT-Producer": "p",
        "ETT-History": "true",
    }
    lines = read(GOOD + b"\r\n\n" + GOOD + b"\n", headers)

    assert lines.arrivals == batch(wire(), wire(), producer="p").arrivals
    assert (lines.batch_id, lines.sent_at, lines.history) == ("b-1", NOON + SECOND, True)
    assert not read(GOOD, {**headers, "ETT-History": "false"}).history


def test_a_line_that_is_not_json_leaves_the_others_standing() -> None:
    lines = read(GOOD + b'\n{"type": "heart\n' + GOOD, NDJSON)

    assert [each.index for each in lines.arrivals] == [0, 2]
    assert [(each.index, str(each.code)) for each in lines.refusals] == [(1, "malformed_json")]


@pytest.mark.parametrize("body", [b"garbage", b"garbage\n{\n", b"\xff\n"])
def test_lines_of_which_none_is_json_are_no_batch(body: bytes) -> None:
    with pytest.raises((MalformedBody, BadEncoding)):
        read(body, NDJSON)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"garbage",
        b'{"events":[',
        b'{"events":[]}x',
        b'{"events":[NaN]}',
        b'{"events":[Infinity]}',
        b'{"events":[01]}',
        b"\xef\xbb\xbf" + b'{"events":[]}',
        b'{"events":["a\x01b"]}',
        b"{'events':[]}",
    ],
)
def test_what_is_not_json_is_refused_whole(body: bytes) -> None:
    with pytest.raises(MalformedBody):
        read(body)


@pytest.mark.parametrize(
    "body", [b'{"events":["\xff"]}', b'{"events":[]}'.decode().encode("utf-16")]
)
def test_what_is_not_utf8_is_refused_whole(body: bytes) -> None:
    with pytest.raises(BadEncoding):
        read(body)


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        (b"[]", "wrong_type", ""),
        (b"{}", "missing_member", "/events"),
        (b'{"events":{}}', "wrong_type", "/events"),
        (b'{"events":[],"colour":1}', "unknown_member", "/colour"),
        (b'{"events":[],"batch_id":5}', "wrong_type", "/batch_id"),
        (b'{"events":[],"batch_id":"a\\u0000"}', "bad_text", "/batch_id"),
        (b'{"events":[],"sent_at":"yesterday"}', "bad_timestamp", "/sent_at"),
        (b'{"events":[],"producer":""}', "bad_length", "/producer"),
        (b'{"events":[],"history":"yes"}', "wrong_type", "/history"),
        (b'{"events":[],"dropped":{"full":-1}}', "out_of_range", "/dropped"),
    ],
)
def test_faults_around_the_events_are_reported_by_code_and_pointer(
    body: bytes, code: str, pointer: str
) -> None:
    with pytest.raises(BadBatch) as refused:
        read(body)

    assert (str(refused.value.refusal.code), refused.value.refusal.pointer) == (code, pointer)


@pytest.mark.parametrize("depth", [9, 500, 5_000, 50_000])
def test_however_deep_one_event_is_the_others_are_read(depth: int) -> None:
    nested = b"[" * depth + b'"\\"]"' + b"]" * depth
    deep = GOOD[:-1] + b',"attributes":{"a":' + nested + b"}}"
    decoded = read(b'{"events":[' + deep + b"," + GOOD + b"]}")

    assert [(str(each.code), each.pointer) for each in decoded.refusals] == [
        ("too_deep", "/events/0/attributes")
    ]
    assert len(decoded.arrivals) == 1


def test_a_body_that_only_opens_is_not_json() -> None:
    with pytest.raises(MalformedBody):
        read(b'{"events":' + b"[" * 50_000)


@pytest.mark.parametrize(("name", "value"), [("ETT-History", "maybe"), ("ETT-Sent-At", "now")])
def test_faults_in_headers_are_reported_like_those_of_members(name: str, value: str) -> None:
    with pytest.raises(BadBatch):
        read(GOOD, {**NDJSON, name: value})


@pytest.mark.parametrize(
    ("sent", "mended"),
    [
        (r"\ud800", "\ufffd"),
        (r"\udc00\ud800", "\ufffd\ufffd"),
        (r"\ud800\ud83d\ude00", "\ufffd😀"),
        (r"\uD83D\uDE00", "😀"),
        (r"\\ud800", r"\ud800"),
        (r"\\\ud800", "\\\ufffd"),
        (r"\ud83dx", "\ufffdx"),
    ],
)
def test_half_a_character_in_a_crash_log_is_replaced(sent: str, mended: str) -> None:
    event = json.dumps(wire("attempt_ended", outcome="failed", message="HERE"))
    (arrival,) = read(f'{{"events":[{event.replace("HERE", sent)}]}}'.encode()).arrivals

    assert (
        arrival.body
        == batch(wire("attempt_ended", outcome="failed", message=mended)).arrivals[0].body
    )


@pytest.mark.parametrize("member", ["job", "id", "host", "launch", "at", "type", "colour"])
def test_half_a_character_elsewhere_refuses_the_event_only(member: str) -> None:
    read = batch(wire(**{member: "a\ud800"}), wire())

    assert (len(read.arrivals), len(read.refusals)) == (1, 1)


def test_of_duplicate_keys_the_last_counts() -> None:
    body = (
        b'{"events":[{"type":"heartbeat","step":"x","at":5,"job":"a","job":"llm","type":"progress",'
        b'"at":"2026-03-01T12:00:00Z","step":3,"step":4}]}'
    )
    (arrival,) = read(body).arrivals

    assert arrival.job == "llm"
    assert arrival.event == batch(wire("progress", step=4)).arrivals[0].event


@pytest.mark.parametrize(
    ("encoding", "compress"), [("gzip", gzip.compress), ("zstd", zstandard.compress)]
)
@pytest.mark.parametrize("media", ["application/json", "application/x-ndjson"])
def test_both_forms_may_come_compressed(encoding: str, compress: Any, media: str) -> None:
    body = GOOD if media.endswith("ndjson") else b'{"events":[' + GOOD + b"]}"
    headers = {"Content-Type": media, "content-encoding": encoding}

    assert read(compress(body), headers).arrivals == batch(wire()).arrivals


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": ""},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Encoding": "br"},
        {"Content-Encoding": "gzip, gzip"},
        {"Content-Encoding": "gzip", "content-encoding": "zstd"},
    ],
)
def test_other_media_and_stacked_encodings_are_not_taken(headers: dict[str, str]) -> None:
    with pytest.raises(UnsupportedMedia):
        read(GOOD, headers)


@pytest.mark.parametrize(
    "media", ["application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"']
)
def test_utf8_may_be_said(media: str) -> None:
    assert len(read(b'{"events":[' + GOOD + b"]}", {"Content-Type": media}).arrivals) == 1


def test_an_empty_batch_is_one() -> None:
    assert batch().arrivals == ()
    assert read(b"", NDJSON).arrivals == ()


def test_too_large_says_what_and_how_much() -> None:
    body = b'{"events":[' + GOOD + b"," + GOOD + b"]}"
    with pytest.raises(BodyTooLarge) as too_long:
        read(body, max_body_bytes=len(body) - 1)
    with pytest.raises(BodyTooLarge) as too_many:
        read(body, max_batch_events=1)

    assert (too_long.value.what, too_long.value.limit) == ("bytes", len(body) - 1)
    assert (too_many.value.what, too_many.value.limit) == ("events", 1)


@pytest.mark.parametrize(
    "text",
    [b'"' + b"a" * 4_000_000 + b'"', b'"' + b'\\"' * 200_000],
    ids=["long", "without an end"],
)
def test_a_text_beside_a_deep_event_is_read_in_one_go(text: bytes) -> None:
    deep = b"[" * 50_000 + b"]" * 50_000
    body = b'{"events":[' + deep + b'],"batch_id":' + text + b"}"
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises((BadBatch, BodyTooLarge, MalformedBody)):
        read(body)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert time.process_time() - began < 5
    assert most < 20 * len(body)
