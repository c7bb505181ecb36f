"""Requests as senders make them, and what the decoder makes of them."""

import json
from typing import Any

from ett_service.ingest.decode import Batch, decode
from ett_service.ingest.members import Arrival
from ett_service.ingest.wire import Limits
from tests.builders.clock import NOON
from tests.builders.record import wire

JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}


def read(
    body: bytes, headers: dict[str, str] | None = None, *, now_us: int = NOON, **limits: int
) -> Batch:
    """Decode *body*, by default as JSON at noon under the default limits."""
    return decode(body, {**JSON, **(headers or {})}, now_us=now_us, limits=Limits(**limits))


def batch(*events: dict[str, Any], now_us: int = NOON, **members: Any) -> Batch:
    """Decode a batch of *events* with *members* around them."""
    return read(json.dumps({"events": events, **members}).encode(), now_us=now_us)


def accepted(kind: str = "heartbeat", **members: Any) -> Arrival:
    """Decode one event that is accepted."""
    (arrival,) = batch(wire(kind, **members)).arrivals
    return arrival


def refused(kind: str = "heartbeat", **members: Any) -> tuple[str, str]:
    """Decode one event that is refused; returns the code, and the pointer inside the event."""
    (refusal,) = batch(wire(kind, **members)).refusals
    return str(refusal.code), refusal.pointer.removeprefix("/events/0")
