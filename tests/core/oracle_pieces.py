"""What the oracle gives owners to: the pieces of a job's time, and what it knows of attempts.

``every_microsecond`` makes each piece one microsecond long: that is the definition read aloud,
and only for tiny timelines. ``every_change`` joins those between which nothing can change.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ett_service.core.events import Event
from ett_service.core.words import Basis, Category, Period, Phase
from tests.core.oracle_lives import Life
from tests.core.oracle_spans import Span

Ticks = Callable[[Iterable[int]], list[int]]
Stretch = tuple[int, int]


def every_change(instants: Iterable[int]) -> list[int]:
    """Pieces between the instants that matter."""
    return sorted(set(instants))


def every_microsecond(instants: Iterable[int]) -> list[int]:
    """Pieces of one microsecond."""
    changes = set(instants)
    return list(range(min(changes), max(changes) + 1)) if changes else []


@dataclass
class Piece:
    """``[begin, end)`` and who owns it."""

    begin: int
    end: int
    life: Life | None
    span: Span | None
    category: Category = Category.RESTART_WAIT
    period: Period = Period.SCHEDULING

    @property
    def us(self) -> int:
        """Length."""
        return self.end - self.begin


@dataclass
class Ownership:
    """One run, and who owns each piece of its time."""

    lives: list[Life]
    queuing: list[Life]
    first: int
    end: int
    ticks: Ticks
    spans: dict[int, list[Span]] = field(default_factory=dict)  #: by ``id`` of the life
    loops: list[tuple[int, int, Life]] = field(default_factory=list)
    repeated: dict[int, list[Stretch]] = field(default_factory=dict)
    tails: dict[int, int] = field(default_factory=dict)  #: from when on loop time is silent
    basis: dict[int, Basis] = field(default_factory=dict)
    pieces: list[Piece] = field(default_factory=list)

    def loops_of(self, life: Life) -> list[Stretch]:
        """The loops of one attempt."""
        return [(begin, end) for begin, end, owner in self.loops if owner is life]

    def loop_time(self, life: Life) -> list[Piece]:
        """What its ``train_loop`` spans own."""
        return [
            p for p in self.pieces if p.life is life and p.span and p.span.phase is Phase.TRAIN_LOOP
        ]


def facts_of(lives: Iterable[Life], *kinds: type[Event]) -> list[Any]:
    return [e for life in lives for e in life.stream if isinstance(e, kinds)]
