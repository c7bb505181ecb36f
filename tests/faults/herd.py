"""Thousands of trainers that wait for one server, on a simulated clock.

The pace is the client's own. Simulated are the clock, what trainers record, and a server that is
down for a while and takes everything before and after.
"""

import heapq
import math
import random
from collections import Counter
from dataclasses import dataclass, field

from ett_service.client.sending.delivery import Fate, Verdict
from ett_service.client.sending.pace import Pace

_EVENT_BYTES = 250
_RANKS = 8  #: of a job, the first of which reports steps
_LATER, _SETTLED = Verdict(Fate.LATER), Verdict(Fate.SETTLED)


@dataclass(slots=True)
class Habit:
    """Something that a trainer records again and again."""

    due: float
    every: float
    events: int

    def record(self, now: float) -> int:
        """Return how many events have come since the last time."""
        if self.due > now:
            return 0
        times = math.floor((now - self.due) / self.every) + 1
        self.due += times * self.every
        return times * self.events


@dataclass(slots=True)
class Trainer:
    """One process: what it records, and when it sends."""

    pace: Pace
    habits: list[Habit]
    ticks_at: float  #: within each second, its sender looks
    recorded: int = 0
    unsent: int = 0
    waits: bool = False  #: since the server was away

    def record(self, now: float) -> None:
        """Write down what has come since the last time."""
        events = sum(habit.record(now) for habit in self.habits)
        self.recorded += events
        self.unsent += events

    def next_look(self, now: float) -> float:
        """Return when its sender will have something to do."""
        due = now if self.unsent else min(habit.due for habit in self.habits)
        due = max(due, self.pace.not_before, now + 0.5)
        return self.ticks_at + math.ceil(due - self.ticks_at)


@dataclass
class Herd:
    """So many trainers, beside a server that is away from *down* to *up*, in seconds."""

    size: int
    down: float
    up: float
    draw: random.Random
    connects: Counter[int] = field(default_factory=Counter)  #: that reach the server, by second
    refused: Counter[int] = field(default_factory=Counter)  #: connects while it is away
    accepted: Counter[int] = field(default_factory=Counter)  #: events, by second
    caught_up_at: float = 0.0  #: when the last of them had nothing left
    trainers: list[Trainer] = field(default_factory=list)

    def run(self, until: float) -> None:
        """Let time pass."""
        self.trainers = [self._trainer(rank % _RANKS) for rank in range(self.size)]
        looks = [(trainer.ticks_at, place) for place, trainer in enumerate(self.trainers)]
        heapq.heapify(looks)
        while looks[0][0] <= until:
            now, place = looks[0]
            trainer = self.trainers[place]
            trainer.record(now)
            self._send(trainer, now)
            heapq.heapreplace(looks, (trainer.next_look(now), place))

    def _trainer(self, rank: int) -> Trainer:
        habits = [(30.0, 1), (1800.0, 2), *([(10.0, 1)] if rank == 0 else [])]
        return Trainer(
            Pace(self.draw.uniform),
            [Habit(self.draw.uniform(0.0, every), every, count) for every, count in habits],
            self.draw.random(),
        )

    def _send(self, trainer: Trainer, now: float) -> None:
        is_up = not self.down <= now < self.up
        while trainer.unsent and trainer.pace.not_before <= now:
            (self.connects if is_up else self.refused)[int(now)] += 1
            trainer.waits |= not is_up
            if is_up:
                self._take(trainer, now)
            verdict = _SETTLED if is_up else _LATER
            trainer.pace.heed(verdict, now, trainer.unsent * _EVENT_BYTES)

    def _take(self, trainer: Trainer, now: float) -> None:
        count = min(trainer.unsent, trainer.pace.events(now))
        trainer.unsent -= count
        self.accepted[int(now)] += count
        if trainer.waits and not trainer.unsent:
            trainer.waits = False
            self.caught_up_at = now

    @property
    def recorded(self) -> int:
        """How many events were written."""
        return sum(trainer.recorded for trainer in self.trainers)

    @property
    def unsent(self) -> int:
        """How many are not with the server."""
        return sum(trainer.unsent for trainer in self.trainers)
