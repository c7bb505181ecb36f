"""Ownership: which span owns each instant of an attempt, and which loop time was repeated."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from ett_service.core.intervals import Interval
from ett_service.core.ledger.attempts.spans import NEVER, Closings, Mark, Span, end_of
from ett_service.core.words import CATEGORIES_OF, Category, Phase

Piece = tuple[int, int, Category, int]
"""``(start, end, category, zone)``: a segment whose period the job decides, by its zone."""

ZONES_A_WINDOW = 4
"""Before the allocation, before the loops, loops and what lies between them, after them."""

_ANCHOR_EVERY = 16
_LEFT_LOOSE = 4

_PLAIN = {
    phase: categories[0] for phase, categories in CATEGORIES_OF.items() if len(categories) == 1
} | {Phase.QUEUED: Category.RESTART_WAIT}


@dataclass(slots=True)
class OwnershipInputs:
    """What decides who owns an attempt's time, beyond its spans."""

    windows: Sequence[Interval]  #: where the attempt owns the time
    loops: Sequence[Interval]
    zones: Sequence[tuple[int, int]]  #: ``(end, zone)`` in order, the last ends with the windows
    repeats: Sequence[Interval]
    repeat_budget_us: int  #: loop time that counts as repeated where no step is reported
    stalled_from: int  #: the silent tail begins here
    first_progress: int | None
    settled_to: int  #: no later event of the attempt changes what was repeated before it
    closings: Closings = field(default_factory=dict)


@dataclass(slots=True)
class _Anchor:
    index: int
    at: int
    stack: list[Span]
    pieces: int
    last_piece: Piece | None
    totals: dict[tuple[Category, int, Phase | None], int]
    loop_pieces: int
    holes: int
    loop_us: int


class Ownership:
    """Who owns which instant of one attempt; see :meth:`assign`.

    An anchor is a point from which :meth:`assign` goes on, so that a long attempt that grows at
    its end is not assigned from the start each time.
    """

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.totals: dict[tuple[Category, int, Phase | None], int] = {}
        self.loop_pieces: list[Interval] = []  #: the time that ``train_loop`` spans own
        self.holes: list[Interval] = []  #: the time that no span owns
        self.loop_us = 0
        self.unchanged = 0  #: how many pieces the last :meth:`assign` left as they were
        self._anchor: _Anchor | None = None
        self._stack: list[Span] = []
        self._inputs: OwnershipInputs
        self._zone = 0
        self._repeat = 0

    @property
    def silent_tail_us(self) -> int:
        """Loop time that was a silent tail, in microseconds."""
        return sum(
            us
            for (category, _, phase), us in self.totals.items()
            if category is Category.STALLED and phase is Phase.TRAIN_LOOP
        )

    @property
    def repeated_us(self) -> int:
        """All repeated time, in microseconds."""
        return sum(
            us
            for (category, _, _), us in self.totals.items()
            if category is Category.REPEATED_TRAINING
        )

    @property
    def anchored_at(self) -> int:
        """The instant of the anchor; an event that names an earlier one needs a new start."""
        return -NEVER if self._anchor is None else self._anchor.at

    @property
    def stands_until(self) -> int:
        """The instant before which the next :meth:`assign` leaves every piece as it is."""
        if self._anchor is None or self._anchor.last_piece is None:
            return -NEVER
        return self._anchor.last_piece[0]

    def assign(self, spans: Sequence[Span], inputs: OwnershipInputs) -> None:
        """Assign the time to *spans*, which come in the order of ownership, from the anchor on."""
        self._inputs = inputs
        at, index = self._resume(inputs)
        self._zone = bisect_right(inputs.zones, at, key=lambda zone: zone[0])
        self._repeat = bisect_right(inputs.repeats, at, key=lambda repeat: repeat[1])
        stack = self._stack
        stop = inputs.windows[-1][1]
        count = len(spans)
        may_anchor = len(inputs.windows) == 1
        while index < count:
            span = spans[index]
            if span.begin >= stop:
                break
            if span.begin > at:
                self._assign_until(at, span.begin)
                at = span.begin
            if may_anchor and self._is_anchor(index, at, count):
                self._set_anchor(index, at)
            stack.append(span)
            index += 1
        self._assign_until(at, stop)

    def _resume(self, inputs: OwnershipInputs) -> tuple[int, int]:
        anchor = self._anchor
        if anchor is None:
            self.pieces, self.totals, self._stack = [], {}, []
            self.loop_pieces, self.holes = [], []
            self.loop_us = self.unchanged = 0
            return inputs.windows[0][0], 0
        del self.pieces[anchor.pieces :]
        self.unchanged = max(0, anchor.pieces - 1)
        if anchor.last_piece is not None:
            self.pieces[-1] = anchor.last_piece
        del self.loop_pieces[anchor.loop_pieces :]
        del self.holes[anchor.holes :]
        self.totals = dict(anchor.totals)
        self.loop_us = anchor.loop_us
        self._stack = list(anchor.stack)
        return anchor.at, anchor.index

    def _is_anchor(self, index: int, at: int, count: int) -> bool:
        last = 0 if self._anchor is None else self._anchor.index
        return (
            index - last >= _ANCHOR_EVERY
            and index <= count - _LEFT_LOOSE
            and at <= self._inputs.settled_to
            and any(span.phase is Phase.TRAIN_LOOP and span.end > at for span in self._stack)
        )

    def _set_anchor(self, index: int, at: int) -> None:
        self._anchor = _Anchor(
            index=index,
            at=at,
            stack=[span for span in self._stack if end_of(span, self._inputs.closings) > at],
            pieces=len(self.pieces),
            last_piece=self.pieces[-1] if self.pieces else None,
            totals=dict(self.totals),
            loop_pieces=len(self.loop_pieces),
            holes=len(self.holes),
            loop_us=self.loop_us,
        )

    def _assign_until(self, at: int, stop: int) -> None:
        """Assign ``[at, stop)`` to the open spans, the one on top first."""
        stack, closings = self._stack, self._inputs.closings
        assign = self._assign if len(self._inputs.windows) == 1 else self._assign_clipped
        while at < stop:
            while stack and end_of(stack[-1], closings) <= at:
                stack.pop()
            if not stack:
                assign(at, stop, None)
                return
            top = stack[-1]
            end = min(end_of(top, closings), stop)
            assign(at, end, top)
            at = end

    def _assign_clipped(self, start: int, end: int, span: Span | None) -> None:
        for opens, closes in self._inputs.windows:
            self._assign(max(start, opens), min(end, closes), span)

    def _assign(self, start: int, end: int, span: Span | None) -> None:
        zones = self._inputs.zones
        while start < end:
            while zones[self._zone][0] <= start:
                self._zone += 1
            zone_end, zone = zones[self._zone]
            stop = min(end, zone_end)
            if span is not None and span.phase is Phase.TRAIN_LOOP:
                self._assign_loop(start, stop, zone)
            elif span is None:
                self.holes.append((start, stop))
                self._add(start, stop, Category.UNATTRIBUTED, zone, None)
            else:
                self._add(start, stop, self._category(span), zone, span.phase)
            start = stop

    def _category(self, span: Span) -> Category:
        if span.phase is not Phase.PT2_COMPILE:
            return _PLAIN[span.phase]
        inputs = self._inputs
        if inputs.first_progress is None or not inputs.loops or span.begin < inputs.loops[0][0]:
            return Category.PT2_COMPILE
        in_first_loop = span.begin < inputs.loops[0][1]
        if in_first_loop and span.begin < inputs.first_progress:
            return Category.PT2_COMPILE
        return Category.RECOMPILE

    def _assign_loop(self, start: int, end: int, zone: int) -> None:
        """Split loop time: the silent tail first, then what was repeated."""
        self.loop_pieces.append((start, end))
        inputs = self._inputs
        live_end = min(end, max(start, inputs.stalled_from))
        again = min(live_end - start, max(0, inputs.repeat_budget_us - self.loop_us))
        self.loop_us += end - start
        if again:
            self._add(start, start + again, Category.REPEATED_TRAINING, zone, Phase.TRAIN_LOOP)
        self._assign_steps(start + again, live_end, zone)
        if live_end < end:
            self._add(live_end, end, Category.STALLED, zone, Phase.TRAIN_LOOP)

    def _assign_steps(self, start: int, end: int, zone: int) -> None:
        repeats = self._inputs.repeats
        while start < end:
            while self._repeat < len(repeats) and repeats[self._repeat][1] <= start:
                self._repeat += 1
            since, until = repeats[self._repeat] if self._repeat < len(repeats) else (NEVER, NEVER)
            if start < since:
                stop, category = min(end, since), Category.EFFECTIVE_TRAINING
            else:
                stop, category = min(end, until), Category.REPEATED_TRAINING
            self._add(start, stop, category, zone, Phase.TRAIN_LOOP)
            start = stop

    def _add(
        self, start: int, end: int, category: Category, zone: int, phase: Phase | None
    ) -> None:
        key = (category, zone, phase)
        totals = self.totals
        totals[key] = totals.get(key, 0) + end - start
        pieces = self.pieces
        if pieces:
            last = pieces[-1]
            if last[1] == start and last[2] is category and last[3] == zone:
                pieces[-1] = (last[0], end, category, zone)
                return
        pieces.append((start, end, category, zone))


class RepeatedTraining:
    """The intervals of one attempt in which its steps lay below the job's mark.

    Points come in order. ``base`` is the highest step of earlier attempts, None where they
    have none; without a base an attempt can repeat only itself.
    """

    def __init__(self, base: int | None) -> None:
        self._base = base
        self._mark = base  #: the highest step up to and including the last point
        self._at: int | None = None
        self._step = 0
        self.intervals: list[Interval] = []

    def add(self, at: int, step: int, *, restored: bool) -> None:
        """Take in the next point: a ``progress``, or where training goes on from."""
        at_mark = self._mark is not None and self._step >= self._mark
        if at_mark and self._at is not None and self._mark is not None and step >= self._mark:
            pass
        elif self._at is None:
            if self._base is not None:
                self._repeat(-NEVER, at)
        elif self._mark is not None:
            self._repeat(self._at, self._reached(at, step, restored=restored))
        self._at, self._step = at, step
        if not restored:
            self._mark = step if self._mark is None else max(self._mark, step)

    def _reached(self, at: int, step: int, *, restored: bool) -> int:
        """Return the instant up to which the time since the last point is repeated."""
        assert self._at is not None
        assert self._mark is not None
        if self._step >= self._mark:
            return at if not restored and step < self._mark else self._at
        if restored or step < self._mark:
            return at
        return self._at + (at - self._at) * (self._mark - self._step) // (step - self._step)

    def _repeat(self, start: int, end: int) -> None:
        if end <= start:
            return
        if self.intervals and self.intervals[-1][1] == start:
            start = self.intervals.pop()[0]
        self.intervals.append((start, end))

    def last_at(self) -> int:
        """Return the instant of the last point: later points change nothing before it."""
        return -NEVER if self._at is None else self._at

    def with_tail(self) -> list[Interval]:
        """Return the intervals, with what follows the last point if it lies below the mark."""
        if self._at is None or self._mark is None or self._step >= self._mark:
            return self.intervals
        return [*self.intervals, (self._at, NEVER)]


def points(
    progress: Sequence[Mark],
    restores: Sequence[Mark],
    implied: tuple[int, int] | None,
    loops: Sequence[Interval],
) -> list[tuple[int, int, int, bool, int]]:
    """Return ``(instant, 1 unless implied, own instant, whether restored, step)``, in order.

    A restore outside a loop counts at the start of the attempt's next loop, else nowhere.
    """
    unsorted = [(at, 1, at, False, step) for at, step, _ in progress]
    starts = [start for start, _ in loops]
    for at, step, _ in restores:
        place = bisect_right(starts, at)
        if place and at < loops[place - 1][1]:
            unsorted.append((at, 1, at, True, step))
        elif place < len(loops):
            unsorted.append((starts[place], 1, at, True, step))
    if implied is not None:
        unsorted.append((implied[0], 0, implied[0], True, implied[1]))
    return sorted(unsorted)
