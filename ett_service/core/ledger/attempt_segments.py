"""An attempt's segments beside other attempts', kept between folds and cut anew where changed."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from ett_service.core.intervals import Interval, merged, outside
from ett_service.core.ledger.attempt_events import AttemptEvents
from ett_service.core.ledger.lifetimes import Lifetime
from ett_service.core.ledger.ownership import (
    ZONES_A_WINDOW,
    Ownership,
    OwnershipInputs,
    RepeatedTraining,
    points,
)
from ett_service.core.ledger.results import Segment
from ett_service.core.ledger.spans import NEVER, Closing, Closings, Mark, Span
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
    stretches: list[LoopRange]
    closings: Closings

    def closing(self, span: Span) -> Closing:
        """Return what ends a span that was left open."""
        return self.closings.get(span) or Closing(span.limit, span.limited_by)


def owned_windows(lives: Sequence[Lifetime]) -> list[list[Interval]]:
    """Return where each attempt owns the time: of those alive the latest in the order does."""
    taken: list[Interval] = []
    found: list[list[Interval]] = []
    for life in reversed(lives):
        alive = (life.begin, life.end)
        if taken and life.end > taken[0][0]:
            found.append(outside(alive, taken))
            taken = merged([*taken, alive])
        else:
            found.append(outside(alive, []))
            taken = [*found[-1], *taken]
    return found[::-1]


def owned_loops(life: Lifetime, windows: list[Interval]) -> OwnedLoops:
    """Find the loops of an attempt, as far as it owns them, and their stretch a window.

    With the loops known, so are the ends of compiles that were left open.
    """
    spans = life.track.by_phase.get(Phase.TRAIN_LOOP, ())
    covered = merged([(span.begin, min(span.end, life.end)) for span in spans])
    loops: list[Interval] = []
    stretches = []
    for index, (opens, closes) in enumerate(windows):
        inside = [
            (max(start, opens), min(end, closes))
            for start, end in covered
            if start < closes and end > opens
        ]
        if inside:
            stretches.append(LoopRange(inside[0][0], inside[-1][1], life.number, index))
            loops += inside
    return OwnedLoops(life, windows, loops, stretches, closings_inside(life.track, loops))


def closings_inside(track: AttemptEvents, loops: Sequence[Interval]) -> Closings:
    """Return what ends the track's loose compiles inside these *loops*."""
    return {
        span: closing
        for span, closing in track.in_loop.items()
        if any(start <= span.begin < end for start, end in loops)
    }


def _zones(part: OwnedLoops, allocated_at: int) -> list[tuple[int, int]]:
    stretch_of = {stretch.window: stretch for stretch in part.stretches}
    zones = []
    for index, (opens, closes) in enumerate(part.windows):
        base = index * ZONES_A_WINDOW
        stretch = stretch_of.get(index)
        started = closes if stretch is None else stretch.start
        ended = closes if stretch is None else stretch.end
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
    track = life.track
    loops = [span for span in track.by_phase.get(Phase.TRAIN_LOOP, ()) if span.begin < life.end]
    if life.outcome is Outcome.COMPLETED or track.progress_instants < _FEWEST_INSTANTS or not loops:
        return NEVER
    last = max(loops, key=lambda span: (span.begin, span.end, span.own_end is not None))
    if last.own_end is not None and last.own_end <= life.end:
        return NEVER
    first_at, last_at = track.progress[0][0], track.progress[-1][0]
    return last_at + 2 * (last_at - first_at) // (track.progress_instants - 1)


class EarlierAttempts:
    """What the earlier attempts of a job leave behind for the next one."""

    def __init__(self) -> None:
        self.tracks: list[AttemptEvents] = []
        self.canvases: list[Ownership] = []
        self.top_step: int | None = None
        self.has_saves = False
        self.version = 0  #: grows with every change of what earlier attempts left behind

    def add(self, track: AttemptEvents, canvas: Ownership, edition: int) -> None:
        """Let the next attempt know of this one, whose canvas is in its *edition*."""
        self.version += 1 + track.revision + edition
        self.tracks.append(track)
        self.canvases.append(canvas)
        self.has_saves = self.has_saves or bool(track.saves)
        if track.top_step is not None:
            top = track.top_step
            self.top_step = top if self.top_step is None else max(top, self.top_step)

    def last_save(self, until: int) -> tuple[int, int] | None:
        """Return ``(at, step)`` of the last checkpoint saved up to *until*, None without one."""
        last = None
        for track in self.tracks:
            place = bisect_right(track.saves, (until, NEVER, ""))
            if place and (last is None or track.saves[place - 1][:2] > last):
                last = track.saves[place - 1][:2]
        return last

    def loop_us_after(self, at: int) -> int:
        """Return the loop time of earlier attempts after *at*, in microseconds."""
        total = 0
        for canvas in self.canvases:
            for start, end in reversed(canvas.loop_pieces):
                if end <= at:
                    break
                total += end - max(start, at)
        return total


def basis(track: AttemptEvents, past: EarlierAttempts) -> Basis:
    """Return what repeated training of the attempt is told from."""
    if track.progress:
        return Basis.STEPS
    if past.has_saves:
        return Basis.CHECKPOINTS
    return Basis.NONE


def implied_restore(part: OwnedLoops, past: EarlierAttempts) -> tuple[int, int] | None:
    """Return where and from which step a later attempt goes on that does not say so."""
    track = part.life.track
    if not past.tracks or not part.loops:
        return None
    first_progress = track.progress[0][0]
    if track.restores and track.restores[0][0] < first_progress:
        return None
    start = part.loops[0][0]
    saved = past.last_save(start)
    return None if saved is None else (start, saved[1])


def ownership_inputs(
    part: OwnedLoops, past: EarlierAttempts, allocated_at: int, replay: RepeatedTraining | None
) -> OwnershipInputs:
    """Set the scene for the attempt's canvas; *replay* is None where no step tells."""
    track = part.life.track
    budget = 0
    if replay is None and basis(track, past) is Basis.CHECKPOINTS:
        saved = past.last_save(NEVER - 1)
        assert saved is not None
        budget = past.loop_us_after(saved[0])
    return OwnershipInputs(
        windows=part.windows,
        loops=part.loops,
        zones=_zones(part, allocated_at),
        repeats=[] if replay is None else replay.with_tail(),
        repeat_budget_us=budget,
        stalled_from=silent_from(part.life),
        first_progress=track.progress[0][0] if track.progress else None,
        settled_to=NEVER if replay is None else replay.last_at(),
        closings=part.closings,
    )


class AttemptSegments:
    """What is kept of one attempt from fold to fold."""

    def __init__(self) -> None:
        self.canvas = Ownership()
        self.segments: list[Segment] = []
        self.changed_from = -NEVER  #: the last :meth:`paint` changed nothing before it
        self.edition = 0  #: changes with every repainting
        self._replay: RepeatedTraining | None = None
        self._fed = 0
        self._replays = 0
        self._replay_key: object = None
        self._view: object = None  #: all that the canvas was painted from
        self._left: object = None  #: the part of it that decides what lies left of the anchor
        self._framing: object = None
        self._own: OwnedLoops | None = None
        self._looked_at = 0  #: the revision that it is true of

    def look(self, life: Lifetime, windows: list[Interval]) -> OwnedLoops:
        """Find the attempt's loops in its *windows*, anew only where they may have changed."""
        known = self._own
        if (
            known is None
            or self._looked_at != life.track.revision
            or known.windows != windows
            or (known.life.number, known.life.end) != (life.number, life.end)
        ):
            known = owned_loops(life, windows)
        self._looked_at = life.track.revision
        self._own = replace(known, life=life, windows=windows)
        return self._own

    def paint(self, part: OwnedLoops, past: EarlierAttempts, allocated_at: int) -> None:
        """Bring the canvas up to date, from nothing unless events only came on at the end."""
        life, track = part.life, part.life.track
        self.changed_from = NEVER
        view = (
            track.revision,
            part.windows,
            allocated_at,
            life.end,
            life.outcome,
            past.version,
        )
        if view == self._view:
            return
        self._view = view
        replay = self._replayed(part, past)
        stage = ownership_inputs(part, past, allocated_at, replay)
        opens, closes = part.windows[-1] if part.windows else (None, NEVER)
        left = (
            track.version,
            part.windows[:-1],
            opens,
            allocated_at,
            stage.repeat_budget_us,
            self._replays,
        )
        if left != self._left or closes < self.canvas.anchored_at:
            self.canvas = Ownership()
        self._left = left
        self.changed_from = self.canvas.stands_until
        self.edition += 1
        if part.windows:
            self.canvas.paint(track.spans, stage)

    def _replayed(self, part: OwnedLoops, past: EarlierAttempts) -> RepeatedTraining | None:
        """Feed the points that are new to the replay, all of them where others changed."""
        track = part.life.track
        if not track.progress:
            self._replay = None
            return None
        implied = implied_restore(part, past)
        key = (past.top_step, track.version, points([], track.restores, implied, part.loops))
        fresh = track.progress[self._fed :]
        replay = self._replay
        if replay is None or key != self._replay_key or _overtaken(replay, fresh):
            replay = self._replay = RepeatedTraining(past.top_step)
            self._replays += 1
            self._replay_key = key
            marks = points(track.progress, track.restores, implied, part.loops)
        else:
            marks = points(fresh, [], None, [])
        for at, _, _, restored, step in marks:
            replay.add(at, step, restored=restored)
        self._fed = len(track.progress)
        return replay

    def frame(self, number: int, periods: Mapping[int, Period]) -> None:
        """Turn the pieces into segments; *periods* names the period of each zone."""
        framing = (number, periods)
        if framing != self._framing:
            self.changed_from = -NEVER
        elif self.changed_from == NEVER:
            return
        kept = self.canvas.kept if framing == self._framing else 0
        self._framing = framing
        del self.segments[kept:]
        self.segments += [
            Segment(start, end, category, periods[zone], number)
            for start, end, category, zone in islice(self.canvas.pieces, kept, None)
        ]
        if len(set(periods.values())) < len(periods):
            self.segments = _joined(self.segments)


def _joined(segments: Iterable[Segment]) -> list[Segment]:
    """Join neighbours alike: two zones may be of one period where windows are several."""
    joined: list[Segment] = []
    for segment in segments:
        if joined and segment[2:] == joined[-1][2:] and segment.start_at == joined[-1].end_at:
            joined[-1] = joined[-1]._replace(end_at=segment.end_at)
        else:
            joined.append(segment)
    return joined


def _overtaken(replay: RepeatedTraining, fresh: list[Mark]) -> bool:
    return bool(fresh) and fresh[0][0] <= replay.last_at()
