"""The oracle's reading of what senders report of themselves: totals, and the states of hooks."""

from collections.abc import Iterable
from typing import Any

from ett_service.core.events import Event
from ett_service.core.words import Category
from tests.core.oracle_lives import Life
from tests.core.oracle_pieces import Ownership

_BETTER_FIRST = ("waiting", "ok", "missing", "error")
_LOOP = (Category.EFFECTIVE_TRAINING, Category.REPEATED_TRAINING, Category.STALLED)


def reported_by(life: Life, ownership: Ownership) -> tuple[Any, int | None, dict[str, str]]:
    """What an attempt waited for data over how much loop time, what recording cost, its hooks."""
    telemetry = [us for e in life.events if (us := _total(e, "telemetry_seconds")) is not None]
    return (
        _data_wait(life, ownership),
        max(telemetry, default=None),
        _worst(life.events),
    )


def _data_wait(life: Life, ownership: Ownership) -> tuple[int, int] | None:
    reports = [e for e in life.stream if _total(e, "data_wait_seconds") is not None]
    if not reports:
        return None
    until = max(e.at for e in reports)
    loop = sum(
        max(0, min(piece.end, until) - piece.begin)
        for piece in ownership.pieces
        if piece.life is life and piece.category in _LOOP
    )
    waited = max(_total(e, "data_wait_seconds") or 0 for e in reports)
    return min(waited, loop), loop


def _total(event: Event, name: str) -> int | None:
    seconds: Any = event.attributes.get(name)
    if type(seconds) not in (int, float) or seconds < 0:
        return None
    return round(min(float(seconds), 1e9) * 1_000_000)


def _worst(events: Iterable[Event]) -> dict[str, str]:
    states: dict[str, list[Any]] = {}
    for event in events:
        hooks: Any = event.attributes.get("hooks")
        source = event.attributes.get("source")
        for name, state in hooks.items() if isinstance(hooks, dict) else ():
            whose = f"{source}.{name}" if isinstance(source, str) else name
            if state in _BETTER_FIRST:
                states.setdefault(whose, []).append(state)
    return {name: max(given, key=_BETTER_FIRST.index) for name, given in states.items()}
