"""A slow second implementation of the definitions, which paints time piece by piece.

Each piece of a job's time is given one attempt, one span, one category and one period, one
after the other. ``every_microsecond`` makes each piece one microsecond long: that is the
definition read aloud, and only for tiny timelines. ``every_change`` joins those between which
nothing can change.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ett_service.core.event import (
    CheckpointRestored,
    CheckpointSaved,
    Event,
    Progress,
)
from ett_service.core.vocabulary import (
    Basis,
    Category,
    Outcome,
    Period,
    Phase,
)
from tests.core.oracle_lives import (
    Bounds,
    Life,
    Span,
    spans_of,
)

Ticks = Callable[[Iterable[int]], list[int]]
Stretch = tuple[int, int]

_ORDER = list(Phase)


def every_change(instants: Iterable[int]) -> list[int]:
    """Pieces between the instants that matter."""
    return sorted(set(instants))


def every_microsecond(instants: Iterable[int]) -> list[int]:
    """Pieces of one microsecond."""
    known = set(instants)
    return list(range(min(known), max(known) + 1)) if known else []


@dataclass
class Piece:
    """``[begin, end)`` and who owns it."""

    begin: int
    end: int
    life: Life | None
    span: Span | None
    category: Category = Category.RESTART_WAIT
    period: Period = Period.SCHEDULING

    @property
    def us(self) -> int:
        """Length."""
        return self.end - self.begin


@dataclass
class Painting:
    """One job as it is being painted."""

    lives: list[Life]
    queuing: list[Life]
    first: int
    end: int
    ticks: Ticks
    spans: dict[int, list[Span]] = field(default_factory=dict)  #: by ``id`` of the life
    loops: list[tuple[int, int, Life]] = field(default_factory=list)
    repeated: dict[int, list[Stretch]] = field(default_factory=dict)
    tails: dict[int, int] = field(default_factory=dict)  #: from when on loop time is silent
    basis: dict[int, Basis] = field(default_factory=dict)
    pieces: list[Piece] = field(default_factory=list)

    def loops_of(self, life: Life) -> list[Stretch]:
        """The loops of one attempt."""
        return [(begin, end) for begin, end, owner in self.loops if owner is life]

    def loop_time(self, life: Life) -> list[Piece]:
        """What its ``train_loop`` spans own."""
        return [
            p for p in self.pieces if p.life is life and p.span and p.span.phase is Phase.TRAIN_LOOP
        ]


def painted(bound: Bounds, first: int | None, end: int, ticks: Ticks) -> Painting:
    at = end if first is None else first
    picture = Painting(bound.lives, bound.queuing, at, max(end, at), ticks)
    for life in picture.lives:
        picture.spans[id(life)] = spans_of(life, life.over_at)
    _paint_owners(picture)
    picture.loops = _loops(picture)
    for life in picture.lives:
        picture.spans[id(life)] = spans_of(life, life.over_at, picture.loops_of(life))
    _paint_owners(picture)
    for life in picture.lives:
        picture.tails[id(life)] = _tail(life, picture)
        picture.basis[id(life)], picture.repeated[id(life)] = _repeats(life, picture)
    _paint_owners(picture)
    allocation = _allocation(picture)
    for piece in picture.pieces:
        piece.category = _category(piece, picture)
        piece.period = _period(piece.begin, allocation, picture)
    return picture


def _paint_owners(picture: Painting) -> None:
    cuts = [picture.first, picture.end, *picture.tails.values()]
    for life in picture.lives:
        cuts += [life.begin, life.over_at]
        cuts += [t for span in picture.spans[id(life)] for t in (span.begin, span.end)]
        cuts += [e.at for e in life.stream if isinstance(e, CheckpointSaved)]
        cuts += [t for stretch in picture.repeated.get(id(life), []) for t in stretch]
    for life in picture.queuing:
        cuts += [t for span in spans_of(life, life.over_at) for t in (span.begin, span.end)]
    inside = [t for t in cuts if picture.first <= t <= picture.end]
    picture.pieces = []
    for begin, end in pairwise(picture.ticks(inside)):
        owner = _owner(begin, picture.lives)
        span = None if owner is None else _open_span(begin, picture.spans[id(owner)])
        picture.pieces.append(Piece(begin, end, owner, span))


def _owner(at: int, lives: list[Life]) -> Life | None:
    alive = [life for life in lives if life.begin <= at < life.over_at]
    return alive[-1] if alive else None


def _open_span(at: int, spans: list[Span]) -> Span | None:
    is_open = [span for span in spans if span.begin <= at < span.end]
    return max(is_open, key=lambda s: (s.begin, _ORDER.index(s.phase), -s.end), default=None)


def _loops(picture: Painting) -> list[tuple[int, int, Life]]:
    loops: list[tuple[int, int, Life]] = []
    for piece in picture.pieces:
        life = piece.life
        if life is None or not _covered(piece.begin, picture.spans[id(life)], Phase.TRAIN_LOOP):
            continue
        if loops and loops[-1][2] is life and loops[-1][1] == piece.begin:
            loops[-1] = (loops[-1][0], piece.end, life)
        else:
            loops.append((piece.begin, piece.end, life))
    return loops


def _covered(at: int, spans: list[Span], phase: Phase) -> bool:
    return any(s.phase is phase and s.begin <= at < s.end for s in spans)


def _tail(life: Life, picture: Painting) -> int:
    """When the attempt's loop time begins to be silent; beyond its end where it does not."""
    end = life.over_at
    spans = [s for s in picture.spans[id(life)] if s.phase is Phase.TRAIN_LOOP]
    last = max(spans, key=lambda s: (s.begin, s.end, s.own_end is not None), default=None)
    heard = sorted({e.at for e in life.stream if isinstance(e, Progress)})
    if (
        life.outcome is Outcome.COMPLETED
        or last is None
        or (last.own_end is not None and last.own_end <= end)
        or len(heard) < 3
    ):
        return end
    return heard[-1] + 2 * (heard[-1] - heard[0]) // (len(heard) - 1)


def _facts_of(lives: Iterable[Life], *kinds: type[Event]) -> list[Any]:
    return [e for life in lives for e in life.stream if isinstance(e, kinds)]


def _repeats(life: Life, picture: Painting) -> tuple[Basis, list[Stretch]]:
    earlier = picture.lives[: picture.lives.index(life)]
    saves = _facts_of(earlier, CheckpointSaved)
    if _facts_of([life], Progress):
        return Basis.STEPS, _repeats_by_steps(life, earlier, picture)
    if saves:
        return Basis.CHECKPOINTS, _repeats_by_checkpoints(life, earlier, picture)
    return Basis.NONE, []


def _repeats_by_checkpoints(life: Life, earlier: list[Life], picture: Painting) -> list[Stretch]:
    last_save = max(e.at for e in _facts_of(earlier, CheckpointSaved))
    left = sum(
        piece.us for x in earlier for piece in picture.loop_time(x) if piece.begin >= last_save
    )
    stretches = []
    for piece in picture.loop_time(life):
        stretches.append((piece.begin, piece.begin + min(left, piece.us)))
        left -= min(left, piece.us)
    return stretches


@dataclass
class Point:
    """A step known at an instant."""

    at: int
    step: int
    is_implied: bool
    is_restored: bool
    own_at: int

    @property
    def place(self) -> tuple[int, bool, int, bool, int]:
        """Where it comes among the points."""
        return (self.at, not self.is_implied, self.own_at, self.is_restored, self.step)


def _points(life: Life, earlier: list[Life], loops: list[Stretch]) -> list[Point]:
    progress = _facts_of([life], Progress)
    restored = _facts_of([life], CheckpointRestored)
    points = [Point(e.at, e.step, False, False, e.at) for e in progress]
    for e in restored:
        if any(begin <= e.at < end for begin, end in loops):
            points.append(Point(e.at, e.step, False, True, e.at))
        elif later := [begin for begin, _ in loops if begin > e.at]:
            points.append(Point(min(later), e.step, False, True, e.at))
    first_progress = min(e.at for e in progress)
    if earlier and loops and not any(e.at < first_progress for e in restored):
        start = loops[0][0]
        saves = [e for e in _facts_of(earlier, CheckpointSaved) if e.at <= start]
        if saves:
            last = max(saves, key=lambda e: (e.at, e.step))
            points.append(Point(start, last.step, True, False, last.at))
    return sorted(points, key=lambda point: point.place)


def _repeats_by_steps(life: Life, earlier: list[Life], picture: Painting) -> list[Stretch]:
    points = _points(life, earlier, picture.loops_of(life))
    known = [e.step for e in _facts_of(earlier, Progress, CheckpointSaved)]
    stretches: list[Stretch] = []
    if earlier and known:
        stretches.append((life.begin, points[0].at))
    for i, point in enumerate(points):
        own = [p.step for p in points[: i + 1] if not p.is_implied and not p.is_restored]
        if not known + own:
            continue
        mark = max(known + own)
        if i + 1 == len(points):
            if point.step < mark:
                stretches.append((point.at, life.over_at))
        else:
            stretches.append((point.at, _caught_up(point, points[i + 1], mark)))
    return [(begin, end) for begin, end in stretches if begin < end]


def _caught_up(point: Point, following: Point, mark: int) -> int:
    """Up to when the time from one point to the next is repeated."""
    if point.step < mark:
        if following.is_restored or following.step < mark:
            return following.at
        span = following.at - point.at
        return point.at + (mark - point.step) * span // (following.step - point.step)
    if not following.is_restored and following.step < mark:
        return following.at
    return point.at


def _category(piece: Piece, picture: Painting) -> Category:
    life, span = piece.life, piece.span
    if life is None:
        return Category.RESTART_WAIT
    if span is None:
        return Category.UNATTRIBUTED
    if span.phase is Phase.TRAIN_LOOP:
        return _training(life, piece.begin, picture)
    if span.phase is Phase.PT2_COMPILE:
        return _compile(life, span, picture)
    same = {**{phase: phase.value for phase in Phase}, Phase.QUEUED: Category.RESTART_WAIT}
    return Category(same[span.phase])


def _training(life: Life, at: int, picture: Painting) -> Category:
    if at >= picture.tails[id(life)]:
        return Category.STALLED
    if any(begin <= at < end for begin, end in picture.repeated[id(life)]):
        return Category.REPEATED_TRAINING
    return Category.EFFECTIVE_TRAINING


def _compile(life: Life, span: Span, picture: Painting) -> Category:
    loops = picture.loops_of(life)
    progress = [e.at for e in _facts_of([life], Progress)]
    if not loops or not progress or span.begin < loops[0][0]:
        return Category.PT2_COMPILE
    if span.begin < loops[0][1] and span.begin < min(progress):
        return Category.PT2_COMPILE
    return Category.RECOMPILE


def _allocation(picture: Painting) -> int:
    if not picture.lives:
        return picture.first
    spans = picture.spans[id(picture.lives[0])]
    setups = [s.begin for s in spans if s.phase is Phase.HARDWARE_SETUP]
    waits = [(s.begin, s.end) for s in spans if s.phase is Phase.SCHEDULING]
    at = min(setups) if setups else min(waits)[1] if waits else picture.first
    return min(at, picture.loops[0][0]) if picture.loops else at


def _period(at: int, allocation: int, picture: Painting) -> Period:
    if at < allocation:
        return Period.SCHEDULING
    past = [loop for loop in picture.loops if loop[0] <= at]
    if not past:
        return Period.STARTING
    _, end, life = past[-1]
    if at < end:
        return Period.TRAINING
    following = picture.loops[len(past) :]
    if following:
        return Period.TRAINING if following[0][2] is life else Period.RECOVERING
    return Period.RECOVERING if picture.end > life.over_at else Period.ENDING
