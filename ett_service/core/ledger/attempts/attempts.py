"""Attempts: a job's events on corrected clocks, each given to the attempt it belongs to."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields

from ett_service.core.dimensions import Facts
from ett_service.core.events import (
    AttemptEnded,
    AttemptStarted,
    Event,
    JobEnded,
    JobFacts,
    PhaseEnded,
    SpanOver,
)
from ett_service.core.ledger.attempts.attempt_events import AttemptEvents, AttemptIdentity, Placed
from ett_service.core.ledger.attempts.lives import NO_RESTARTS, LifeKey, Lives, Restarts
from ett_service.core.ledger.attempts.spans import NEVER, names_queued

TOLERANCE_US = 2_000_000
"""Offsets up to this are left alone: they are the network's, not the clock's."""

_OF_THE_JOB = frozenset({JobFacts, JobEnded})
_MEMBERS = tuple(member.name for member in fields(Facts) if member.name != "labels")


Allocation = tuple[str, int]
"""``(launch, attempt)``"""


class Clocks:
    """The producers' clocks of one job.

    Where a producer sends ``mono_us``, its instants are the ``at`` of its earliest event by that
    clock plus monotonic differences; on top of it goes the offset that the server measured.
    """

    def __init__(self) -> None:
        self._anchors: dict[str, tuple[int, int]] = {}  #: producer to (mono_us, at)
        self._offsets: dict[str, int] = {}
        self._stepped: set[str] = set()
        self._producers: set[str] = set()

    def admit(self, events: Iterable[Event], offsets: Mapping[str, int]) -> bool:
        """Take in the clocks of *events*; False if an event placed before would move."""
        settled = set(self._producers)
        moved = self._offset_moved(offsets, settled)
        for event in events:
            name = event.producer
            if name is None:
                continue
            self._producers.add(name)
            if event.mono_us is None:
                continue
            reading = (event.mono_us, event.at)
            anchor = self._anchors.get(name)
            if anchor is None or reading < anchor:
                self._anchors[name] = reading
                moved = moved or (name in settled)
        return not moved

    def _offset_moved(self, offsets: Mapping[str, int], settled: set[str]) -> bool:
        corrections = {
            name: offset for name, offset in offsets.items() if abs(offset) > TOLERANCE_US
        }
        before, self._offsets = self._offsets, corrections
        return any(before.get(name) != corrections.get(name) for name in settled)

    def shift_us(self, event: Event) -> int:
        """Return what is to be added to the event's instants."""
        name = event.producer
        if name is None:
            return 0
        shift = self._offsets.get(name, 0)
        anchor = self._anchors.get(name)
        if anchor is not None and event.mono_us is not None:
            step = anchor[1] + event.mono_us - anchor[0] - event.at
            if abs(step) > TOLERANCE_US:
                self._stepped.add(name)
            shift += step
        return shift

    @property
    def flagged(self) -> tuple[str, ...]:
        """The producers whose clocks were off by more than ``TOLERANCE_US``, in order."""
        return tuple(sorted(self._stepped | (self._producers & self._offsets.keys())))


@dataclass(slots=True)
class _Starts:
    """The processes that began one launch and attempt."""

    begins: dict[LifeKey, int] = field(default_factory=dict)
    producers: dict[tuple[int, int], str] = field(default_factory=dict)
    """The first of each ``(cycle as sent, rank)``."""


class Attempts:
    """The attempts of one job, each with its events.

    ``add`` returns False for a batch that would give earlier events to another attempt.
    """

    def __init__(self) -> None:
        self.events_of: dict[AttemptIdentity, AttemptEvents] = {}
        self.facts: list[tuple[int, JobFacts]] = []
        self.job_ends: list[tuple[int, JobEnded]] = []
        self.last_event_at = -NEVER  #: latest of an attempt's event or ``job_ended``
        self.last_sign_at = -NEVER  #: latest of any event
        self._launch_first: dict[str, int] = {}  #: launch to its first instant outside queued
        self._launch_queued: dict[str, int] = {}  #: launch to its first instant
        self._unlaunched = False  #: whether an event without a launch was given out
        self._open_ended: dict[Allocation, int] = {}  #: latest end that named no cycle
        self._starts: defaultdict[Allocation, _Starts] = defaultdict(_Starts)
        self._lives: dict[Allocation, Lives] = {}  #: of those whose cycles they decide

    def add(
        self,
        events: Iterable[Event],
        clocks: Clocks,
        settled_at: Callable[[AttemptIdentity], int] = lambda _: -NEVER,
    ) -> bool:
        """Give each attempt its *events*; False if they cannot follow those given before.

        *settled_at* returns the instant before which an attempt's time is settled; see
        :meth:`AttemptEvents.add`.
        """
        placed: list[Placed] = []
        last_at = -NEVER
        names_launch = False
        for event in events:
            shift = clocks.shift_us(event) if event.producer is not None else 0
            at = event.at + shift
            kind = type(event)
            if kind in _OF_THE_JOB:
                self._hear_job(at, event)
                continue
            first = at
            if isinstance(event, SpanOver):
                first = min(at, event.start + shift)
            if at > last_at:
                last_at = at
            names_launch = names_launch or event.launch != ""
            placed.append((at, kind is not PhaseEnded, event.id, first, event))
        if not placed:
            return True
        self.last_event_at = max(self.last_event_at, last_at)
        self.last_sign_at = max(self.last_sign_at, last_at)
        if names_launch and not self._launches_hold(placed):
            return False
        return self._give_out(placed, settled_at)

    def _hear_job(self, at: int, event: Event) -> None:
        self.last_sign_at = max(self.last_sign_at, at)
        if isinstance(event, JobFacts):
            self.facts.append((at, event))
        elif isinstance(event, JobEnded):
            self.job_ends.append((at, event))
            self.last_event_at = max(self.last_event_at, at)

    def _launches_hold(self, placed: list[Placed]) -> bool:
        order_before = self.launches() if self._unlaunched else []
        for _, _, _, first, event in placed:
            if not event.launch:
                continue
            before = self._launch_queued.get(event.launch, NEVER)
            self._launch_queued[event.launch] = min(before, first)
            if not names_queued(event):
                before = self._launch_first.get(event.launch, NEVER)
                self._launch_first[event.launch] = min(before, first)
        return not self._unlaunched or order_before == self.launches()

    def launches(self) -> list[tuple[int, int, str]]:
        """Return ``(first instant outside queued, first instant, launch)`` in order."""
        return sorted(
            (
                (self._launch_first.get(launch, NEVER), queued, launch)
                for launch, queued in self._launch_queued.items()
            ),
            key=_launch_order,
        )

    def _give_out(self, placed: list[Placed], settled_at: Callable[[AttemptIdentity], int]) -> bool:
        launches = self.launches()
        by_key: dict[AttemptIdentity, list[Placed]] = defaultdict(list)
        without_cycle: list[tuple[str, Placed]] = []
        for item in placed:
            _, _, _, first, event = item
            launch = event.launch
            if not launch:
                self._unlaunched = True
                if launches:
                    launch = _latest_begun(launches, first)
            if event.cycle is None and type(event) is AttemptEnded:
                without_cycle.append((launch, item))
            else:
                by_key[launch, event.attempt, event.cycle or 0].append(item)
        if not self._lives_hold(by_key):
            return False
        by_key = self._by_lives(by_key)
        if not self._cycles_hold(by_key):
            return False
        if not self.feed(by_key, settled_at):
            return False
        return self.feed(self._end_cycles(without_cycle), settled_at)

    def _lives_hold(self, by_sent: Mapping[AttemptIdentity, list[Placed]]) -> bool:
        """Take in the lives that begin; False if earlier events would go to another cycle."""
        hold = True
        for key, items in by_sent.items():
            starts = [(item[0], item[4]) for item in items if type(item[4]) is AttemptStarted]
            if starts:
                hold = self._take_lives(key[:2], starts) and hold
        return hold

    def _take_lives(self, group: Allocation, starts: Iterable[tuple[int, Event]]) -> bool:
        begun, lives, has_news = self._starts[group], self._lives.get(group), False
        for at, event in starts:
            if event.rank is None or event.producer is None:
                continue
            key = (event.cycle or 0, event.rank, event.producer)
            if at < begun.begins.get(key, at + 1):
                begun.begins[key] = at
                has_news = True
            first = begun.producers.setdefault(key[:2], event.producer)
            if first != event.producer and lives is None:
                lives = self._lives[group] = Lives()
        follow = lives is None or not has_news or lives.recount(begun.begins)
        return follow or not any(key[:2] == group for key in self.events_of)

    def _by_lives(
        self, by_sent: dict[AttemptIdentity, list[Placed]]
    ) -> dict[AttemptIdentity, list[Placed]]:
        """Give the events of launches whose cycles lives decide the cycles that these have."""
        if not self._lives:
            return by_sent
        by_key: dict[AttemptIdentity, list[Placed]] = defaultdict(list)
        for key, items in by_sent.items():
            lives = self._lives.get(key[:2])
            if lives is None:
                by_key[key] += items
                continue
            for item in items:
                by_key[*key[:2], lives.cycle_of(item[4], item[3])].append(item)
        return by_key

    def restarts(self) -> Restarts:
        """Return the cycles that lives show and senders did not."""
        if not self._lives:
            return NO_RESTARTS
        recounted = self._lives.items()
        return Restarts(
            frozenset((*group, n) for group, lives in recounted for n in lives.unreported),
            frozenset((*group, n) for group, lives in recounted for n in lives.disagreeing),
        )

    def _cycles_hold(self, by_key: dict[AttemptIdentity, list[Placed]]) -> bool:
        """Whether no end that named no cycle would now go to another one."""
        for (launch, number, cycle), items in by_key.items():
            ended_at = self._open_ended.get((launch, number))
            if ended_at is None:
                continue
            attempt = self.events_of.get((launch, number, cycle))
            begun = [first for _, _, _, first, event in items if not names_queued(event)]
            if attempt is None or attempt.first is None or (begun and min(begun) < attempt.first):
                return False
        return True

    def feed(
        self,
        by_key: Mapping[AttemptIdentity, list[Placed]],
        settled_at: Callable[[AttemptIdentity], int],
    ) -> bool:
        """Hand each attempt its events; False if they cannot follow what it had before."""
        for key, items in by_key.items():
            attempt = self.events_of.get(key)
            if attempt is None:
                attempt = self.events_of[key] = AttemptEvents(key)
            if not attempt.add(items, settled_at(key)):
                return False
        return True

    def _end_cycles(self, ends: list[tuple[str, Placed]]) -> Mapping[AttemptIdentity, list[Placed]]:
        """Give each end that names no cycle to the highest that had begun, else the lowest."""
        by_key: dict[AttemptIdentity, list[Placed]] = defaultdict(list)
        for launch, item in ends:
            at, _, _, _, event = item
            cycles = {
                key[2]: attempt.first
                for key, attempt in self.events_of.items()
                if key[:2] == (launch, event.attempt)
            }
            begun = [cycle for cycle, first in cycles.items() if first is not None and first <= at]
            cycle = max(begun) if begun else min(cycles, default=0)
            by_key[launch, event.attempt, cycle].append(item)
            group = (launch, event.attempt)
            self._open_ended[group] = max(at, self._open_ended.get(group, at))
        return by_key

    def in_order(self) -> list[AttemptEvents]:
        """Return the attempts, those that have only queued included, in their order."""
        place = {launch: index for index, (_, _, launch) in enumerate(self.launches())}
        return [
            attempt
            for _, attempt in sorted(
                self.events_of.items(), key=lambda pair: (place.get(pair[0][0], -1), pair[0])
            )
        ]


def _launch_order(entry: tuple[int, int, str]) -> tuple[int, int, bool, int, str]:
    first, queued, launch = entry
    digits = launch.isascii() and launch.isdigit()
    late = queued if first == NEVER else 0
    return (first, late, not digits, int(launch) if digits else 0, launch)


def _latest_begun(launches: list[tuple[int, int, str]], instant: int) -> str:
    begun = [launch for first, _, launch in launches if first <= instant]
    return begun[-1] if begun else launches[0][2]


def facts(events: Iterable[tuple[int, JobFacts]]) -> Facts:
    """Return the job's facts; of several ``job`` events, given with their instants, the latest."""
    latest: dict[str, tuple[int, str | int]] = {}
    labels: dict[str, tuple[int, str]] = {}
    for at, event in events:
        for name in _MEMBERS:
            value = getattr(event, name)
            if value is not None:
                latest[name] = max((at, value), latest.get(name, (at, value)))
        for key, text in event.labels.items():
            labels[key] = max((at, text), labels.get(key, (at, text)))
    return Facts(
        **{name: value for name, (_, value) in latest.items()},  # type: ignore[arg-type]
        labels={key: labels[key][1] for key in sorted(labels)},
    )
