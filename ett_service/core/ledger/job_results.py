"""A job's results: accelerators, shares, waits, recoveries, data quality and work done."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise

from ett_service.core.errors import refuse_negative
from ett_service.core.intervals import LARGEST_STORED, Interval, merged, outside
from ett_service.core.ledger.attempt_segments import AttemptSegments, OwnedLoops
from ett_service.core.ledger.attempts.attempt_events import (
    MOST_TERAFLOPS,
    TERA,
    AttemptEvents,
    WorkHours,
)
from ett_service.core.ledger.attempts.lifetimes import Lifetime
from ett_service.core.ledger.attempts.lives import NO_RESTARTS, Restarts
from ett_service.core.ledger.attempts.spans import NEVER, Span
from ett_service.core.ledger.results import (
    Gap,
    OwnedWait,
    Quality,
    Recovery,
    Segment,
    Share,
    Wait,
    Work,
    WorkDone,
)
from ett_service.core.ledger.runs import AttemptPart, RunSegments, by_owner, waits_inside
from ett_service.core.words import (
    BROKEN_HOOKS,
    Category,
    HookState,
    Outcome,
    Period,
    Phase,
)

UNHELD = frozenset({Category.SCHEDULING, Category.RESTART_WAIT})
"""Categories of an attempt in which no accelerator was held."""

MOST_GAPS = 100
"""Gaps that are named; the counts are of all."""

OPERATIONS_A_PARAMETER_AND_TOKEN = 6
"""Two for the forward pass and four for the backward pass (Kaplan et al., 2020)."""

_EXPECTED = (
    Phase.SCHEDULING,
    Phase.HARDWARE_SETUP,
    Phase.LAUNCHER_INIT,
    Phase.TRAIN_LOOP,
)

ShareKey = tuple[Category, Period, Phase | None]


def accelerators(lives: Sequence[Lifetime], job_gpus: int | None) -> list[int | None]:
    """Return each attempt's accelerators: its own, else an earlier cycle's, else the job's."""
    counts: list[int | None] = []
    inherited: dict[tuple[str, int], int] = {}
    for life in lives:
        allocation = life.events.key[:2]
        stated = started_with(life.events)
        if stated is not None:
            inherited[allocation] = stated
        counts.append(inherited.get(allocation, job_gpus))
    return counts


def started_with(attempt: AttemptEvents) -> int | None:
    """Return the accelerators that the attempt's latest ``attempt_started`` names."""
    named = [(at, event.gpus) for at, event in attempt.starts if event.gpus is not None]
    return max(named)[1] if named else None


def shares(
    parts: Sequence[AttemptPart], between: Sequence[Wait], gpus: Sequence[int | None]
) -> tuple[Share, ...]:
    """Return the job's time by category, period and phase, in order.

    *parts* are those of all its attempts, *between* the :func:`waits` of its runs, *gpus* the
    accelerators of each attempt; without all of them nothing is weighted.
    """
    sums = _Sums()
    counts = [count or 0 for count in gpus]
    for part, count in zip(parts, counts, strict=True):
        for (category, zone, phase), us in part.attempt_segments.ownership.totals.items():
            sums.us[category, part.periods[zone], phase, count] += us
    for wait in between:
        us, count = wait.end_at - wait.start_at, counts[wait.number]
        sums.us[Category.RESTART_WAIT, wait.period, None, count] += us
        sums.held_weighted_us[wait.period] += us * count if wait.held else 0
    return sums.rows(weighted=None not in gpus)


class _Sums:
    """Microseconds by share and by how many accelerators they count for."""

    def __init__(self) -> None:
        self.us: dict[tuple[Category, Period, Phase | None, int], int] = defaultdict(int)
        self.held_weighted_us: dict[Period, int] = defaultdict(int)  #: of waits between attempts

    def rows(self, *, weighted: bool) -> tuple[Share, ...]:
        rows: dict[ShareKey, list[int]] = {}
        for (category, period, phase, gpus), us in self.us.items():
            row = rows.setdefault((category, period, phase), [0, 0, 0])
            row[0] += us
            row[1] += us * gpus
            row[2] += 0 if category in UNHELD else us * gpus
        for period, weighted_us in self.held_weighted_us.items():
            rows[Category.RESTART_WAIT, period, None][2] += weighted_us
        return tuple(
            Share(*key, us, min(weighted_us, LARGEST_STORED), min(gpu_us, LARGEST_STORED))
            if weighted
            else Share(*key, us, None, None)
            for key, (us, weighted_us, gpu_us) in sorted(rows.items(), key=_share_order)
            if us
        )


def _share_order(item: tuple[ShareKey, list[int]]) -> tuple[str, str, str]:
    category, period, phase = item[0]
    return (category, period, phase or "")


def waits(run: RunSegments) -> tuple[Wait, ...]:
    """Cut the time between attempts where the attempt changes whose accelerators it counts for."""
    if not run.waits:
        return ()
    ended = sorted((life.end, life.number) for life in run.lifetimes.lives)
    return tuple(cut_waits(run.waits, ended, held_waits(run.lifetimes.lives)))


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
            pieces = [(piece, False) for piece in free] + [
                (piece, True) for piece in outside(span, free)
            ]
            for piece, is_held in sorted(pieces):
                yield Wait(*piece, period, latest, is_held)


def held_waits(lives: Sequence[Lifetime]) -> list[Interval]:
    """Return when an allocation was still held between two of its cycles, disjoint."""
    waits: list[Interval] = []
    latest: dict[tuple[str, int], Lifetime] = {}
    for life in lives:
        allocation = life.events.key[:2]
        before = latest.get(allocation)
        latest[allocation] = life
        if before is not None and before.end < life.begin:
            queued = [
                (span.begin, min(span.end, life.end))
                for span in life.events.by_phase.get(Phase.QUEUED, ())
            ]
            waits += outside((before.end, life.begin), queued)
    return merged(waits)


def recoveries(
    run: RunSegments,
    unchanged: Mapping[Interval, Mapping[Category, int]],
    owned_waits: Sequence[OwnedWait],
) -> tuple[Recovery, ...]:
    """Return a run's recoveries in order; *unchanged* has the parts of those that are as before.

    *owned_waits* are the run's, in order.
    """
    loop_ranges, segments = run.periods.loop_ranges, run.segments
    spans: list[tuple[Interval, int, int | None]] = [
        ((before.end, after.start), before.number, after.number)
        for before, after in pairwise(loop_ranges)
        if before.number != after.number
    ]
    if loop_ranges and run.ends > run.lifetimes.life(loop_ranges[-1].number).end:
        spans.append(((loop_ranges[-1].end, run.ends), loop_ranges[-1].number, None))
    return tuple(
        Recovery(
            interrupted=interrupted,
            resumed=resumed,
            start_at=span[0],
            end_at=span[1],
            parts_us=unchanged.get(span) or _parts_us(span, segments),
            owners_us=by_owner(waits_inside(span, owned_waits)),
            stalled_us=run.part(interrupted).attempt_segments.ownership.silent_tail_us,
            repeated_us=0 if resumed is None else _repeated_us(run, resumed),
            outcome=run.lifetimes.life(interrupted).outcome,
        )
        for span, interrupted, resumed in spans
    )


def _repeated_us(run: RunSegments, number: int) -> int:
    return run.part(number).attempt_segments.ownership.repeated_us


def _parts_us(span: Interval, segments: Sequence[Segment]) -> dict[Category, int]:
    parts_us: dict[Category, int] = defaultdict(int)
    for place in range(bisect_left(segments, (span[0],)), len(segments)):
        segment = segments[place]
        if segment.start_at >= span[1]:
            break
        parts_us[segment.category] += segment.end_at - segment.start_at
    return dict(parts_us)


def quality(
    owned_by: Sequence[OwnedLoops],
    gaps_of: Iterable[Sequence[Gap]],
    unattributed_us: int,
    clocks: Sequence[str],
    restarts: Restarts,
    *,
    gpus_unknown: bool,
) -> Quality:
    """Put together what the numbers of a job rest on; *clocks* are the producers corrected."""
    lives = [owned.life for owned in owned_by]
    missing = _missing(lives)
    gaps = [_of_no_instant("clock", f"producer {name}'s clock was corrected") for name in clocks]
    gaps += [_of_no_instant("missing_phase", f"no attempt reports {phase}") for phase in missing]
    gaps += islice(_restart_gaps(lives, restarts), MOST_GAPS)
    gaps += islice(chain.from_iterable(gaps_of), MOST_GAPS)
    return Quality(
        unattributed_us=unattributed_us,
        inferred_ends=sum(len(inferred(owned)) for owned in owned_by),
        ends_without_begin=sum(len(life.events.pairing.unmatched) for life in lives),
        clamped_spans=sum(len(life.events.clamped) for life in lives),
        clock_flags=len(clocks),
        unreported_restarts=len(restarts.unreported),
        restart_counts_disagree=len(restarts.disagreeing),
        steps_went_back=sum(len(life.events.steps_went_back()) for life in lives),
        missing_phases=missing,
        gpus_unknown=gpus_unknown,
        attempts_missing_hooks=sum(bool(broken_hooks(life.events)) for life in lives),
        gaps=tuple(gaps[:MOST_GAPS]),
    )


def _restart_gaps(lives: Iterable[Lifetime], restarts: Restarts) -> Iterator[Gap]:
    for life in lives if restarts != NO_RESTARTS else ():
        if life.events.key in restarts.unreported:
            detail = "a rank began anew, and nobody reported a restart"
            yield Gap("unreported_restart", life.number, life.begin, life.begin, detail)
        if life.events.key in restarts.disagreeing:
            detail = "ranks report different counts of restarts"
            yield Gap("restart_counts_disagree", life.number, life.begin, life.begin, detail)


def _missing(lives: Sequence[Lifetime]) -> tuple[Phase, ...]:
    expected = list(_EXPECTED)
    if any(life.outcome is Outcome.COMPLETED for life in lives):
        expected.append(Phase.SHUTDOWN)
    return tuple(
        phase for phase in expected if not any(life.events.by_phase.get(phase) for life in lives)
    )


def _of_no_instant(kind: str, detail: str) -> Gap:
    return Gap(kind, None, None, None, detail)


def inferred(owned: OwnedLoops) -> list[Span]:
    """Return the spans whose end was inferred; one still open in a running attempt is not."""
    life = owned.life
    running = life.outcome is Outcome.RUNNING
    return [
        span
        for span in life.events.loose
        if span.begin < life.end and not (running and owned.closing(span).at >= life.end)
    ]


def gaps(owned: OwnedLoops, segments: AttemptSegments) -> list[Gap]:
    """Return the gaps of one attempt in order of their begin."""
    life = owned.life
    unsorted = (
        *_inferred_gaps(owned), *_odd_gaps(life), *_hook_gaps(life), *_holes(life, segments)
    )  # fmt: skip
    return sorted(unsorted, key=_in_order)


def _inferred_gaps(owned: OwnedLoops) -> Iterator[Gap]:
    life = owned.life
    for span in inferred(owned)[:MOST_GAPS]:
        closing = owned.closing(span)
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
    for at, event in islice(life.events.pairing.unmatched.values(), MOST_GAPS):
        detail = f"the end of {event.phase} has no begin; it owns nothing"
        yield Gap("end_without_begin", life.number, at, at, detail, event.id)
    for begin, end in life.events.steps_went_back()[:MOST_GAPS]:
        detail = "steps went back, and nobody reported a restore"
        yield Gap("steps_went_back", life.number, begin, end, detail)
    for span in life.events.clamped[:MOST_GAPS]:
        detail = f"a span of {span.phase} starts after its end; its length is taken as 0"
        yield Gap("clamped_span", life.number, span.begin, span.begin, detail, span.event_id)


def broken_hooks(attempt: AttemptEvents) -> dict[str, HookState]:
    """Return the hooks of the attempt whose data is missing, by name."""
    hooks = attempt.attributes.hooks
    return {name: state for name, state in hooks.items() if state in BROKEN_HOOKS}


def _hook_gaps(life: Lifetime) -> Iterator[Gap]:
    for name, state in broken_hooks(life.events).items():
        why = "failed" if state is HookState.ERROR else "is missing in this version"
        detail = f"the hook {name} {why}: what it reports is missing, not zero"
        yield Gap("missing_hook", life.number, None, None, detail)


def _holes(life: Lifetime, segments: AttemptSegments) -> Iterator[Gap]:
    for start, end in segments.ownership.holes[:MOST_GAPS]:
        yield Gap("unattributed", life.number, start, end, "inside the attempt, under no span")


def _in_order(gap: Gap) -> tuple[int, int, str, str, str]:
    return (gap.start_at or 0, gap.end_at or 0, gap.kind, gap.detail, gap.event_id or "")


def work_done(
    attempts: Sequence[WorkHours], parameters: int | None, first_number: int = 0
) -> tuple[WorkDone, ...]:
    """Return by how much each attempt of a run raised its totals in each hour, in order.

    Totals that fall behind, as after a restart from a checkpoint, raise nothing until they pass
    what the run had reached. Where no attempt reports operations they are 6 x *parameters* x
    tokens (Kaplan et al., 2020).
    """
    raised = tuple(_raised(attempts, first_number))
    if not parameters or any(done.work.teraflops for done in raised):
        return raised
    return tuple(_with_operations(raised, parameters))


def _raised(attempts: Sequence[WorkHours], first_number: int) -> Iterator[WorkDone]:
    reached = Work()
    for number, hours in enumerate(attempts, first_number):
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


def training_flops(parameters: int, tokens: int) -> int:
    """Operations to train a dense transformer: ``6 P D``.

    From Kaplan and others (arXiv 2001.08361). It leaves out attention over the context, which is
    small beside the parameters of large models, and anything computed again. Raises ValueError if
    an argument is negative.
    """
    refuse_negative(parameters=parameters, tokens=tokens)
    return OPERATIONS_A_PARAMETER_AND_TOKEN * parameters * tokens


def _less(work: Work, other: Work) -> Work:
    return Work(*(high - low for high, low in zip(work, other, strict=True)))


def produced(work: Sequence[WorkDone]) -> Work:
    """Return the job's totals."""
    return Work(*map(sum, zip(*(hour.work for hour in work), strict=True))) if work else Work()
