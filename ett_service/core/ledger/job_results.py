"""A job's numbers: its facts, accelerators, shares, recoveries and waits."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise

from ett_service.core.errors import refuse_negative
from ett_service.core.intervals import Interval, merged, outside
from ett_service.core.ledger.attempt_events import MOST_TERAFLOPS, TERA, AttemptEvents, WorkHours
from ett_service.core.ledger.attempt_segments import AttemptSegments, OwnedLoops
from ett_service.core.ledger.job_segments import JobSegments
from ett_service.core.ledger.lifetimes import Lifetime, queued_intervals
from ett_service.core.ledger.results import (
    Gap,
    Quality,
    Recovery,
    Segment,
    Share,
    Wait,
    Work,
    WorkDone,
)
from ett_service.core.ledger.spans import NEVER, Span
from ett_service.core.words import Category, Outcome, Period, Phase

UNHELD = frozenset({Category.SCHEDULING, Category.RESTART_WAIT})
"""Categories of an attempt in which no accelerator was held."""


def started_with(track: AttemptEvents) -> int | None:
    """Return the accelerators that the attempt's latest ``attempt_started`` names."""
    named = [(at, event.gpus) for at, event in track.starts if event.gpus is not None]
    return max(named)[1] if named else None


def accelerators(lives: Sequence[Lifetime], job_gpus: int | None) -> list[int | None]:
    """Return each attempt's accelerators: its own, an earlier cycle's, else the job's."""
    found: list[int | None] = []
    inherited: dict[tuple[str, int], int] = {}
    for life in lives:
        allocation = life.track.key[:2]
        own = started_with(life.track)
        if own is not None:
            inherited[allocation] = own
        found.append(inherited.get(allocation, job_gpus))
    return found


def held_waits(lives: Sequence[Lifetime]) -> list[Interval]:
    """Return when an allocation was still held between two of its cycles, disjoint."""
    found: list[Interval] = []
    latest: dict[tuple[str, int], Lifetime] = {}
    for life in lives:
        allocation = life.track.key[:2]
        before = latest.get(allocation)
        latest[allocation] = life
        if before is not None and before.end < life.begin:
            queued = [
                (span.begin, min(span.end, life.end))
                for span in life.track.by_phase.get(Phase.QUEUED, ())
            ]
            found += outside((before.end, life.begin), queued)
    return merged(found)


def cut_waits(
    between: Iterable[Segment], ended: Sequence[tuple[int, int]], held: Sequence[Interval]
) -> Iterator[Wait]:
    """Cut the time *between* attempts where the attempt changes whose accelerators it counts for.

    *ended* are the ends of the attempts with their numbers, in order; *held* is when an allocation
    was still held, disjoint.
    """
    for start, end, _, period, _ in between:
        place = bisect_right(ended, (start, NEVER))
        stop = bisect_left(ended, (end,))
        edges = [start, *(at for at, _ in ended[place:stop]), end]
        for span, (_, latest) in zip(pairwise(edges), ended[place - 1 : stop], strict=True):
            free = outside(span, held)
            pieces = [(one, False) for one in free] + [(one, True) for one in outside(span, free)]
            for piece, is_held in sorted(pieces):
                yield Wait(*piece, period, latest, is_held)


MOST = 2**63 - 1
"""What a weighted share is cut off at: stores keep no more, and no real job reaches it."""

ShareKey = tuple[Category, Period, Phase | None]


def shares(
    picture: JobSegments, between: Sequence[Wait], gpus: Sequence[int | None]
) -> tuple[Share, ...]:
    """Return the job's time by category, period and phase, in order.

    *between* are its :func:`waits`, *gpus* the accelerators of each attempt; without all of
    them nothing is weighted.
    """
    sums = _Sums()
    known = [count or 0 for count in gpus]
    for part, count in zip(picture.parts, known, strict=True):
        for (category, zone, phase), us in part.painting.canvas.totals.items():
            sums.us[category, part.periods[zone], phase, count] += us
    for wait in between:
        us, count = wait.end_at - wait.start_at, known[wait.number]
        sums.us[Category.RESTART_WAIT, wait.period, None, count] += us
        sums.held_weighted_us[wait.period] += us * count if wait.held else 0
    return sums.rows(known=None not in gpus)


def waits(picture: JobSegments) -> tuple[Wait, ...]:
    """Cut the time between attempts where the attempt changes whose accelerators it counts for."""
    if not picture.waits:
        return ()
    ended = sorted((life.end, life.number) for life in picture.found.lives)
    return tuple(cut_waits(picture.waits, ended, held_waits(picture.found.lives)))


class _Sums:
    """Microseconds by share and by how many accelerators they count for."""

    def __init__(self) -> None:
        self.us: dict[tuple[Category, Period, Phase | None, int], int] = defaultdict(int)
        self.held_weighted_us: dict[Period, int] = defaultdict(int)  #: of waits between attempts

    def rows(self, *, known: bool) -> tuple[Share, ...]:
        rows: dict[ShareKey, list[int]] = {}
        for (category, period, phase, gpus), us in self.us.items():
            row = rows.setdefault((category, period, phase), [0, 0, 0])
            row[0] += us
            row[1] += us * gpus
            row[2] += 0 if category in UNHELD else us * gpus
        for period, weighted_us in self.held_weighted_us.items():
            rows[Category.RESTART_WAIT, period, None][2] += weighted_us
        return tuple(
            Share(*key, us, min(weighted_us, MOST), min(gpu_us, MOST))
            if known
            else Share(*key, us, None, None)
            for key, (us, weighted_us, gpu_us) in sorted(rows.items(), key=_share_order)
            if us
        )


def _share_order(item: tuple[ShareKey, list[int]]) -> tuple[str, str, str]:
    category, period, phase = item[0]
    return (category, period, phase or "")


def queue_wait_us(picture: JobSegments, last_sign_at: int) -> int:
    """Return the union of all queued time before the job's first instant, in microseconds."""
    first = picture.first
    queued = merged(queued_intervals(picture.found, last_sign_at))
    return sum(min(end, first) - start for start, end in queued if start < first)


def recoveries(
    picture: JobSegments, kept: Mapping[Interval, Mapping[Category, int]]
) -> tuple[Recovery, ...]:
    """Return the recoveries in order; *kept* has the parts of those that cannot have changed."""
    stretches, segments = picture.periods.stretches, picture.segments
    spans: list[tuple[Interval, int, int | None]] = [
        ((before.end, after.start), before.number, after.number)
        for before, after in pairwise(stretches)
        if before.number != after.number
    ]
    if stretches and picture.ends > picture.found.lives[stretches[-1].number].end:
        spans.append(((stretches[-1].end, picture.ends), stretches[-1].number, None))
    paintings = [part.painting for part in picture.parts]
    return tuple(
        Recovery(
            interrupted=interrupted,
            resumed=resumed,
            start_at=span[0],
            end_at=span[1],
            parts_us=kept.get(span) or _parts_us(span, segments),
            stalled_us=paintings[interrupted].canvas.silent_tail_us,
            repeated_us=0 if resumed is None else paintings[resumed].canvas.repeated_us,
            outcome=picture.found.lives[interrupted].outcome,
        )
        for span, interrupted, resumed in spans
    )


def _parts_us(span: Interval, segments: Sequence[Segment]) -> dict[Category, int]:
    parts_us: dict[Category, int] = defaultdict(int)
    for place in range(bisect_left(segments, (span[0],)), len(segments)):
        segment = segments[place]
        if segment.start_at >= span[1]:
            break
        parts_us[segment.category] += segment.end_at - segment.start_at
    return dict(parts_us)


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


OPERATIONS_A_PARAMETER_AND_TOKEN = 6
"""Two for the forward pass and four for the backward pass (Kaplan et al., 2020)."""


def training_flops(parameters: int, tokens: int) -> int:
    """Operations to train a dense transformer: ``6 P D``.

    From Kaplan and others (arXiv 2001.08361). It leaves out attention over the context, which is
    small beside the parameters of large models, and anything computed again. Raises ValueError if
    an argument is negative.
    """
    refuse_negative(parameters=parameters, tokens=tokens)
    return OPERATIONS_A_PARAMETER_AND_TOKEN * parameters * tokens


def work_done(attempts: Sequence[WorkHours], parameters: int | None) -> tuple[WorkDone, ...]:
    """Return by how much each attempt raised the job's totals in each hour, in order.

    Totals that fall behind, as after a restart from a checkpoint, raise nothing until they pass
    what the job had reached. Where no attempt reports operations they are 6 x *parameters* x
    tokens (Kaplan et al., 2020).
    """
    raised = tuple(_raised(attempts))
    if not parameters or any(done.work.teraflops for done in raised):
        return raised
    return tuple(_with_operations(raised, parameters))


def _raised(attempts: Sequence[WorkHours]) -> Iterator[WorkDone]:
    reached = Work()
    for number, hours in enumerate(attempts):
        for hour in sorted(hours.highest):
            top = Work(*map(max, reached, hours.highest[hour]))
            if top != reached:
                yield WorkDone(hour, number, _less(top, reached))
            reached = top


def _with_operations(raised: Sequence[WorkDone], parameters: int) -> Iterator[WorkDone]:
    tokens = counted = 0
    for done in raised:
        tokens += done.work.tokens
        operations = training_flops(parameters, tokens)
        reached = min(MOST_TERAFLOPS, operations // TERA)
        yield done._replace(work=done.work._replace(teraflops=reached - counted))
        counted = reached


def produced(done: Sequence[WorkDone]) -> Work:
    """Return the job's totals."""
    return Work(*map(sum, zip(*(one.work for one in done), strict=True))) if done else Work()


def _less(one: Work, other: Work) -> Work:
    return Work(*(high - low for high, low in zip(one, other, strict=True)))
