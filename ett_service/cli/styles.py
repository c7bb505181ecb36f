"""Which style a cell of a table has on a terminal; the words say the same without it.

Styles are those of rich, which shows no colour in a pipe or where ``NO_COLOR`` is set, and
``FORCE_COLOR`` wherever it is.
"""

from collections.abc import Mapping

_BAD, _DOUBTFUL, _GOOD, _QUIET = "red", "yellow", "green", "dim"

_STYLES: Mapping[str, str] = {
    # outcomes of attempts, states of jobs
    "completed": _GOOD,
    "failed": _BAD,
    "lost": _BAD,
    "preempted": _DOUBTFUL,
    "interrupted": _DOUBTFUL,
    "cancelled": _QUIET,
    "queued": _QUIET,
    "running": "cyan",
    # states of findings, their verdicts and severity, what a comparison says
    "firing": _BAD,
    "pending": _DOUBTFUL,
    "resolved": _GOOD,
    "inactive": _QUIET,
    "regression": _BAD,
    "improvement": _GOOD,
    "high": f"bold {_BAD}",
    "medium": _DOUBTFUL,
    "worse": _BAD,
    "better": _GOOD,
    "too few": _QUIET,
    # deliveries and receivers
    "dead": _BAD,
    "failing": _BAD,
    "disabled": _BAD,
    "sent": _GOOD,
}


def outcome(cell: str) -> str:
    """Return the style of an outcome, a state, a verdict or a severity: ``firing (muted)``."""
    return _STYLES.get(cell.partition(" (")[0].strip(), "")


def gain(cell: str) -> str:
    """Return the style of a signed difference of which more is better, such as of ETT%."""
    return _signed(cell, _GOOD, _BAD)


def loss(cell: str) -> str:
    """Return the style of a signed difference of which more is worse, such as of a duration."""
    return _signed(cell, _BAD, _GOOD)


def difference(cell: str) -> str:
    """Return the style of a signed difference: of points more is better, of durations worse."""
    return gain(cell) if cell.endswith("pt") else loss(cell)


def _signed(cell: str, more: str, less: str) -> str:
    if cell.startswith("+"):
        return more
    return less if cell.startswith("-") and len(cell) > 1 else ""
