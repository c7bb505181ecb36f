"""Waiting for a condition."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 120.0
"""Only bounds a hang: a busy machine may take its time."""

_LOOK_EVERY_S = 0.01


def wait_for(
    look: Callable[[], T | None],
    explain: Callable[[], str] = str,
    *,
    patience_s: float = PATIENCE_S,
) -> T:
    """Poll *look* until it is true, and return its value; *explain* adds to the failure."""
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        if seen := look():
            return seen
        time.sleep(_LOOK_EVERY_S)
    raise AssertionError(f"still waiting after {patience_s} s\n{explain()}")
