"""One attempt's segments among those of the others; only what changed is cut again."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from ett_service.core.intervals import Interval, merged, outside
from ett_service.core.ledger.attempts.attempt_events import AttemptEvents
from ett_service.core.ledger.attempts.lifetimes import Lifetime
from ett_service.core.ledger.attempts.spans import NEVER, Closing, Closings, Mark, Span
from ett_service.core.ledger.ownership import (
    ZONES_A_WINDOW,
    Ownership,
    OwnershipInputs,
    RepeatedTraining,
    points,
)
from ett_service.core.ledger.results import Segment
from ett_service.core.ledger.speed import SpeedWindows
from ett_service.core.words import Basis, Outcome, Period, Phase

_FEWEST_INSTANTS = 3
"""Distinct ``progress`` instants from which a mean gap is taken."""


@dataclass(frozen=True, slots=True)
class LoopRange:
    """From the first to the last loop of an attempt inside one of its windows."""

    start: int
    end: int
    number: int
    window: int


@dataclass(slots=True)
class OwnedLoops:
    """An attempt's part of the job: where it owns the time, and its loops there."""

    life: Lifetime
    windows: list[Interval]
    loops: list[Interval]
    loop_ranges: list[LoopRange]
    closings: Closings

    def closing(self, span: Span) -> Closing:
        """Return what ends a span that was left open."""
        return self.closings.get(span) or Closing(span.limit, span.limited_by)


def owned_windows(lives: Sequence[Lifetime]) -> list[list[Interval]]:
    """Return where each attempt owns the time: of those alive the latest in the order does."""
    taken: list[Interval] = []
    windows: list[list[Interval]] = []
    for life in reversed(lives):
        alive = (life.begin, life.end)
        if taken and life.end > taken[0][0]:
            windows.append(outside(alive, taken))
            taken = merged([*taken, alive])
        else:
            windows.append(outside(alive, []))
            taken = [*windows[-1], *taken]
    return windows[::-1]


def owned_loops(life: Lifetime, windows: list[Interval]) -> OwnedLoops:
    """Find the loops of an attempt, as far as it owns them, and their range in each window.

    With the loops known, so are the ends of compiles that were left open.
    """
    spans = life.events.by_phase.get(Phase.TRAIN_LOOP, ())
    covered = merged([(span.begin, min(span.end, life.end)) for span in spans])
    loops: list[Interval] = []
    loop_ranges = []
    for index, (opens, closes) in enumerate(windows):
        inside = [
            (max(start, opens), min(end, closes))
            for start, end in covered
            if start < closes and end > opens
        ]
        if inside:
            loop_ranges.append(LoopRange(inside[0][0], inside[-1][1], life.number, index))
            loops += inside
    return OwnedLoops(life, windows, loops, loop_ranges, closings_inside(life.events, loops))


def closings_inside(attempt: AttemptEvents, loops: Sequence[Interval]) -> Closings:
    """Return what ends the attempt's loose compiles inside these *loops*."""
    return {
        span: closing
        for span, closing in attempt.in_loop.items()
        if any(start <= span.begin < end for start, end in loops)
    }


def _zones(owned: OwnedLoops, allocated_at: int) -> list[tuple[int, int]]:
    range_of = {loop_range.window: loop_range for loop_range in owned.loop_ranges}
    zones = []
    for index, (opens, closes) in enumerate(owned.windows):
        base = index * ZONES_A_WINDOW
        loop_range = range_of.get(index)
        started = closes if loop_range is None else loop_range.start
        ended = closes if loop_range is None else loop_range.end
        edges = (min(allocated_at, started), started, ended, closes)
        for step, end in enumerate(edges):
            if end > opens:
                zones.append((end, base + step))
    return zones


def silent_from(life: Lifetime) -> int:
    """Return from when loop time is a silent tail; ``NEVER`` where there is none.

    That is twice the mean gap between progress instants after the last of them, unless the
    attempt completed or its last ``train_loop`` span was ended in time.
    """
    events = life.events
    loops = [span for span in events.by_phase.get(Phase.TRAIN_LOOP, ()) if span.begin < life.end]
    if (
        life.outcome is Outcome.COMPLETED
        or events.progress_instants.count < _FEWEST_INSTANTS
        or not loops
    ):
        return NEVER
    last = max(loops, key=lambda span: (span.begin, span.end, span.own_end is not None))
    if last.own_end is not None and last.own_end <= life.end:
        return NEVER
    first_at, last_at = events.progress[0][0], events.progress[-1][0]
    return last_at + 2 * (last_at - first_at) // (events.progress_instants.count - 1)


class EarlierAttempts:
    """What the earlier attempts of a run leave behind for the next one."""

    def __init__(self) -> None:
        self.attempts: list[AttemptEvents] = []
        self.ownerships: list[Ownership] = []
        self.top_step: int | None = None
        self.has_saves = False
        self.version = 0  #: a hash: differs with every change of what earlier attempts left behind

    def add(self, attempt: AttemptEvents, ownership: Ownership, edition: int) -> None:
        """Add an attempt; *edition* is that of its *ownership*."""
        self.version = hash((self.version, attempt.key, attempt.revision, edition))
        self.attempts.append(attempt)
        self.ownerships.append(ownership)
        self.has_saves = self.has_saves or bool(attempt.saves)
        if attempt.top_step is not None:
            top = attempt.top_step
            self.top_step = top if self.top_step is None else max(top, self.top_step)

    def last_save(self, until: int) -> tuple[int, int] | None:
        """Return ``(at, step)`` of the last checkpoint saved up to *until*, None without one."""
        last = None
        for attempt in self.attempts:
            place = bisect_right(attempt.saves, (until, NEVER, ""))
            if place and (last is None or attempt.saves[place - 1][:2] > last):
                last = attempt.saves[place - 1][:2]
        return last

    def loop_us_after(self, at: int) -> int:
        """Return the loop time of earlier attempts after *at*, in microseconds."""
        total = 0
        for ownership in self.ownerships:
            for start, end in reversed(ownership.loop_pieces):
                if end <= at:
                    break
                total += end - max(start, at)
        return total


def basis(attempt: AttemptEvents, earlier: EarlierAttempts) -> Basis:
    """Return what the attempt's repeated training is derived from."""
    if attempt.progress:
        return Basis.STEPS
    if earlier.has_saves:
        return Basis.CHECKPOINTS
    return Basis.NONE


def implied_restore(owned: OwnedLoops, earlier: EarlierAttempts) -> tuple[int, int] | None:
    """Return where and from which step a later attempt goes on that reports no restore."""
    events = owned.life.events
    if not earlier.attempts or not owned.loops:
        return None
    first_progress = events.progress[0][0]
    if events.restores and events.restores[0][0] < first_progress:
        return None
    start = owned.loops[0][0]
    saved = earlier.last_save(start)
    return None if saved is None else (start, saved[1])


def ownership_inputs(
    owned: OwnedLoops,
    earlier: EarlierAttempts,
    allocated_at: int,
    repeated: RepeatedTraining | None,
) -> OwnershipInputs:
    """Gather what decides who owns the attempt's time; *repeated* is None without any step."""
    events = owned.life.events
    budget = 0
    if repeated is None and basis(events, earlier) is Basis.CHECKPOINTS:
        saved = earlier.last_save(NEVER - 1)
        assert saved is not None
        budget = earlier.loop_us_after(saved[0])
    return OwnershipInputs(
        windows=owned.windows,
        loops=owned.loops,
        zones=_zones(owned, allocated_at),
        repeats=[] if repeated is None else repeated.with_tail(),
        repeat_budget_us=budget,
        stalled_from=silent_from(owned.life),
        first_progress=events.progress[0][0] if events.progress else None,
        settled_to=NEVER if repeated is None else repeated.last_at(),
        closings=owned.closings,
    )


class AttemptSegments:
    """One attempt's segments, with the state that lets the next fold start from the last."""

    def __init__(self) -> None:
        self.ownership = Ownership()
        self.segments: list[Segment] = []
        self.speed_windows = SpeedWindows()
        self.changed_from = -NEVER  #: the last :meth:`assign_ownership` changed nothing before it
        self.edition = 0  #: changes whenever ownership is assigned again
        self._repeated: RepeatedTraining | None = None
        self._points_taken = 0
        self._repeated_restarts = 0
        self._repeated_key: object = None
        self._input_key: object = None  #: everything that ownership was assigned from
        self._settled_key: object = None  #: the part of it that decides what lies before the anchor
        self._period_key: object = None
        self._owned: OwnedLoops | None = None
        self._owned_revision = 0  #: the revision of the events that it holds for

    def find_loops(self, life: Lifetime, windows: list[Interval]) -> OwnedLoops:
        """Find the attempt's loops in its *windows*, anew only where they may have changed."""
        owned = self._owned
        if (
            owned is None
            or self._owned_revision != life.events.revision
            or owned.windows != windows
            or (owned.life.number, owned.life.end) != (life.number, life.end)
        ):
            owned = owned_loops(life, windows)
        self._owned_revision = life.events.revision
        self._owned = replace(owned, life=life, windows=windows)
        return self._owned

    def assign_ownership(
        self, owned: OwnedLoops, earlier: EarlierAttempts, allocated_at: int
    ) -> None:
        """Bring ownership up to date; anew, unless events only came on at the end."""
        life, events = owned.life, owned.life.events
        self.changed_from = NEVER
        input_key = (
            events.revision,
            owned.windows,
            allocated_at,
            life.end,
            life.outcome,
            earlier.version,
        )
        if input_key == self._input_key:
            return
        self._input_key = input_key
        repeated = self._repeated_training(owned, earlier)
        inputs = ownership_inputs(owned, earlier, allocated_at, repeated)
        opens, closes = owned.windows[-1] if owned.windows else (None, NEVER)
        settled_key = (
            events.version,
            owned.windows[:-1],
            opens,
            allocated_at,
            inputs.repeat_budget_us,
            self._repeated_restarts,
        )
        if settled_key != self._settled_key or closes < self.ownership.anchored_at:
            self.ownership = Ownership()
        self._settled_key = settled_key
        self.changed_from = self.ownership.stands_until
        self.edition += 1
        if owned.windows:
            self.ownership.assign(events.spans, inputs)
        self.speed_windows.follow(events, self.ownership)

    def _repeated_training(
        self, owned: OwnedLoops, earlier: EarlierAttempts
    ) -> RepeatedTraining | None:
        """Add the points that are new, or all of them again where earlier ones changed."""
        events = owned.life.events
        if not events.progress:
            self._repeated = None
            return None
        implied = implied_restore(owned, earlier)
        key = (earlier.top_step, events.version, points([], events.restores, implied, owned.loops))
        fresh = events.progress[self._points_taken :]
        repeated = self._repeated
        if repeated is None or key != self._repeated_key or _overtaken(repeated, fresh):
            repeated = self._repeated = RepeatedTraining(earlier.top_step)
            self._repeated_restarts += 1
            self._repeated_key = key
            marks = points(events.progress, events.restores, implied, owned.loops)
        else:
            marks = points(fresh, [], None, [])
        for at, _, _, restored, step in marks:
            repeated.add(at, step, restored=restored)
        self._points_taken = len(events.progress)
        return repeated

    def set_periods(self, number: int, periods: Mapping[int, Period]) -> None:
        """Turn the pieces into segments; *periods* names the period of each zone."""
        period_key = (number, periods)
        if period_key != self._period_key:
            self.changed_from = -NEVER
        elif self.changed_from == NEVER:
            return
        unchanged = self.ownership.unchanged if period_key == self._period_key else 0
        self._period_key = period_key
        del self.segments[unchanged:]
        self.segments += [
            Segment(start, end, category, periods[zone], number)
            for start, end, category, zone in islice(self.ownership.pieces, unchanged, None)
        ]
        if len(set(periods.values())) < len(periods):
            self.segments = _joined(self.segments)


def _joined(segments: Iterable[Segment]) -> list[Segment]:
    """Join equal neighbours: with several windows, two zones may be of one period."""
    joined: list[Segment] = []
    for segment in segments:
        if joined and segment[2:] == joined[-1][2:] and segment.start_at == joined[-1].end_at:
            joined[-1] = joined[-1]._replace(end_at=segment.end_at)
        else:
            joined.append(segment)
    return joined


def _overtaken(repeated: RepeatedTraining, fresh: list[Mark]) -> bool:
    return bool(fresh) and fresh[0][0] <= repeated.last_at()
