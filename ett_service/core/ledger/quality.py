"""Quality: what the numbers rest on, each gap named."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from ett_service.core.ledger.attempt_segments import AttemptSegments, OwnedLoops
from ett_service.core.ledger.lifetimes import Lifetime
from ett_service.core.ledger.results import Gap, Quality
from ett_service.core.ledger.spans import Span
from ett_service.core.words import Outcome, Phase

MOST_GAPS = 100
"""Gaps that are named; the counts are of all."""

_EXPECTED = (
    Phase.SCHEDULING,
    Phase.HARDWARE_SETUP,
    Phase.LAUNCHER_INIT,
    Phase.TRAIN_LOOP,
)


def inferred(own: OwnedLoops) -> list[Span]:
    """Return the spans whose end was inferred; one still open in a running attempt is not."""
    life = own.life
    running = life.outcome is Outcome.RUNNING
    return [
        span
        for span in life.track.loose
        if span.begin < life.end and not (running and own.closing(span).at >= life.end)
    ]


def _inferred_gaps(own: OwnedLoops) -> Iterator[Gap]:
    life = own.life
    for span in inferred(own)[:MOST_GAPS]:
        closing = own.closing(span)
        by_event = closing.event_id is not None and closing.at < life.end
        why = "a later event of the attempt" if by_event else "the end of the attempt"
        yield Gap(
            kind="inferred_end",
            number=life.number,
            start_at=span.begin,
            end_at=min(closing.at, life.end),
            detail=f"{span.phase} has no end; it ends with {why}",
            event_id=closing.event_id if by_event else span.event_id,
        )


def _odd_gaps(life: Lifetime) -> Iterator[Gap]:
    for at, event in islice(life.track.pairing.unmatched.values(), MOST_GAPS):
        detail = f"the end of {event.phase} has no begin; it owns nothing"
        yield Gap("end_without_begin", life.number, at, at, detail, event.id)
    for span in life.track.clamped[:MOST_GAPS]:
        detail = f"a span of {span.phase} starts after its end; its length is taken as 0"
        yield Gap("clamped_span", life.number, span.begin, span.begin, detail, span.event_id)


def _holes(life: Lifetime, painting: AttemptSegments) -> Iterator[Gap]:
    for start, end in painting.canvas.holes[:MOST_GAPS]:
        yield Gap("unattributed", life.number, start, end, "inside the attempt, under no span")


def gaps(own: OwnedLoops, painting: AttemptSegments) -> list[Gap]:
    """Return the gaps of one attempt in order of their begin."""
    found = [*_inferred_gaps(own), *_odd_gaps(own.life), *_holes(own.life, painting)]
    return sorted(found, key=_in_order)


def _in_order(gap: Gap) -> tuple[int, int, str, str, str]:
    return (gap.start_at or 0, gap.end_at or 0, gap.kind, gap.detail, gap.event_id or "")


def _of_no_instant(kind: str, detail: str) -> Gap:
    return Gap(kind, None, None, None, detail)


def _missing(lives: Sequence[Lifetime]) -> tuple[Phase, ...]:
    expected = list(_EXPECTED)
    if any(life.outcome is Outcome.COMPLETED for life in lives):
        expected.append(Phase.SHUTDOWN)
    return tuple(
        phase for phase in expected if not any(life.track.by_phase.get(phase) for life in lives)
    )


def quality(
    owns: Sequence[OwnedLoops],
    gaps_of: Iterable[Sequence[Gap]],
    unattributed_us: int,
    clocks: Sequence[str],
    *,
    gpus_unknown: bool,
) -> Quality:
    """Put together what the numbers of a job rest on; *clocks* are the producers corrected."""
    lives = [own.life for own in owns]
    missing = _missing(lives)
    named = [_of_no_instant("clock", f"producer {name}'s clock was corrected") for name in clocks]
    named += [_of_no_instant("missing_phase", f"no attempt reports {phase}") for phase in missing]
    named += islice(chain.from_iterable(gaps_of), MOST_GAPS)
    return Quality(
        unattributed_us=unattributed_us,
        inferred_ends=sum(len(inferred(own)) for own in owns),
        ends_without_begin=sum(len(life.track.pairing.unmatched) for life in lives),
        clamped_spans=sum(len(life.track.clamped) for life in lives),
        clock_flags=len(clocks),
        missing_phases=missing,
        gpus_unknown=gpus_unknown,
        gaps=tuple(named[:MOST_GAPS]),
    )
