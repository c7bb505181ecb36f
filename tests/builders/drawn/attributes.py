"""Attributes in which senders report of themselves, beside what is none of it."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from ett_service.core.events import Event, JobEnded, JobFacts

_HOOKS = ("data", "steps", "compile")
_STATES = ("waiting", "ok", "ok", "missing", "error", "unheard of", 3, None)


def with_attributes(events: Sequence[Event], chance: Random) -> tuple[Event, ...]:
    """Give some events attributes with totals and the states of hooks."""
    return tuple(
        replace(event, attributes=_drawn(chance))
        if chance.random() < 0.4 and not isinstance(event, JobFacts | JobEnded)
        else event
        for event in events
    )


def _drawn(chance: Random) -> dict[str, object]:
    attributes: dict[str, object] = {"compile_id": "0/0"}
    for name in ("data_wait_seconds", "telemetry_seconds"):
        if chance.random() < 0.5:
            attributes[name] = _seconds(chance)
    if chance.random() < 0.4:
        attributes["hooks"] = {hook: chance.choice(_STATES) for hook in _HOOKS}
        if chance.random() < 0.3:
            attributes["source"] = chance.choice(["lightning", "ray", 7])
    elif chance.random() < 0.1:
        attributes["hooks"] = "ok"
    return attributes


def _seconds(chance: Random) -> object:
    return chance.choice(
        [
            chance.randrange(60) / 1_000_000,
            chance.randrange(4000),
            chance.random() * 600,
            chance.choice([10**300, -1, True, "3", None]),
        ]
    )
