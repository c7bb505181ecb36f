"""Scenes: what each attempt's canvas must know of the attempts around it."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from ett_service.core.bounds import Life
from ett_service.core.canvas import ZONES_A_WINDOW, Canvas, Scene
from ett_service.core.interval import Interval, merged, outside
from ett_service.core.replay import Replay
from ett_service.core.span import NEVER
from ett_service.core.track import Track
from ett_service.core.vocabulary import Basis, Outcome, Phase

_FEWEST_INSTANTS = 3
"""Distinct ``progress`` instants from which a mean gap is taken."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """From the first to the last loop of an attempt inside one of its windows."""

    start: int
    end: int
    number: int
    window: int


@dataclass(slots=True)
class Own:
    """An attempt's part of the job: where it owns the time, and its loops there."""

    life: Life
    windows: list[Interval]
    loops: list[Interval]
    stretches: list[Stretch]


def owned_windows(lives: Sequence[Life]) -> list[list[Interval]]:
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


def own(life: Life, windows: list[Interval]) -> Own:
    """Find the loops of an attempt, as far as it owns them, and their stretch a window.

    With the loops known, compiles that were left open get their ends.
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
            stretches.append(Stretch(inside[0][0], inside[-1][1], life.number, index))
            loops += inside
    life.track.close_compiles(loops)
    return Own(life, windows, loops, stretches)


def _zones(part: Own, allocated_at: int) -> list[tuple[int, int]]:
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


def silent_from(life: Life) -> int:
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


class Past:
    """What the earlier attempts of a job leave behind for the next one."""

    def __init__(self) -> None:
        self.tracks: list[Track] = []
        self.canvases: list[Canvas] = []
        self.top_step: int | None = None
        self.has_saves = False
        self.version = 0  #: grows with every change of what earlier attempts left behind

    def add(self, track: Track, canvas: Canvas, edition: int) -> None:
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


def basis(track: Track, past: Past) -> Basis:
    """Return what repeated training of the attempt is told from."""
    if track.progress:
        return Basis.STEPS
    if past.has_saves:
        return Basis.CHECKPOINTS
    return Basis.NONE


def implied_restore(part: Own, past: Past) -> tuple[int, int] | None:
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


def scene(part: Own, past: Past, allocated_at: int, replay: Replay | None) -> Scene:
    """Set the scene for the attempt's canvas; *replay* is None where no step tells."""
    track = part.life.track
    budget = 0
    if replay is None and basis(track, past) is Basis.CHECKPOINTS:
        saved = past.last_save(NEVER - 1)
        assert saved is not None
        budget = past.loop_us_after(saved[0])
    return Scene(
        windows=part.windows,
        loops=part.loops,
        zones=_zones(part, allocated_at),
        repeats=[] if replay is None else replay.with_tail(),
        repeat_budget_us=budget,
        stalled_from=silent_from(part.life),
        first_progress=track.progress[0][0] if track.progress else None,
        settled_to=NEVER if replay is None else replay.last_at(),
    )
