"""Requests in JSON: the parser divides those that are usual, and a walk all others."""

import json

import pytest

from ett_service.ingest.otlp.json_spans import read_json
from ett_service.ingest.otlp.spans import ResourceSpans
from ett_service.ingest.refusals import BodyTooLarge, MalformedBody
from tests.builders.otlp import Sent, in_json, json_body, numbered

RESOURCE = {"ett.job": "llm"}
SENT = numbered(
    Sent("step", 0, 1, {"ett.step": 7, "rl.bucket": "idle", "of": "no one"}),
    Sent("step", 1, 2, exception=("RuntimeError", "out of memory")),
    Sent("step", 2, None),
)


def both_ways(body: bytes, most: int = 100) -> tuple[list[ResourceSpans], list[ResourceSpans]]:
    """Read a body as it is, and with so many commas that it is walked."""
    walked = b'{"padding":[0' + b",0" * 200_001 + b"]," + body.lstrip()[1:]
    return read_json(body, most), read_json(walked, most)


def test_what_the_parser_divides_is_read_as_the_walk_reads_it() -> None:
    request = in_json(RESOURCE, SENT)
    scopes = request["resourceSpans"][0]["scopeSpans"]
    scopes += [{"spans": None}, {}, {"spans": [{"traceId": "00"}, 7, {"name": []}]}]
    request["resourceSpans"] += [{"resource": None, "scopeSpans": None}]
    divided, walked = both_ways(json.dumps(request).encode())
    assert divided == walked
    assert [len(group.spans) for group in divided] == [3, 0]
    assert len(divided[0].refused) == 3
    assert divided[0].spans[0].attributes == {"ett.step": "7", "rl.bucket": "idle"}


def test_more_spans_than_are_allowed_are_refused_either_way() -> None:
    body = json_body(RESOURCE, SENT)
    for divided_or_not in (body, b'{"x":[0' + b",0" * 200_001 + b"]," + body[1:]):
        with pytest.raises(BodyTooLarge, match="spans"):
            read_json(divided_or_not, 2)


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"resourceSpans":{}}', b'{"resourceSpans":[7]}'])
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedBody):
        read_json(body, 100)
