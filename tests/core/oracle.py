"""A slow second implementation of the definitions: all numbers of one job.

Every stretch of time gets its owner first (``oracle_ownership``); the numbers are sums of those.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from ett_service.core.events import AttemptStarted, CheckpointSaved, Event, JobEnded, JobFacts
from ett_service.core.ledger.attempts.lifetimes import Limits
from ett_service.core.words import FAILURES, Category, JobState, Origin, Period, Phase
from tests.core.oracle_lives import (
    Bounds,
    Life,
    Run,
    bounds,
    corrected,
    lives_of,
    runs_of,
    starts,
)
from tests.core.oracle_ownership import owned
from tests.core.oracle_pieces import (
    Ownership,
    Piece,
    Ticks,
    every_change,
    every_microsecond,
)
from tests.core.oracle_reported import reported_by
from tests.core.oracle_spans import spans_of
from tests.core.oracle_speed import speeds_of

__all__ = ["answer", "answers", "every_change", "every_microsecond"]

_NOT_HELD = (Category.SCHEDULING, Category.RESTART_WAIT)
_BEGINNING = [phase for phase in Phase if phase is not Phase.QUEUED]
_INFRA = (Origin.INFRA, Origin.PREEMPTION)


@dataclass
class OwnedRun:
    """One run: who owned its time, and how it left the job."""

    run: Run
    bound: Bounds
    state: JobState
    queue_wait: int
    ownership: Ownership

    @property
    def end(self) -> int:
        """Where it ends; one in which nothing began ends with its job."""
        return self.ownership.end if self.bound.lives else max(e.at for e in self.run.endings)


def answer(
    events: Iterable[Event],
    offsets: Mapping[str, int],
    as_of: int,
    limits: Limits | None = None,
    ticks: Ticks = every_change,
) -> dict[str, Any]:
    """All numbers of one job, in the shape of the conformance suite."""
    return answers(events, offsets, as_of, limits or Limits(), ticks)[0]


def answers(
    events: Iterable[Event],
    offsets: Mapping[str, int],
    as_of: int,
    limits: Limits,
    ticks: Ticks = every_change,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """All numbers of one job, and those of its runs."""
    stream = corrected(events, offsets)
    endings = [e for e in stream if isinstance(e, JobEnded)]
    as_of = max([as_of, *(e.at for e in stream if not isinstance(e, JobFacts))])
    runs: list[OwnedRun] = []
    for run in reversed(runs_of(lives_of(stream), endings)):
        run.until = min((r.ownership.first for r in runs if r.bound.lives), default=None)
        runs.insert(0, _owned_run(run, stream, as_of, limits, ticks))
    ownerships = [run.ownership for run in runs]
    facts = [e for e in stream if isinstance(e, JobFacts)]
    state = runs[-1].state
    whole = {
        "state": state.value,
        "provisional": state is not JobState.FINISHED,
        "queue_wait_us": sum(run.queue_wait for run in runs),
        **_summed([_numbers(ownership) for ownership in ownerships]),
        **_accelerators(ownerships, facts),
    }
    between = sum(max(0, b.run.sign - a.end) for a, b in pairwise(runs))
    return whole, {"between_runs_us": between, "runs": [_run(run, facts) for run in runs]}


def _owned_run(run: Run, stream: list[Event], as_of: int, limits: Limits, ticks: Ticks) -> OwnedRun:
    first = _first_instant(run, as_of, limits)
    bound = bounds(run, first or 0, as_of, limits)
    state = JobState.FINISHED if run.is_over else _state(bound, stream, as_of, limits)
    moves = state in (JobState.RUNNING, JobState.QUEUED)
    last = max(
        (as_of if life.end is None else life.end for life in bound.lives), default=first or 0
    )
    horizon = as_of if moves else max([last, *(e.at for e in stream)])
    for life in bound.queuing:
        life.end = horizon if bound.job_end is None else max(bound.job_end, life.heard)
    for life in bound.lives:
        life.end = as_of if life.end is None else life.end
    ownership = owned(bound, first, as_of if moves else last, ticks)
    wait = _queue_wait(run.lives, run.until if first is None else first)
    return OwnedRun(run, bound, state, wait, ownership)


def _summed(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Add up what runs have of everything: numbers, numbers by name, and lists."""
    sums = dict(runs[0])
    for run in runs[1:]:
        for name, amount in run.items():
            if isinstance(amount, dict):
                sums[name] = {word: sums[name][word] + us for word, us in amount.items()}
            elif sums[name] is None:
                sums[name] = amount
            elif amount is not None:
                sums[name] = sums[name] + amount
    return sums


def _run(run: OwnedRun, facts: list[JobFacts]) -> dict[str, Any]:
    numbers = _numbers(run.ownership)
    sizes = _sizes(run.ownership, facts)
    own = [life.number for life in run.bound.lives]
    return {
        "launches": {life.launch for life in run.run.lives},
        "attempts": own,
        "state": run.state.value,
        "started_us": run.ownership.first if own else None,
        "ended_us": run.ownership.end if own else None,
        "queue_wait_us": run.queue_wait,
        "effective_us": numbers["categories_us"]["effective_training"],
        "sign_us": run.run.sign if run.run.lives else None,
        **speeds_of(run.ownership, sizes, facts),
        "reported": [reported_by(life, run.ownership) for life in run.ownership.lives],
        **{
            name: numbers[name]
            for name in (
                "e2e_us", "time_to_start_us", "failures", "infra_failures", "unsaved_training_us"
            )
        },
    }  # fmt: skip


def _first_instant(run: Run, as_of: int, limits: Limits) -> int | None:
    begun = [life for life in run.lives if life.has_begun]
    if not begun:
        return None
    for start in starts(begun[0].stream, Phase.SCHEDULING):
        bounds(run, start, as_of, limits)
        if _exists(start, begun[0], as_of):
            if not any(
                before < start and _exists(before, life, as_of)
                for life in begun
                for before in starts(life.events, *_BEGINNING)
            ):
                return start
            break
    return min(life.raw_begin for life in begun)


def _exists(begin: int, life: Life, as_of: int) -> bool:
    return begin < (as_of if life.end is None else life.end)


def _state(bound: Bounds, stream: list[Event], as_of: int, limits: Limits) -> JobState:
    if any(life.end is None for life in bound.lives):
        return JobState.RUNNING
    if bound.job_end is not None:
        return JobState.FINISHED
    latest_end = max((life.over_at for life in bound.lives), default=None)
    waits = latest_end is None or any(life.heard >= latest_end for life in bound.queuing)
    signs = any(as_of - e.at < limits.queue_lost_after_us for e in stream)
    if waits and signs:
        return JobState.QUEUED
    ended_last = max(bound.lives, key=lambda x: (x.over_at, x.number or 0), default=None)
    if ended_last is not None and ended_last.outcome in FAILURES:
        return JobState.INTERRUPTED
    return JobState.FINISHED


def _queue_wait(lives: list[Life], first: int | None) -> int:
    waits = [
        (span.begin, span.end if first is None else min(span.end, first))
        for life in lives
        for span in spans_of(life, life.over_at)
        if span.phase is Phase.QUEUED
    ]
    edges = sorted({edge for wait in waits for edge in wait})
    return sum(b - a for a, b in pairwise(edges) if any(begin <= a < end for begin, end in waits))


def _numbers(ownership: Ownership) -> dict[str, Any]:
    pieces, loops = ownership.pieces, ownership.loops
    failed = [life for life in ownership.lives if life.outcome in FAILURES]
    periods = _sums(pieces, "period", Period)
    return {
        "e2e_us": ownership.end - ownership.first,
        "categories_us": _sums(pieces, "category", Category),
        "periods_us": periods,
        "time_to_start_us": periods["starting"] if loops else None,
        "recoveries": _recoveries(ownership),
        "failures": len(failed),
        "infra_failures": sum(life.origin in _INFRA for life in failed),
        "unsaved_training_us": sum(_unsaved(life, ownership) for life in failed),
        "attempts": [_attempt(life, ownership) for life in ownership.lives],
        "segments": _segments(pieces),
    }


def _sums(pieces: Iterable[Piece], name: str, words: Iterable[str] = ()) -> dict[str, int]:
    sums = {str(word): 0 for word in words}
    for piece in pieces:
        word = str(getattr(piece, name))
        sums[word] = sums.get(word, 0) + piece.us
    return sums


def _recoveries(ownership: Ownership) -> list[dict[str, Any]]:
    gaps = [
        (before[2], before[1], after[2], after[0])
        for before, after in pairwise(ownership.loops)
        if before[2] is not after[2]
    ]
    recoveries = [_recovery(ownership, *gap) for gap in gaps]
    if ownership.pieces and ownership.pieces[-1].period is Period.RECOVERING:
        _, end, life = ownership.loops[-1]
        recoveries.append(_recovery(ownership, life, end, None, ownership.end))
    return recoveries


def _recovery(
    ownership: Ownership, interrupted: Life, begin: int, resumed: Life | None, end: int
) -> dict[str, Any]:
    between = [piece for piece in ownership.pieces if begin <= piece.begin < end]
    return {
        "interrupted": interrupted.number,
        "resumed": None if resumed is None else resumed.number,
        "us": end - begin,
        "parts_us": _sums(between, "category"),
        "stalled_us": _silent(interrupted, ownership),
        "repeated_us": 0 if resumed is None else _repeated(resumed, ownership),
    }


def _silent(life: Life, ownership: Ownership) -> int:
    return sum(p.us for p in ownership.loop_time(life) if p.category is Category.STALLED)


def _repeated(life: Life, ownership: Ownership) -> int:
    return sum(p.us for p in ownership.loop_time(life) if p.category is Category.REPEATED_TRAINING)


def _unsaved(life: Life, ownership: Ownership) -> int:
    saves = [e.at for e in life.stream if isinstance(e, CheckpointSaved)]
    return sum(
        piece.us
        for piece in ownership.loop_time(life)
        if piece.category is not Category.STALLED and (not saves or piece.begin >= max(saves))
    )


def _attempt(life: Life, ownership: Ownership) -> dict[str, Any]:
    return {
        "number": life.number,
        "launch": life.launch,
        "attempt": life.attempt,
        "cycle": life.cycle,
        "started_us": life.begin,
        "ended_us": life.end,
        "outcome": str(life.outcome),
        "basis": str(ownership.basis[id(life)]),
        "categories_us": _sums((p for p in ownership.pieces if p.life is life), "category"),
    }


def _segments(pieces: list[Piece]) -> list[list[Any]]:
    def kind(piece: Piece) -> tuple[str, str, int | None]:
        return (
            str(piece.category),
            str(piece.period),
            piece.life.number if piece.life else None,
        )

    segments: list[list[Any]] = []
    for words, run in groupby(pieces, key=kind):
        same = list(run)
        segments.append([same[0].begin, same[-1].end, *words])
    return segments


def _accelerators(ownerships: list[Ownership], facts: list[JobFacts]) -> dict[str, Any]:
    weighted: dict[str, int] = {}
    held: dict[str, int] = {}
    for ownership in ownerships:
        sizes = _sizes(ownership, facts)
        if None in sizes.values():
            return {"gpus_unknown": True, "weighted_us": None, "gpu_us": None}
        for piece in ownership.pieces:
            gpus = sizes[id(piece.life or _ended_last(piece.begin, ownership))] or 0
            word = str(piece.category)
            weighted[word] = weighted.get(word, 0) + piece.us * gpus
            if _is_held(piece, ownership):
                held[word] = held.get(word, 0) + piece.us * gpus
    return {"gpus_unknown": False, "weighted_us": _not_zero(weighted), "gpu_us": _not_zero(held)}


def _ended_last(at: int, ownership: Ownership) -> Life:
    over = [life for life in ownership.lives if life.over_at <= at]
    return max(over, key=lambda life: (life.over_at, life.number or 0))


def _sizes(ownership: Ownership, facts: list[JobFacts]) -> dict[int, int | None]:
    timed_sizes = [(e.at, e.gpus) for e in facts if e.gpus is not None]
    job_gpus = max(timed_sizes)[1] if timed_sizes else None
    return {id(life): _size(life, ownership, job_gpus) for life in ownership.lives}


def _size(life: Life, ownership: Ownership, job_gpus: int | None) -> int | None:
    own_and_earlier = [
        x
        for x in ownership.lives
        if (x.launch, x.attempt) == (life.launch, life.attempt) and x.cycle <= life.cycle
    ]
    for x in reversed(own_and_earlier):
        timed_sizes = [
            (e.at, e.gpus) for e in x.stream if isinstance(e, AttemptStarted) and e.gpus is not None
        ]
        if timed_sizes:
            return max(timed_sizes)[1]
    return job_gpus


def _is_held(piece: Piece, ownership: Ownership) -> bool:
    if piece.life is not None:
        return piece.category not in _NOT_HELD
    return any(
        (before.launch, before.attempt) == (after.launch, after.attempt)
        and before.over_at <= piece.begin < after.begin
        and not any(
            span.phase is Phase.QUEUED and span.begin <= piece.begin < span.end
            for span in ownership.spans[id(after)]
        )
        for before, after in pairwise(ownership.lives)
    )


def _not_zero(sums: dict[str, int]) -> dict[str, int]:
    return {word: us for word, us in sums.items() if us}
