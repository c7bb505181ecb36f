"""Assigning time to spans without holes, from the anchor on."""

from ett_service.core.ledger.attempts.spans import NEVER, Span
from ett_service.core.ledger.ownership import Ownership, OwnershipInputs
from ett_service.core.words import Category, Phase


def _inputs(end: int, **changes: object) -> OwnershipInputs:
    members: dict[str, object] = {
        "windows": [(0, end)],
        "loops": [(0, end)],
        "zones": [(end, 2)],
        "repeats": [],
        "repeat_budget_us": 0,
        "stalled_from": NEVER,
        "first_progress": 0,
        "settled_to": NEVER,
    }
    return OwnershipInputs(**{**members, **changes})  # type: ignore[arg-type]


def _span(phase: Phase, begin: int, end: int | None) -> Span:
    return Span(phase, begin, end, f"{phase}-{begin}")


def _pieces(spans: list[Span], inputs: OwnershipInputs) -> list[tuple[int, int, Category]]:
    ownership = Ownership()
    ownership.assign(spans, inputs)
    return [piece[:3] for piece in ownership.pieces]


def test_the_span_that_began_most_recently_owns_the_instant() -> None:
    loop, save = _span(Phase.TRAIN_LOOP, 0, None), _span(Phase.CHECKPOINT_BLOCKING, 10, 14)

    assert _pieces([loop, save], _inputs(20)) == [
        (0, 10, Category.EFFECTIVE_TRAINING),
        (10, 14, Category.CHECKPOINT_BLOCKING),
        (14, 20, Category.EFFECTIVE_TRAINING),
    ]


def test_what_no_span_covers_is_unattributed() -> None:
    assert _pieces([_span(Phase.SHUTDOWN, 5, 8)], _inputs(10)) == [
        (0, 5, Category.UNATTRIBUTED),
        (5, 8, Category.SHUTDOWN),
        (8, 10, Category.UNATTRIBUTED),
    ]


def test_the_silent_tail_goes_before_what_is_repeated() -> None:
    inputs = _inputs(20, repeats=[(0, 15)], stalled_from=12)

    assert _pieces([_span(Phase.TRAIN_LOOP, 0, None)], inputs) == [
        (0, 12, Category.REPEATED_TRAINING),
        (12, 20, Category.STALLED),
    ]


def test_without_steps_the_first_loop_time_is_repeated() -> None:
    loop, evaluation = _span(Phase.TRAIN_LOOP, 0, None), _span(Phase.EVALUATION, 4, 10)

    assert _pieces([loop, evaluation], _inputs(20, repeat_budget_us=6)) == [
        (0, 4, Category.REPEATED_TRAINING),
        (4, 10, Category.EVALUATION),
        (10, 12, Category.REPEATED_TRAINING),
        (12, 20, Category.EFFECTIVE_TRAINING),
    ]


def test_a_compile_after_the_first_progress_is_a_recompile() -> None:
    compiles = [_span(Phase.PT2_COMPILE, begin, begin + 2) for begin in (2, 12)]

    pieces = _pieces([_span(Phase.TRAIN_LOOP, 0, None), *compiles], _inputs(20, first_progress=10))

    assert [category for _, _, category in pieces if "compile" in category] == [
        Category.PT2_COMPILE,
        Category.RECOMPILE,
    ]


def test_assigning_on_from_the_anchor_equals_assigning_from_nothing() -> None:
    loop = _span(Phase.TRAIN_LOOP, 0, None)
    saves = [_span(Phase.CHECKPOINT_BLOCKING, 10 * n, 10 * n + 3) for n in range(1, 200)]
    ownership, spans = Ownership(), [loop]
    for save in saves:
        spans.append(save)
        ownership.assign(spans, _inputs(save.begin + 5))
    fresh = Ownership()
    fresh.assign(spans, _inputs(1995))

    assert ownership.anchored_at > 1700
    assert (ownership.pieces, ownership.totals) == (fresh.pieces, fresh.totals)
    assert ownership.loop_pieces == fresh.loop_pieces
