"""How the oracle gives each piece of a job's time its attempt, span, category and period."""

from itertools import pairwise

from ett_service.core.events import CheckpointSaved, Progress
from ett_service.core.words import Category, Outcome, Period, Phase
from tests.core.oracle_lives import Bounds, Life
from tests.core.oracle_pieces import Ownership, Piece, Ticks, facts_of
from tests.core.oracle_repeats import repeats
from tests.core.oracle_spans import Span, spans_of

_ORDER = list(Phase)


def owned(bound: Bounds, first: int | None, end: int, ticks: Ticks) -> Ownership:
    at = end if first is None else first
    ownership = Ownership(bound.lives, bound.queuing, at, max(end, at), ticks)
    for life in ownership.lives:
        ownership.spans[id(life)] = spans_of(life, life.over_at)
    _find_owners(ownership)
    ownership.loops = _loops(ownership)
    for life in ownership.lives:
        ownership.spans[id(life)] = spans_of(life, life.over_at, ownership.loops_of(life))
    _find_owners(ownership)
    for life in ownership.lives:
        ownership.tails[id(life)] = _tail(life, ownership)
        ownership.basis[id(life)], ownership.repeated[id(life)] = repeats(life, ownership)
    _find_owners(ownership)
    allocation = _allocation(ownership)
    for piece in ownership.pieces:
        piece.category = _category(piece, ownership)
        piece.period = _period(piece.begin, allocation, ownership)
    return ownership


def _find_owners(ownership: Ownership) -> None:
    cuts = [ownership.first, ownership.end, *ownership.tails.values()]
    for life in ownership.lives:
        cuts += [life.begin, life.over_at]
        cuts += [t for span in ownership.spans[id(life)] for t in (span.begin, span.end)]
        cuts += [e.at for e in life.stream if isinstance(e, CheckpointSaved)]
        cuts += [t for stretch in ownership.repeated.get(id(life), []) for t in stretch]
    for life in ownership.queuing:
        cuts += [t for span in spans_of(life, life.over_at) for t in (span.begin, span.end)]
    inside = [t for t in cuts if ownership.first <= t <= ownership.end]
    ownership.pieces = []
    for begin, end in pairwise(ownership.ticks(inside)):
        owner = _owner(begin, ownership.lives)
        span = None if owner is None else _open_span(begin, ownership.spans[id(owner)])
        ownership.pieces.append(Piece(begin, end, owner, span))


def _owner(at: int, lives: list[Life]) -> Life | None:
    alive = [life for life in lives if life.begin <= at < life.over_at]
    return alive[-1] if alive else None


def _open_span(at: int, spans: list[Span]) -> Span | None:
    is_open = [span for span in spans if span.begin <= at < span.end]
    return max(is_open, key=lambda s: (s.begin, _ORDER.index(s.phase), -s.end), default=None)


def _loops(ownership: Ownership) -> list[tuple[int, int, Life]]:
    loops: list[tuple[int, int, Life]] = []
    for piece in ownership.pieces:
        life = piece.life
        if life is None or not _covered(piece.begin, ownership.spans[id(life)], Phase.TRAIN_LOOP):
            continue
        if loops and loops[-1][2] is life and loops[-1][1] == piece.begin:
            loops[-1] = (loops[-1][0], piece.end, life)
        else:
            loops.append((piece.begin, piece.end, life))
    return loops


def _covered(at: int, spans: list[Span], phase: Phase) -> bool:
    return any(s.phase is phase and s.begin <= at < s.end for s in spans)


def _tail(life: Life, ownership: Ownership) -> int:
    """When the attempt's loop time begins to be silent; beyond its end where it does not."""
    end = life.over_at
    spans = [s for s in ownership.spans[id(life)] if s.phase is Phase.TRAIN_LOOP]
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


def _category(piece: Piece, ownership: Ownership) -> Category:
    life, span = piece.life, piece.span
    if life is None:
        return Category.RESTART_WAIT
    if span is None:
        return Category.UNATTRIBUTED
    if span.phase is Phase.TRAIN_LOOP:
        return _training(life, piece.begin, ownership)
    if span.phase is Phase.PT2_COMPILE:
        return _compile(life, span, ownership)
    same = {**{phase: phase.value for phase in Phase}, Phase.QUEUED: Category.RESTART_WAIT}
    return Category(same[span.phase])


def _training(life: Life, at: int, ownership: Ownership) -> Category:
    if at >= ownership.tails[id(life)]:
        return Category.STALLED
    if any(begin <= at < end for begin, end in ownership.repeated[id(life)]):
        return Category.REPEATED_TRAINING
    return Category.EFFECTIVE_TRAINING


def _compile(life: Life, span: Span, ownership: Ownership) -> Category:
    loops = ownership.loops_of(life)
    progress = [e.at for e in facts_of([life], Progress)]
    if not loops or not progress or span.begin < loops[0][0]:
        return Category.PT2_COMPILE
    if span.begin < loops[0][1] and span.begin < min(progress):
        return Category.PT2_COMPILE
    return Category.RECOMPILE


def _allocation(ownership: Ownership) -> int:
    if not ownership.lives:
        return ownership.first
    spans = ownership.spans[id(ownership.lives[0])]
    setups = [s.begin for s in spans if s.phase is Phase.HARDWARE_SETUP]
    waits = [(s.begin, s.end) for s in spans if s.phase is Phase.SCHEDULING]
    at = min(setups) if setups else min(waits)[1] if waits else ownership.first
    return min(at, ownership.loops[0][0]) if ownership.loops else at


def _period(at: int, allocation: int, ownership: Ownership) -> Period:
    if at < allocation:
        return Period.SCHEDULING
    past = [loop for loop in ownership.loops if loop[0] <= at]
    if not past:
        return Period.STARTING
    _, end, life = past[-1]
    if at < end:
        return Period.TRAINING
    following = ownership.loops[len(past) :]
    if following:
        return Period.TRAINING if following[0][2] is life else Period.RECOVERING
    return Period.RECOVERING if ownership.end > life.over_at else Period.ENDING
