"""Spans: what an attempt was doing, and from when to when; stages and their self time."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from ett_service.core.events import Event, PhaseEnded, PhaseStarted
from ett_service.core.intervals import Interval
from ett_service.core.ledger.results import StageSum
from ett_service.core.words import ACTIVITIES, STATIONS, Phase

NEVER = 1 << 62
"""Later than every instant."""

RANK_OF_PHASE = {phase: index for index, phase in enumerate(Phase)}
"""Between spans that began together the higher one owns the instant."""

_CLOSED_BY: dict[Phase, tuple[Phase, ...]] = {
    **{station: (station, *STATIONS[place + 1 :]) for place, station in enumerate(STATIONS)},
    **{activity: (activity, *STATIONS) for activity in ACTIVITIES},
}
"""The phases whose begin ends a span that was left open."""

ENDED_BY_PROGRESS = frozenset(ACTIVITIES) - {Phase.PT2_COMPILE}
"""Spans that were left open; so are compiles, where they lie in a loop."""

Mark = tuple[int, int, str]
"""``(at, step, event id)`` of a ``progress`` or checkpoint; step 0 where there is none."""

EdgeKey = tuple[int | None, Phase, str | None]
StageName = tuple[Phase, str]
K = TypeVar("K", bound=Hashable)


class Closing(NamedTuple):
    """What ends a span that was left open."""

    at: int  #: ``NEVER`` where only the end of its attempt does
    event_id: str | None


class Span:
    """A phase over ``[begin, end)`` as one rank reported it.

    ``own_end`` is an end that was sent. Without one ``limit`` is the earliest instant at which
    another event ends it, ``NEVER`` where only the end of its attempt does.
    """

    __slots__ = ("begin", "event_id", "limit", "limited_by", "own_end", "phase", "rank")

    def __init__(self, phase: Phase, begin: int, own_end: int | None, event_id: str) -> None:
        self.phase = phase
        self.begin = begin
        self.own_end = own_end
        self.event_id = event_id
        self.rank = RANK_OF_PHASE[phase]
        self.limit = NEVER
        self.limited_by: str | None = None  #: id of the event that sets the limit

    @property
    def end(self) -> int:
        """Where it ends, short of the end of its attempt."""
        return self.limit if self.own_end is None else self.own_end


def ownership_order(span: Span) -> tuple[int, int]:
    """Ascending from the loser to the owner of an instant that several spans cover.

    Spans still tied are of one phase and one begin, hence of one category.
    """
    return (span.begin, span.rank)


Closings: TypeAlias = Mapping[Span, Closing]
"""How spans end that were left open, where they end otherwise than by their limit."""


def end_of(span: Span, closings: Closings) -> int:
    """Return where a span ends, short of the end of its attempt."""
    if span.own_end is not None:
        return span.own_end
    closing = closings.get(span)
    return span.limit if closing is None else closing.at


def find_closing(
    span: Span, begins: Mapping[Phase, Sequence[Mark]], progress: Sequence[Mark]
) -> Closing:
    """Find what ends a *span* that was left open: the earliest that is later than its begin."""
    closers = [begins[phase] for phase in _CLOSED_BY[span.phase] if phase in begins]
    closing = Closing(NEVER, None)
    after_begin = (span.begin, NEVER, "")
    for marks in (*closers, progress):
        place = bisect_right(marks, after_begin)
        if place < len(marks) and marks[place][0] < closing.at:
            at, _, event_id = marks[place]
            closing = Closing(at, event_id)
    return closing


class Pairing:
    """Edges to spans, per exact rank, phase and stage, at most one open.

    Edges come in order of their instants, ends before the begins of their instant.
    """

    def __init__(self) -> None:
        self._open: dict[EdgeKey, Span] = {}
        self._begun: dict[EdgeKey, int] = {}
        self._ended: dict[EdgeKey, int] = {}  #: the instant of the latest end
        self._early: dict[EdgeKey, tuple[int, PhaseEnded]] = {}
        self.unmatched: dict[str, tuple[int, PhaseEnded]] = {}  #: ends without begin, by id

    def begin(self, event: PhaseStarted, at: int) -> Span | None:
        """Return the span that begins, None if it is one that began on the same instant."""
        key = _edge_key(event)
        if self._begun.get(key) == at:
            return None
        self._begun[key] = at
        span = Span(event.phase, at, None, event.id)
        early = self._early.pop(key, None)
        if early is not None and early[0] == at:
            span.own_end = at
            self.unmatched.pop(early[1].id, None)
        else:
            self._open[key] = span
        return span

    def end(self, event: PhaseEnded, at: int) -> Span | None:
        """Close and return the span that began last before *at*; None if none is open.

        An end on the instant of another one is the same end, reported twice.
        """
        key = _edge_key(event)
        span = self._open.pop(key, None)
        if span is not None:
            span.own_end = at
        elif self._ended.get(key) != at:
            self.unmatched[event.id] = self._early[key] = (at, event)
        elif self._early.get(key, (None,))[0] != at:
            self._early[key] = (at, event)
        self._ended[key] = at
        return span


def _edge_key(event: PhaseStarted | PhaseEnded) -> EdgeKey:
    return (event.rank, event.phase, event.stage)


def names_queued(event: Event) -> bool:
    """Whether the event is an edge or span of ``queued``."""
    return getattr(event, "phase", None) is Phase.QUEUED


class Staged:
    """The stages that the stream reports, and their sums as long as those stand."""

    def __init__(self) -> None:
        self._spans: list[tuple[str, Span]] = []
        self._of_phase: defaultdict[Phase, list[tuple[str, Span]]] = defaultdict(list)
        self._open = 0
        self._latest_end = -NEVER
        self._changes = 0
        self._summed: tuple[object, tuple[StageSum, ...]] = (None, ())

    def begin(self, stage: str, span: Span) -> None:
        """Take in a stage that began."""
        self._take(stage, span)
        if span.own_end is None:
            self._open += 1
        else:
            self._hear(span.own_end)

    def end(self, at: int) -> None:
        """Take in that a stage that had begun ended *at*."""
        self._open -= 1
        self._hear(at)

    def over(self, stage: str, span: Span) -> None:
        """Take in a stage that is over."""
        self._take(stage, span)
        self._hear(span.end)

    def _take(self, stage: str, span: Span) -> None:
        self._spans.append((stage, span))
        self._of_phase[span.phase].append((stage, span))

    def _hear(self, end: int) -> None:
        self._changes += 1
        self._latest_end = max(self._latest_end, end)

    def sums(
        self, bounds: Interval, phases: Mapping[Phase, Sequence[Span]], closings: Closings
    ) -> tuple[StageSum, ...]:
        """Sum the stages inside the attempt's *bounds*, in the order of phases, then by name."""
        if not self._spans:
            return ()
        start, end = bounds
        # An end beyond all stages cuts none of them; one of length 0 at the end is not inside.
        key = (self._changes, start, min(end, self._latest_end + 1))
        if self._open or self._summed[0] != key:
            self._summed = (key, tuple(_sums(self._spans, bounds, phases, closings)))
        return self._summed[1]

    def innermost(self, phase: Phase, spans: Sequence[Span]) -> list[tuple[int, int, str]]:
        """Return ``(start, end, stage)`` of a phase's innermost stages, disjoint, in order.

        *spans* are those of the phase; one that was left open ends with the one in which it began.
        """
        stages = self._of_phase.get(phase)
        if not stages:
            return []
        placed = sorted(_placed(stages, {phase: spans}, {}), key=_outer_first)
        return [(start, end, stage) for start, end, (_, stage) in innermost(placed)]


def _sums(
    spans: Iterable[tuple[str, Span]],
    bounds: Interval,
    phases: Mapping[Phase, Sequence[Span]],
    closings: Closings,
) -> Iterator[StageSum]:
    placed = []
    for begin, end, key in _placed(spans, phases, closings):
        if begin < bounds[1]:
            start = max(begin, bounds[0])
            placed.append((start, max(start, min(end, bounds[1])), key))
    placed.sort(key=_outer_first)
    inclusive: dict[StageName, list[int]] = {}
    exclusive: dict[StageName, int] = {}
    for begin, end, key in placed:
        inclusive.setdefault(key, []).append(end - begin)
    for key, us in self_times(placed):
        exclusive[key] = exclusive.get(key, 0) + us
    for key in sorted(inclusive, key=lambda key: (RANK_OF_PHASE[key[0]], key[1])):
        lengths = inclusive[key]
        yield StageSum(*key, len(lengths), sum(lengths), exclusive.get(key, 0))


def _placed(
    stages: Iterable[tuple[str, Span]], phases: Mapping[Phase, Sequence[Span]], closings: Closings
) -> Iterator[tuple[int, int, StageName]]:
    for stage, span in stages:
        end = _inferred(span, phases, closings) if span.own_end is None else span.own_end
        yield span.begin, end, (span.phase, stage)


def _outer_first(placed: tuple[int, int, StageName]) -> tuple[int, int, int, str]:
    begin, end, (phase, stage) = placed
    return (begin, RANK_OF_PHASE[phase], -end, stage)


def _inferred(span: Span, phases: Mapping[Phase, Sequence[Span]], closings: Closings) -> int:
    begun = (
        phase_span for phase_span in phases.get(span.phase, ()) if phase_span.begin <= span.begin
    )
    ends = (end_of(phase_span, closings) for phase_span in begun)
    return max((end for end in ends if span.begin < end), default=NEVER)


def self_times(spans: Iterable[tuple[int, int, K]]) -> Iterator[tuple[K, int]]:
    """Yield the time in which each of *spans* was the open one that came last.

    They are ``(begin, end, key)`` in order of their begins, the outer before the inner.
    """
    for start, end, key in innermost(spans):
        yield key, end - start


def innermost(spans: Iterable[tuple[int, int, K]]) -> Iterator[tuple[int, int, K]]:
    """Yield when each of *spans* was the open one that came last: disjoint, in order.

    They are ``(begin, end, key)`` in order of their begins, the outer before the inner.
    """
    stack: list[tuple[int, K]] = []
    at = -NEVER
    ended: tuple[int, int, K | None] = (NEVER, NEVER, None)
    for begin, end, key in (*spans, ended):
        while stack and at < begin:
            top_end, top = stack[-1]
            if top_end <= at:
                stack.pop()
                continue
            until = min(top_end, begin)
            yield at, until, top
            at = until
        at = begin
        if key is not None:
            stack.append((end, key))
