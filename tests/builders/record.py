"""Events as they come in and as they are kept, with defaults for what a test leaves open."""

import itertools
from typing import Any, TypeVar

from ett_service.core.events import Event, Progress
from tests.builders.clock import NOON

E = TypeVar("E", bound=Event)

_numbers = itertools.count()


def event(kind: type[E], at: int = NOON, **members: Any) -> E:
    """Build an event as it is kept; its id is its own unless given."""
    return kind(**{"id": f"e-{next(_numbers)}", "at": at, **members})


def progress(step: int, at: int = NOON, **members: Any) -> Progress:
    """Build a report that *step* is done."""
    return event(Progress, at, step=step, **members)


def wire(kind: str = "heartbeat", **members: Any) -> dict[str, Any]:
    """Build an event as it is sent; None takes a member away."""
    sent = {"type": kind, "job": "llm-70b", "at": "2026-03-01T12:00:00Z", **members}
    return {name: value for name, value in sent.items() if value is not None}
