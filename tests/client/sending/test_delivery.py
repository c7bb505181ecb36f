"""What counts as delivered, and what becomes of everything else."""

import json
from pathlib import Path
from typing import Any

import pytest

from ett_service.client.identity import Identity
from ett_service.client.lines import Lines
from ett_service.client.sending.backlog import Backlog
from ett_service.client.sending.courier import Courier
from ett_service.client.sending.delivery import Batch, Fate, Target, Verdict, deliver, judge
from ett_service.client.sending.spool import Spool
from ett_service.client.sending.transport import Response
from tests.builders.servers.web import Received, Reply, accepting, serving

LINES = tuple(b'{"id":"%d"}' % n for n in range(4))
JSON = {"content-type": "application/json"}
PROBLEM = {"content-type": "application/problem+json"}


def answer_body(**members: Any) -> bytes:
    whole = {"batch_id": "b", "accepted": 4, "duplicate": 0, "rejected": 0, "errors": []}
    return json.dumps(whole | members).encode()


@pytest.mark.parametrize(
    ("status", "headers", "body", "fate"),
    [
        (200, JSON, answer_body(), Fate.SETTLED),
        (200, JSON, answer_body(accepted=1, duplicate=3), Fate.SETTLED),
        (422, PROBLEM, answer_body(accepted=0, rejected=4), Fate.SETTLED),
        (200, JSON, answer_body(batch_id="another"), Fate.LATER),
        (200, JSON, answer_body(accepted=3), Fate.LATER),
        (200, JSON, answer_body(accepted=None), Fate.LATER),
        (200, JSON, b"not json", Fate.LATER),
        (200, {"content-type": "text/html"}, answer_body(), Fate.LATER),
        (204, {}, b"", Fate.LATER),
        (400, PROBLEM, b"{}", Fate.REFUSED),
        (415, PROBLEM, b"{}", Fate.REFUSED),
        (422, PROBLEM, b"{}", Fate.REFUSED),
        (413, {"content-type": "text/html"}, b"", Fate.REFUSED),
        (400, {"content-type": "text/html"}, b"", Fate.LATER),
        (401, PROBLEM, b"{}", Fate.FORBIDDEN),
        (403, PROBLEM, b"{}", Fate.FORBIDDEN),
        (302, {}, b"", Fate.ASTRAY),
        (404, PROBLEM, b"{}", Fate.ASTRAY),
        (408, PROBLEM, b"{}", Fate.LATER),
        (429, PROBLEM, b"{}", Fate.LATER),
        (500, PROBLEM, b"{}", Fate.LATER),
        (502, {}, b"", Fate.LATER),
        (503, PROBLEM, b"{}", Fate.LATER),
    ],
)
def test_only_the_service_itself_settles_a_batch(
    status: int, headers: dict[str, str], body: bytes, fate: Fate
) -> None:
    assert judge(Response(status, headers, body), LINES, "b").fate is fate


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("7", 7.0), ("999999999", 3600.0), ("nan", None), ("-1", None), ("", None)],
)
def test_the_server_sets_the_wait_within_limits(text: str, seconds: float | None) -> None:
    verdict = judge(Response(503, {"retry-after": text}, b""), LINES, "b")
    assert verdict.wait_seconds == seconds


def test_the_batch_names_its_producer_its_instant_and_what_was_dropped() -> None:
    with serving() as web:
        batch = Batch(LINES, "producer", "2026-11-21T04:00:00.000000Z", {"spool_full": 3})
        verdict = deliver(Target(web.url + "/", "ett_key"), batch)

    (received,) = web.received
    assert received.path == "/v1/events"
    assert received.batch["producer"] == "producer"
    assert received.batch["sent_at"] == "2026-11-21T04:00:00.000000Z"
    assert received.batch["dropped"] == {"spool_full": 3}
    assert [event["id"] for event in received.batch["events"]] == ["0", "1", "2", "3"]
    assert (verdict.fate, verdict.accepted) == (Fate.SETTLED, 4)


def test_a_large_batch_is_compressed() -> None:
    with serving() as web:
        deliver(Target(web.url), Batch(LINES * 1000, "p", None))
    (received,) = web.received
    assert received.headers["content-encoding"] == "gzip"
    assert len(received.batch["events"]) == 4000


def test_a_batch_that_is_too_large_is_halved_until_it_fits() -> None:
    def answer(received: Received) -> Reply:
        return accepting(received) if len(received.batch["events"]) == 1 else Reply(413)

    with serving(answer) as web:
        verdict = deliver(Target(web.url), Batch(LINES, "p", None, {"x": 1}))
    assert (verdict.fate, verdict.accepted, verdict.refused) == (Fate.SETTLED, 4, ())
    dropped = [
        received.batch.get("dropped")
        for received in web.received
        if len(received.batch["events"]) == 1
    ]
    assert dropped == [{"x": 1}, None, None, None]


def test_one_bad_event_is_found_and_the_others_are_delivered() -> None:
    def answer(received: Received) -> Reply:
        bad = any(event["id"] == "2" for event in received.batch["events"])
        return Reply(400, b'{"title":"No"}', PROBLEM) if bad else accepting(received)

    with serving(answer) as web:
        verdict = deliver(Target(web.url), Batch(LINES, "p", None))
    assert verdict == Verdict(
        Fate.SETTLED, 3, refused=((LINES[2], "the server answered 400: No"),), epoch="1"
    )


def test_what_is_refused_is_kept_with_its_reason(tmp_path: Path) -> None:
    def answer(received: Received) -> Reply:
        error = {"index": 1, "id": "1", "code": "conflict", "pointer": "/events/1"}
        body = {"accepted": 3, "rejected": 1, "errors": [error]}
        return Reply(body=answer_body(batch_id=received.batch["batch_id"], **body))

    spool, lines = Spool(tmp_path / "p", {}), Lines(Identity("j", "launch"), "p")
    for step in range(4):
        spool.write(lines.line({"type": "progress", "step": step}))
    spool.close()
    with serving(answer) as web:
        courier = Courier(Target(web.url), Backlog(tmp_path / "p", alive=False))
        assert courier.carry_one() is not None

    refused = json.loads((tmp_path / "p" / "refused.jsonl").read_text())
    assert refused["reason"] == "conflict /events/1"
    assert (refused["event"]["id"], refused["event"]["step"]) == ("p-2", 1)
    assert (courier.tally.accepted, courier.tally.rejected) == (3, 1)


def test_a_key_is_in_no_representation() -> None:
    assert "ett_key" not in repr(Target("http://x", "ett_key"))
