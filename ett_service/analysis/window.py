"""The stretch of time that a question is about, and the steps that it is cut into."""

from typing import NamedTuple

from ett_service.analysis.question import BadQuestion
from ett_service.core.interval import DAY_US, HOUR_US, MONDAY_US, WEEK_US

STEPS: dict[str, int] = {"1h": HOUR_US, "1d": DAY_US, "1w": WEEK_US}
"""Steps in microseconds: hours and days of UTC, and ISO weeks, which begin on Monday."""

MOST_POINTS = 10_000


class Window(NamedTuple):
    """From an instant to before another, both on full hours."""

    from_us: int
    to_us: int


def window(from_us: int | None, to_us: int | None, now_us: int) -> Window:
    """Widen what was asked for to full hours; by default the week up to the end of this hour.

    Raises:
        BadQuestion: It ends before it begins.
    """
    end = _up(now_us if to_us is None else to_us)
    start = end - WEEK_US if from_us is None else from_us // HOUR_US * HOUR_US
    if start > end or (from_us is not None and to_us is not None and from_us > to_us):
        raise BadQuestion(
            "from", "from_after_to", "It may not be after `to`, which is now if left out."
        )
    return Window(start, end)


def bucket_starts(window: Window, step: int) -> range:
    """Return where the buckets begin that have a part in the window; the first may lie before it.

    Raises:
        BadQuestion: There are more than ``MOST_POINTS``.
    """
    first = window.from_us - (window.from_us - MONDAY_US) % step
    starts = range(first, window.to_us, step)
    if len(starts) > MOST_POINTS:
        raise BadQuestion(
            "step", "too_many_points", f"It may cut the window into {MOST_POINTS} points at most."
        )
    return starts


def _up(us: int) -> int:
    return -(-us // HOUR_US) * HOUR_US
