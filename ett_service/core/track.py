"""A track: what one attempt's own events say, before its neighbours are considered."""

from bisect import insort
from collections.abc import Iterable

from ett_service.core.event import (
    AttemptEnded,
    AttemptStarted,
    CheckpointRestored,
    CheckpointSaved,
    Event,
    PhaseEnded,
    PhaseStarted,
    Progress,
    SpanOver,
)
from ett_service.core.span import (
    NEVER,
    Mark,
    Pairing,
    Span,
    names_queued,
    ownership_order,
    set_limit,
)
from ett_service.core.vocabulary import Phase

AttemptKey = tuple[str, int, int]
"""``(launch, attempt, cycle)``"""

Placed = tuple[int, int, Event]
"""``(at, first instant that it names, event)``, by corrected clocks."""

_WORK = (PhaseStarted, PhaseEnded, SpanOver, Progress)


def _in_order(item: Placed) -> tuple[int, bool, str]:
    at, _, event = item
    return (at, type(event) is not PhaseEnded, event.id)


class Track:
    """The events of one attempt as spans, points and signs of life.

    Batches may follow each other as long as their edges and ``progress`` come later than those
    taken in before. ``version`` changes where a batch touched what is not at the open end.
    """

    def __init__(self, key: AttemptKey) -> None:
        self.key = key
        self.lead: int | None = None
        self.first: int | None = None  #: earliest instant outside ``queued``; None: only queued
        self.heard = -NEVER  #: latest instant of any event, whatever the rank
        self.stream_heard = -NEVER
        self.phase_began = NEVER  #: earliest begin of a phase but ``queued``, whatever the rank
        self.spans: list[Span] = []  #: of the stream, in the order of ownership
        self.by_phase: dict[Phase, list[Span]] = {}  #: the same, by phase
        self.loose: list[Span] = []  #: those without an end of their own
        self.clamped: list[Span] = []
        self.pairing = Pairing()
        self.progress: list[Mark] = []
        self.progress_instants = 0
        self.saves: list[Mark] = []
        self.restores: list[Mark] = []
        self.starts: list[tuple[int, AttemptStarted]] = []
        self.ends: list[tuple[int, AttemptEnded]] = []
        self.top_step: int | None = None  #: highest of its ``progress`` and checkpoints
        self.revision = 0  #: changes with every batch
        self.version = 0
        self.settled = -NEVER  #: what is painted before it stands, unless ``version`` changes
        self._begins: dict[Phase, list[Mark]] = {}
        self._edge = -NEVER  #: no edge and no progress at or before it can be taken in any more
        self._closed = 0  #: the revision that the limits of the loose spans are true of
        self._ranks: set[int] = set()

    def add(self, items: Iterable[Placed]) -> bool:
        """Take in a batch; False if it cannot follow what was taken in before."""
        items = sorted(items, key=_in_order)
        self.revision += 1
        if not self._lead_holds(items):
            return False
        edge = self._edge
        for item in items:
            at, _, event = item
            self._hear(item)
            if event.rank is not None and event.rank != self.lead:
                if type(event) is AttemptEnded:
                    self.ends.append((at, event))
                continue
            if at > self.stream_heard:
                self.stream_heard = at
            if isinstance(event, (PhaseStarted, PhaseEnded, Progress)):
                if at <= edge:
                    return False
                self._edge = at
            self._take(at, event)
        return True

    def _lead_holds(self, items: list[Placed]) -> bool:
        ranked = [event for _, _, event in items if event.rank is not None]
        working = {event.rank for event in ranked if isinstance(event, _WORK)} - {None, self.lead}
        is_first = not self._ranks
        self._ranks.update(event.rank for event in ranked if event.rank is not None)
        lowest = min((rank for rank in working if rank is not None), default=self.lead)
        if lowest is None or (self.lead is not None and lowest >= self.lead):
            return True
        self.lead = lowest
        return is_first

    def _hear(self, item: Placed) -> None:
        at, first, event = item
        if at > self.heard:
            self.heard = at
        if names_queued(event):
            return
        if self.first is None or first < self.first:
            self.first = first
        began = isinstance(event, (PhaseStarted, SpanOver)) and event.stage is None
        if began and first < self.phase_began:
            self.phase_began = first

    def _take(self, at: int, event: Event) -> None:
        match event:
            case Progress():
                self._progress(at, event)
            case PhaseStarted():
                self._begin_phase(at, event)
            case PhaseEnded():
                self._end_phase(at, event)
            case SpanOver():
                self._span(at, event)
            case CheckpointSaved():
                insort(self.saves, (at, event.step, event.id))
                self._raise_top(event.step)
            case _:
                self._take_rare(at, event)

    def _take_rare(self, at: int, event: Event) -> None:
        match event:
            case CheckpointRestored():
                insort(self.restores, (at, event.step, event.id))
                self.version += 1
            case AttemptStarted():
                self.starts.append((at, event))
            case AttemptEnded():
                self.ends.append((at, event))
            case _:
                pass

    def _progress(self, at: int, event: Progress) -> None:
        if not self.progress:
            self.version += 1
            self.progress_instants = 1
        elif self.progress[-1][0] != at:
            self.progress_instants += 1
        insort(self.progress, (at, event.step, event.id))
        self._raise_top(event.step)

    def _raise_top(self, step: int) -> None:
        if self.top_step is None or step > self.top_step:
            self.top_step = step

    def _begin_phase(self, at: int, event: PhaseStarted) -> None:
        span = self.pairing.begin(event, at)
        if span is not None and event.stage is None:
            self._place(span)

    def _end_phase(self, at: int, event: PhaseEnded) -> None:
        span = self.pairing.end(event, at)
        if span is not None and event.stage is None:
            self.loose.remove(span)
            if span.limit <= self.settled:
                self.version += 1

    def _span(self, at: int, event: SpanOver) -> None:
        if event.stage is not None:
            return
        begin = at - event.at + event.start
        span = Span(event.phase, min(begin, at), at, event.id)
        if begin > at:
            self.clamped.append(span)
        self._place(span)

    def _place(self, span: Span) -> None:
        if span.begin < self.settled:
            self.version += 1
        insort(self.spans, span, key=ownership_order)
        insort(self._begins.setdefault(span.phase, []), (span.begin, 0, span.event_id))
        if span.own_end is None:
            self.loose.append(span)
        insort(self.by_phase.setdefault(span.phase, []), span, key=ownership_order)

    def close_loose(self) -> None:
        """Bring the limits of the spans without an end of their own up to date."""
        if self._closed == self.revision:
            return
        self._closed = self.revision
        for span in self.loose:
            if span.phase is not Phase.PT2_COMPILE:
                set_limit(span, self._begins, self.progress, in_loop=False)
        for span in self.loose:
            if span.phase is Phase.PT2_COMPILE:
                loops = self.by_phase.get(Phase.TRAIN_LOOP, [])
                in_loop = any(loop.covers(span.begin) for loop in loops)
                set_limit(span, self._begins, self.progress, in_loop=in_loop)
