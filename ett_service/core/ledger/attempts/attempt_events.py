"""Attempt events: one attempt's own events, before its neighbours are considered."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

from ett_service.core.events import (
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
from ett_service.core.intervals import HOUR_US, Interval
from ett_service.core.ledger.attempts.spans import (
    ENDED_BY_PROGRESS,
    NEVER,
    Closing,
    Mark,
    Pairing,
    Span,
    Staged,
    find_closing,
    names_queued,
    ownership_order,
)
from ett_service.core.ledger.results import Work
from ett_service.core.words import HookState, Phase

AttemptIdentity = tuple[str, int, int]
"""``(launch, attempt, cycle)``"""

Placed = tuple[int, bool, str, int, Event]
"""``(at, whether it is no end, id, first instant that it names, event)``, by corrected clocks.

They sort by instant, ends before the rest of their instant.
"""

_WORK = frozenset({PhaseStarted, PhaseEnded, SpanOver, Progress})
_EDGES = frozenset({PhaseStarted, PhaseEnded, Progress})
_BEGINS = frozenset({PhaseStarted, SpanOver})


TERA = 10**12
MOST_TERAFLOPS = 2**53


class WorkHours:
    """The highest totals that one attempt reported, by hour."""

    def __init__(self) -> None:
        self.highest: dict[int, Work] = {}
        self.tokens: dict[str, int] = {}  #: as reported, by event

    def add(self, at: int, event: Progress) -> None:
        """Take in what *event*, which happened *at*, reports."""
        if event.samples is None and event.tokens is None and event.flops is None:
            return
        if event.tokens is not None:
            self.tokens[event.id] = event.tokens
        hour = at - at % HOUR_US
        before = self.highest.get(hour, Work())
        teraflops = min(MOST_TERAFLOPS, int(event.flops or 0) // TERA)
        reported = Work(event.samples or 0, event.tokens or 0, teraflops)
        self.highest[hour] = Work(*map(max, before, reported))


MOST_HOOKS = 64
"""Hooks of an attempt that are reported; no client has as many."""

_MOST_SECONDS = 1e9
_LONGEST_HOOK = 100
_HOOK_STATES = tuple(HookState)
_CACHE_STATES = frozenset({"cold", "warm", "mixed", "disabled"})


class Attributes:
    """What senders report of themselves in the attributes of their events.

    Running totals of one process only grow, and so do the states of hooks: the largest is the
    latest, whatever the order of arrival.
    """

    def __init__(self) -> None:
        self.data_wait_us: int | None = None  #: of the stream
        self.data_wait_at = -NEVER  #: the latest instant at which the stream reported it
        self.telemetry_us: int | None = None
        self._hooks: dict[str, int] = {}
        self._caches: set[str] = set()

    def add(self, attributes: Mapping[str, object]) -> None:
        """Take in what an event of any rank reports."""
        cost_us = reported_us(attributes.get("telemetry_seconds"))
        if cost_us is not None:
            self.telemetry_us = max(cost_us, self.telemetry_us or 0)
        cache = attributes.get("compile_cache")
        if isinstance(cache, str) and cache in _CACHE_STATES:
            self._caches.add(cache)
        hooks = attributes.get("hooks")
        if isinstance(hooks, Mapping):
            source = attributes.get("source")
            self._add_hooks(hooks, f"{source}." if isinstance(source, str) else "")

    def add_of_stream(self, at: int, attributes: Mapping[str, object]) -> None:
        """Take in what only the stream's events say, of one that happened *at*."""
        waited_us = reported_us(attributes.get("data_wait_seconds"))
        if waited_us is not None:
            self.data_wait_us = max(waited_us, self.data_wait_us or 0)
            self.data_wait_at = max(at, self.data_wait_at)

    def _add_hooks(self, hooks: Mapping[object, object], prefix: str) -> None:
        for hook, state in hooks.items():
            name = f"{prefix}{hook}"
            if isinstance(state, str) and state in _HOOK_STATES and len(name) <= _LONGEST_HOOK:
                place = _HOOK_STATES.index(HookState(state))
                self._hooks[name] = max(place, self._hooks.get(name, 0))

    @property
    def compile_cache(self) -> str | None:
        """What compiles found in their caches, ``mixed`` where they differ; None if untold."""
        return "mixed" if len(self._caches) > 1 else next(iter(self._caches), None)

    @property
    def hooks(self) -> dict[str, HookState]:
        """The state of each hook by name, the first ``MOST_HOOKS`` of them."""
        names = sorted(self._hooks)[:MOST_HOOKS]
        return {name: _HOOK_STATES[self._hooks[name]] for name in names}


def reported_us(seconds: object) -> int | None:
    """Return what an attribute, which may be anything, gives in microseconds; None if nothing."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 0:
        return None
    return round(min(seconds, _MOST_SECONDS) * 1_000_000)


class ProgressInstants:
    """How many distinct instants of progress there are, and where steps fell between two."""

    def __init__(self) -> None:
        self.count = 0
        self.falls: list[Interval] = []
        self._marks = 0

    def follow(self, progress: Sequence[Mark]) -> None:
        """Take in the marks that came since; their instants are later than those before."""
        if progress and not self._marks:
            self.count = 1
        for before, after in pairwise(progress[max(0, self._marks - 1) :]):
            self.count += before[0] != after[0]
            if after[1] < before[1]:
                self.falls.append((before[0], after[0]))
        self._marks = len(progress)


class AttemptEvents:
    """The events of one attempt as spans, points and signs of life.

    Batches may follow each other as long as their edges and ``progress`` come later than those
    taken in before.
    """

    def __init__(self, key: AttemptIdentity) -> None:
        self.key = key
        self.lead: int | None = None
        self.first: int | None = None  #: earliest instant outside ``queued``; None: only queued
        self.sign_at = NEVER  #: earliest instant of any event, ``queued`` or not
        self.heard = -NEVER  #: latest instant of any event, whatever the rank
        self.stream_heard = -NEVER  #: latest instant of the stream's events
        self.phase_began = NEVER  #: earliest begin of a phase but ``queued``, whatever the rank
        self.spans: list[Span] = []  #: of the stream, in the order of ownership
        self.by_phase: dict[Phase, list[Span]] = {}  #: the same, by phase
        self.loose: dict[Span, None] = {}  #: those without an end of their own, as they began
        self.in_loop: dict[Span, Closing] = {}
        """What ends loose compiles, if they lie in a loop that the attempt owns."""
        self.clamped: list[Span] = []  #: in order of their instants, then by event
        self.pairing = Pairing()
        self.progress: list[Mark] = []
        self.progress_instants = ProgressInstants()
        self.saves: list[Mark] = []
        self.saved: dict[str, CheckpointSaved] = {}  #: the same, by id
        self.work = WorkHours()
        self.attributes = Attributes()
        self.staged = Staged()
        self.restores: list[Mark] = []
        self.starts: list[tuple[int, AttemptStarted]] = []
        self.ends: list[tuple[int, AttemptEnded]] = []
        self.top_step: int | None = None  #: highest of its ``progress`` and checkpoints
        self.revision = 0  #: changes with every batch
        self.version = 0  #: changes when a batch changes what lies left of the open end
        self._begins: dict[Phase, list[Mark]] = {}
        #: No edge and no progress at or before ``_edge`` can be taken in any more.
        self._edge = self._settled = -NEVER
        #: Whether the last batch held whole spans, and whether any event named a rank.
        self._spans_came = self._ranked = False

    def add(self, items: Iterable[Placed], settled: int = -NEVER) -> bool:
        """Take in a batch; False if it cannot follow what was taken in before.

        What lies before the instant *settled* stays as it is, unless ``version`` changes.
        """
        items = sorted(items)
        self.revision += 1
        self._settled = settled
        self._spans_came = False
        self.hear(items)
        self.heard = max(self.heard, items[-1][0])
        if not self._lead_holds(items):
            return False
        self._take_attributes(items)
        edge, takers = self._edge, self._TAKERS
        for at, _, _, _, event in items:
            kind = type(event)
            if event.rank is not None and event.rank != self.lead:
                if kind is AttemptEnded:
                    takers[kind](self, at, event)
                continue
            if at > self.stream_heard:
                self.stream_heard = at
            if kind in _EDGES:
                self._edge = at
            if kind in takers:
                takers[kind](self, at, event)
        self._close_loose(edge)
        self.progress_instants.follow(self.progress)
        return self._edge_holds(items, edge)

    def _edge_holds(self, items: list[Placed], edge: int) -> bool:
        """Whether no edge of the stream came at or before those taken in before."""
        for at, _, _, _, event in items:
            if at > edge:
                return True
            if type(event) in _EDGES and (event.rank is None or event.rank == self.lead):
                return False
        return True

    def _lead_holds(self, items: list[Placed]) -> bool:
        """Find the lead rank; False if it turns out to be another one than before."""
        before = lowest = NEVER if self.lead is None else self.lead
        was_ranked = self._ranked
        for _, _, _, _, event in items:
            rank = event.rank
            if rank is not None:
                self._ranked = True
                if rank < lowest and type(event) in _WORK:
                    lowest = rank
        if lowest == before:
            return True
        self.lead = lowest
        return not was_ranked

    def hear(self, items: Iterable[Placed]) -> None:
        """Take in when the attempt began, as far as a batch tells, whatever the rank."""
        earliest = NEVER if self.first is None else self.first
        sign = self.sign_at
        for _, _, _, first, event in items:
            if first < sign:
                sign = first
            if first < earliest and not names_queued(event):
                earliest = first
            if first < self.phase_began and type(event) in _BEGINS:
                self._hear_begin(first, event)
        self.sign_at = sign
        self.first = None if earliest == NEVER else earliest

    def _hear_begin(self, first: int, event: Any) -> None:
        if event.stage is None and event.phase is not Phase.QUEUED:
            self.phase_began = first

    def _take_attributes(self, items: list[Placed]) -> None:
        for at, _, _, _, event in items:
            if event.attributes:
                self.attributes.add(event.attributes)
                if event.rank is None or event.rank == self.lead:
                    self.attributes.add_of_stream(at, event.attributes)

    def _take_progress(self, at: int, event: Progress) -> None:
        if not self.progress:
            self.version += 1
        mark = (at, event.step, event.id)
        if self.progress and mark < self.progress[-1]:
            insort(self.progress, mark)
        else:
            self.progress.append(mark)
        self._raise_top(event.step)
        self.work.add(at, event)

    def _take_save(self, at: int, event: CheckpointSaved) -> None:
        insort(self.saves, (at, event.step, event.id))
        self.saved[event.id] = event
        self._raise_top(event.step)

    def _raise_top(self, step: int) -> None:
        if self.top_step is None or step > self.top_step:
            self.top_step = step

    def _take_restore(self, at: int, event: CheckpointRestored) -> None:
        insort(self.restores, (at, event.step, event.id))
        self.version += 1

    def steps_went_back(self) -> list[Interval]:
        """Return where steps fell with no ``checkpoint_restored`` in between."""
        return [
            (begin, end)
            for begin, end in self.progress_instants.falls
            if bisect_left(self.restores, (begin,)) == bisect_left(self.restores, (end,))
        ]

    def _take_start(self, at: int, event: AttemptStarted) -> None:
        self.starts.append((at, event))

    def _take_end(self, at: int, event: AttemptEnded) -> None:
        self.ends.append((at, event))

    def _begin_phase(self, at: int, event: PhaseStarted) -> None:
        span = self.pairing.begin(event, at)
        if span is None:
            return
        if event.stage is None:
            self._place(span)
        else:
            self.staged.begin(event.stage, span)

    def _end_phase(self, at: int, event: PhaseEnded) -> None:
        span = self.pairing.end(event, at)
        if span is None:
            return
        if event.stage is not None:
            self.staged.end(at)
            return
        del self.loose[span]
        in_loop = self.in_loop.pop(span, None)
        ended_at = span.limit if in_loop is None else min(span.limit, in_loop.at)
        if ended_at <= self._settled:
            self.version += 1

    def _take_span(self, at: int, event: SpanOver) -> None:
        self._spans_came = True
        begin = at - event.at + event.start
        span = Span(event.phase, min(begin, at), at, event.id)
        if event.stage is not None:
            self.staged.over(event.stage, span)
            return
        if begin > at:
            insort(self.clamped, span, key=_by_event)
        self._place(span)

    def _place(self, span: Span) -> None:
        if span.begin < self._settled:
            self.version += 1
        _insert(self.spans, span)
        insort(self._begins.setdefault(span.phase, []), (span.begin, 0, span.event_id))
        if span.own_end is None:
            self.loose[span] = None
        _insert(self.by_phase.setdefault(span.phase, []), span)

    def _close_loose(self, edge: int) -> None:
        """Bring the limits of the spans without an end of their own up to date.

        Those up to *edge*, the last edge before this batch, stand: what ends a span comes later,
        unless it is the begin of a whole span.
        """
        stand = -NEVER if self._spans_came else edge
        for span in self.loose:
            if span.limit > stand:
                progress = self.progress if span.phase in ENDED_BY_PROGRESS else ()
                span.limit, span.limited_by = find_closing(span, self._begins, progress)
            if span.phase is Phase.PT2_COMPILE:
                closing = self.in_loop.get(span)
                if closing is None or closing.at > stand:
                    self.in_loop[span] = find_closing(span, self._begins, self.progress)

    _TAKERS: ClassVar[Mapping[type[Event], Callable[["AttemptEvents", int, Any], None]]] = {
        Progress: _take_progress,
        PhaseStarted: _begin_phase,
        PhaseEnded: _end_phase,
        SpanOver: _take_span,
        CheckpointSaved: _take_save,
        CheckpointRestored: _take_restore,
        AttemptStarted: _take_start,
        AttemptEnded: _take_end,
    }


def _by_event(span: Span) -> tuple[int, str]:
    return (span.begin, span.event_id)


def _insert(spans: list[Span], span: Span) -> None:
    if spans and spans[-1].begin >= span.begin:
        insort(spans, span, key=ownership_order)
    else:
        spans.append(span)
