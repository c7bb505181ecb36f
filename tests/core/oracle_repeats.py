"""The oracle's reading of repeated training: which loop time consumed data consumed before."""

from dataclasses import dataclass

from ett_service.core.events import CheckpointRestored, CheckpointSaved, Progress
from ett_service.core.words import Basis
from tests.core.oracle_lives import Life
from tests.core.oracle_pieces import Ownership, Stretch, facts_of


def repeats(life: Life, ownership: Ownership) -> tuple[Basis, list[Stretch]]:
    earlier = ownership.lives[: ownership.lives.index(life)]
    saves = facts_of(earlier, CheckpointSaved)
    if facts_of([life], Progress):
        return Basis.STEPS, _repeats_by_steps(life, earlier, ownership)
    if saves:
        return Basis.CHECKPOINTS, _repeats_by_checkpoints(life, earlier, ownership)
    return Basis.NONE, []


def _repeats_by_checkpoints(life: Life, earlier: list[Life], ownership: Ownership) -> list[Stretch]:
    last_save = max(e.at for e in facts_of(earlier, CheckpointSaved))
    left = sum(
        piece.us for x in earlier for piece in ownership.loop_time(x) if piece.begin >= last_save
    )
    stretches = []
    for piece in ownership.loop_time(life):
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
    progress = facts_of([life], Progress)
    restored = facts_of([life], CheckpointRestored)
    points = [Point(e.at, e.step, False, False, e.at) for e in progress]
    for e in restored:
        if any(begin <= e.at < end for begin, end in loops):
            points.append(Point(e.at, e.step, False, True, e.at))
        elif later := [begin for begin, _ in loops if begin > e.at]:
            points.append(Point(min(later), e.step, False, True, e.at))
    first_progress = min(e.at for e in progress)
    if earlier and loops and not any(e.at < first_progress for e in restored):
        start = loops[0][0]
        saves = [e for e in facts_of(earlier, CheckpointSaved) if e.at <= start]
        if saves:
            last = max(saves, key=lambda e: (e.at, e.step))
            points.append(Point(start, last.step, True, False, last.at))
    return sorted(points, key=lambda point: point.place)


def _repeats_by_steps(life: Life, earlier: list[Life], ownership: Ownership) -> list[Stretch]:
    points = _points(life, earlier, ownership.loops_of(life))
    steps = [e.step for e in facts_of(earlier, Progress, CheckpointSaved)]
    stretches: list[Stretch] = []
    if earlier and steps:
        stretches.append((life.begin, points[0].at))
    for i, point in enumerate(points):
        own = [p.step for p in points[: i + 1] if not p.is_implied and not p.is_restored]
        if not steps + own:
            continue
        mark = max(steps + own)
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
