"""Points of progress, thinned out until they are not too many to send."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar

T = TypeVar("T")

MOST_POINTS: Final = 50_000
"""Of one job. Between two points progress is taken for steady, so a few say enough."""

_FEWEST_POINTS: Final = 100

_APART_US: Final = 10_000_000


def most_points(attempts: int) -> int:
    """Return how many points each of a job's attempts may have."""
    return max(_FEWEST_POINTS, MOST_POINTS // max(1, attempts))


def thinned(points: Sequence[T], instants_us: Sequence[int], most: int = MOST_POINTS) -> list[T]:
    """Keep the first two points, the last, and those 10 s apart; further where they are many.

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
        is_due = kept_us is None or at_us - kept_us >= apart_us or place in (1, last)
        if is_due or instants_us[place + 1] - at_us >= apart_us:
            yield place
            kept_us = at_us


class Thinner(Generic[T]):
    """Points that come one by one, in the order of their instants or nearly, thinned as they come.

    A point is made only if it is kept. What lies between two kept ones is steady.
    """

    def __init__(self) -> None:
        self._points: list[T] = []
        self._instants_us: list[int] = []
        self._held: tuple[int, Callable[[], T]] | None = None
        self._last_us: int | None = None

    def add(self, at_us: int, make: Callable[[], T]) -> None:
        """Keep a point, or hold it until the next shows whether it is needed."""
        last_us, self._last_us = self._last_us, at_us
        if last_us is None or len(self._instants_us) == 1:
            self._keep(at_us, make)
        elif last_us <= at_us < self._instants_us[-1] + _APART_US:
            self._held = at_us, make
        else:
            if not last_us <= at_us < last_us + _APART_US:
                self._keep_held()
            self._held = None
            self._keep(at_us, make)

    def points(self, most: int = MOST_POINTS) -> list[T]:
        """Return what is kept, the last point included."""
        self._keep_held()
        by_instant = sorted(range(len(self._points)), key=self._instants_us.__getitem__)
        instants_us = [self._instants_us[place] for place in by_instant]
        return thinned([self._points[place] for place in by_instant], instants_us, most)

    def _keep_held(self) -> None:
        if self._held is not None:
            self._keep(*self._held)
            self._held = None

    def _keep(self, at_us: int, make: Callable[[], T]) -> None:
        self._points.append(make())
        self._instants_us.append(at_us)
