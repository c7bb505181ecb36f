"""What a trainer says, made to fit the wire: mended where it can be, else left out and counted.

The server refuses an event for one member that does not fit: too much lost for too little.
"""

import operator
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from ett_service.client import guard
from ett_service.client.clock import rfc3339

MAX_INTEGER = 2**53 - 1

_REQUIRED = frozenset({"step", "phase", "outcome"})


def fitted(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that fit. Raises ``ValueError`` where one does not that must be there."""
    fitting: dict[str, Any] = {}
    for name, value in members.items():
        fits = fit(name, value)
        if fits is None and name in _REQUIRED:
            raise ValueError(f"{name} has an invalid value")
        if fits is None and value is not None:
            guard.errors["misfit"] += 1
            guard.warn_once(f"{name} has an invalid value and is left out")
        fitting[name] = fits
    return fitting


def fit(name: str, value: Any) -> Any:
    """Return the value that a member can have, None where there is none."""
    try:
        return None if value is None else FITS.get(name, _as_it_is)(value)
    except Exception:  # noqa: BLE001 -- values of others raise what they like
        return None


def word(value: object, limit: int = 256) -> str | None:
    """Return one line that can be shown, None where there is none."""
    if not isinstance(value, str):
        return None
    return "".join(c if c.isprintable() and c != "\ufffd" else "?" for c in value[:limit]) or None


def _log(limit: int) -> Callable[[object], str | None]:
    def text(value: object) -> str | None:
        if not isinstance(value, str):
            return None
        return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in value[:limit])

    return text


def _whole(low: int, high: int) -> Callable[[object], int | None]:
    def whole(value: Any) -> int | None:
        if isinstance(value, bool):
            return None
        integral = isinstance(value, float) and value.is_integer()
        number = int(value) if integral else operator.index(value)
        return number if low <= number <= high else None

    return whole


def _amount(value: Any) -> float | None:
    number = float(value)
    finite = 0 <= number < float("inf")
    return number if finite and not isinstance(value, str | bool) else None


def _instant(value: object) -> str | None:
    at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    whole = int(at.replace(microsecond=0).timestamp())
    if at.tzinfo is None or whole < 0:
        return None
    return rfc3339(whole * 1_000_000 + at.microsecond)


def _labels(value: object) -> dict[str, str] | None:
    if not isinstance(value, Mapping):
        return None
    pairs = ((word(name, 128), word(text)) for name, text in value.items())
    return dict([(name, text) for name, text in pairs if name and text][:16])


def _as_it_is(value: Any) -> Any:
    return value


_count = _whole(0, MAX_INTEGER)
_machines = _whole(0, 1_000_000)

_FACTS_IN_WORDS = (
    "name", "team", "model", "cluster", "hardware", "kind", "code_version", "image", "owner",
    "precision",
)  # fmt: skip
FACTS = frozenset({*_FACTS_IN_WORDS, "submitted_at", "parameters", "labels"})
"""The facts about the job that ``init`` takes besides ``gpus``."""

FITS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("step", "samples", "tokens", "bytes", "parameters"), _count),
    **dict.fromkeys(("gpus", "hosts"), _machines),
    **dict.fromkeys(("flops", "duration_seconds"), _amount),
    **dict.fromkeys((*_FACTS_IN_WORDS, "stage"), word),
    "submitted_at": _instant,
    "labels": _labels,
    "exit_code": _whole(-MAX_INTEGER, MAX_INTEGER),
    "signal": _whole(0, 127),
    "exception": _log(200),
    "reason": _log(500),
    "message": _log(2000),
}
"""How each member is made to fit; the others are the client's own words."""
