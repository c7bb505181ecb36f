"""Lives: the cycles of one launch and attempt, found by its ranks' processes.

A sender's cycle is evidence only: each agent of a launch counts its restarts for itself, and none
of them counts a change of membership. A rank that has two lives under one count shows that.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from ett_service.core.events import Event

LifeKey = tuple[int, int, str]
"""``(cycle as sent, rank, producer)`` of an ``attempt_started``."""

Sender = tuple[int, int | None, str | None]
"""The same for any event."""


class Restarts(NamedTuple):
    """Cycles, as ``(launch, attempt, cycle)``, that a rank's new process shows."""

    unreported: frozenset[tuple[str, int, int]] = frozenset()  #: no sender counted them
    disagreeing: frozenset[tuple[str, int, int]] = frozenset()  #: senders counted differently


NO_RESTARTS = Restarts()


class Life(NamedTuple):
    """One process of a rank; lives sort by their begin."""

    begin: int
    sent: int
    rank: int
    producer: str


@dataclass(slots=True)
class Cycle:
    """A cycle as the lives show it."""

    number: int
    begin: int
    lives: dict[int, Life] = field(default_factory=dict)  #: by rank


def find_cycles(begins: Mapping[LifeKey, int]) -> list[Cycle]:
    """Return the cycles of lives, given with their begins, in order.

    A life begins a cycle where its rank has one in the current cycle already, or where its sender
    counts more cycles than there are.
    """
    cycles: list[Cycle] = []
    for life in sorted(Life(begin, *key) for key, begin in begins.items()):
        highest = cycles[-1].number if cycles else -1
        if life.sent > highest or life.rank in cycles[-1].lives:
            cycles.append(Cycle(max(highest + 1, life.sent), life.begin))
        cycles[-1].lives[life.rank] = life
    _move_early_lives(cycles)
    return cycles


def _move_early_lives(cycles: Sequence[Cycle]) -> None:
    """Move what was taken for a rank that joined late to the next cycle, if it is nearer."""
    moves = [
        (life, cycle, following)
        for cycle, following in pairwise(cycles)
        for life in cycle.lives.values()
        if life.rank not in following.lives
        and following.begin - life.begin < life.begin - cycle.begin
    ]
    for life, cycle, following in moves:
        following.lives[life.rank] = cycle.lives.pop(life.rank)
        following.begin = min(following.begin, life.begin)


def _unreported(cycles: Iterable[Cycle]) -> Iterator[int]:
    sent_before: dict[int, int] = {}
    highest: int | None = None
    for cycle in cycles:
        counts = {rank: life.sent for rank, life in cycle.lives.items()}
        if highest is not None and not any(
            sent > sent_before.get(rank, highest) for rank, sent in counts.items()
        ):
            yield cycle.number
        sent_before |= counts
        highest = max([*counts.values()] if highest is None else [highest, *counts.values()])


def _disagreeing(cycles: Iterable[Cycle]) -> Iterator[int]:
    for cycle in cycles:
        if len({life.sent for life in cycle.lives.values()}) > 1:
            yield cycle.number


class _Begun:
    """Cycles by their begin."""

    def __init__(self) -> None:
        self.begins: list[int] = []
        self.numbers: list[int] = []

    def add(self, cycle: Cycle) -> None:
        if not self.numbers or self.numbers[-1] != cycle.number:
            self.begins.append(cycle.begin)
            self.numbers.append(cycle.number)

    def latest(self, instant: int) -> int:
        """Return the latest that had begun by *instant*, else the earliest."""
        return self.numbers[max(0, bisect_right(self.begins, instant) - 1)]


class Lives:
    """The cycles of one launch and attempt of which a rank has two lives under one as sent.

    Attributes:
        unreported: the cycles that began without a rank whose sender counted a restart.
        disagreeing: the cycles whose ranks' senders count different restarts.
    """

    def __init__(self) -> None:
        self.unreported: tuple[int, ...] = ()
        self.disagreeing: tuple[int, ...] = ()
        self._numbers: dict[Sender, int] = {}
        self._by_count: dict[tuple[int, int | None], _Begun] = {}
        self._all = _Begun()
        self._strays: dict[tuple[Sender, int], tuple[int, int]] = {}
        """First and last instant of events without a life, by sender and the cycle they got."""

    def recount(self, begins: Mapping[LifeKey, int]) -> bool:
        """Count the cycles anew, given all lives with their *begins*.

        False if an event that was, or would have been, given a cycle before gets another one.
        """
        before, cycles = self._numbers, find_cycles(begins)
        self.unreported, self.disagreeing = tuple(_unreported(cycles)), tuple(_disagreeing(cycles))
        self._numbers, self._by_count, self._all = {}, defaultdict(_Begun), _Begun()
        for cycle in cycles:
            self._all.add(cycle)
            for rank, life in cycle.lives.items():
                self._numbers[life.sent, rank, life.producer] = cycle.number
                self._by_count[life.sent, rank].add(cycle)
                self._by_count[life.sent, None].add(cycle)
        return (
            bool(before)
            and all(self._numbers[key] == number for key, number in before.items())
            and self._strays_hold()
        )

    def cycle_of(self, event: Event, first: int) -> int:
        """Return the cycle of an event that names the instant *first* before any other."""
        sender = (event.cycle or 0, event.rank, event.producer)
        number = self._numbers.get(sender)
        if number is None:
            number = self._without_life(sender, first)
            earliest, latest = self._strays.get((sender, number), (first, first))
            self._strays[sender, number] = (min(earliest, first), max(latest, first))
        return number

    def _without_life(self, sender: Sender, instant: int) -> int:
        sent, rank, _ = sender
        begun = self._by_count.get((sent, rank)) or self._by_count.get((sent, None))
        if begun is None and (sent > self._all.numbers[-1] or sent in self._all.numbers):
            return sent
        return (begun or self._all).latest(instant)

    def _strays_hold(self) -> bool:
        """Whether events without a life would go where they went before.

        Cycles begin in their order, so what holds for the first and the last instant of those
        of one sender in one cycle holds for all between them.
        """
        return not any(sender in self._numbers for sender, _ in self._strays) and all(
            self._without_life(sender, instant) == number
            for (sender, number), instants in self._strays.items()
            for instant in instants
        )
