"""Points of progress, thinned out until they are not too many to send."""

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

MOST_POINTS: Final = 50_000
"""Of one attempt. Between two points progress is taken for steady, so a few say enough."""

_APART_US: Final = 10_000_000


def thinned(points: Sequence[T], instants_us: Sequence[int], most: int = MOST_POINTS) -> list[T]:
    """Keep the first point, the last, and those at least 10 s apart; further where they are many.

    Instants rise. A point is also kept where the next one comes 10 s or more after it.
    """
    apart_us = _APART_US
    kept = list(_kept(instants_us, apart_us))
    while len(kept) > most:
        apart_us *= 2
        kept = list(_kept(instants_us, apart_us))
    return [points[place] for place in kept]


def _kept(instants_us: Sequence[int], apart_us: int) -> Iterator[int]:
    last = len(instants_us) - 1
    kept_us = None
    for place, at_us in enumerate(instants_us):
        is_due = kept_us is None or at_us - kept_us >= apart_us or place == last
        if is_due or instants_us[place + 1] - at_us >= apart_us:
            yield place
            kept_us = at_us
