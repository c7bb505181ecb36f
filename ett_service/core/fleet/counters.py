"""What one job moves the counters of ``/metrics`` by, and what of it is open now.

Gross time is who owned a second as it was reported; a deduction takes seconds out of a phase that
later facts gave to another category. So effective training is ``train_loop`` without what is
deducted from it. The names are keys: a family without ``ett_`` and ``_total``, its labels behind
``cluster`` and ``cohort`` after a colon, and of a histogram the bucket after ``#``, as in
``failures:infra/network`` and ``time_to_start_seconds#3``; ``#us`` is its sum. What counts seconds
is in microseconds.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from ett_service.core.fleet.instant_amounts import amounts_without_stops, checkpoint_stops
from ett_service.core.fleet.owned_time import Frame, fits, last_at
from ett_service.core.fleet.totals import DURATION_BOUNDS_US, FAILURE, PHASE, SAVE_BOUNDS_US
from ett_service.core.ledger.attempts.spans import NEVER
from ett_service.core.ledger.results import AttemptLedger, JobLedger, Share
from ett_service.core.words import CATEGORIES_OF, Category, HookState, Outcome, Phase

PHASES: tuple[str, ...] = (
    *(phase.value for phase in Phase if phase is not Phase.QUEUED),
    Category.RESTART_WAIT.value,
    Category.UNATTRIBUTED.value,
)
"""Values of the label ``phase``; they partition E2E."""

DEDUCTIONS: tuple[tuple[str, str], ...] = (
    (Phase.TRAIN_LOOP.value, Category.REPEATED_TRAINING.value),
    (Phase.TRAIN_LOOP.value, Category.STALLED.value),
    (Phase.PT2_COMPILE.value, Category.RECOMPILE.value),
)
"""From which phase later facts move seconds to which category."""

_BROKEN = {"missing_hook": HookState.MISSING, "failed_hook": HookState.ERROR}
_COUNTED_GAPS = {
    "unreported_restart": "unreported_restarts",
    "restart_counts_disagree": "restart_counts_disagree",
    "steps_went_back": "steps_went_back",
    "clock": "clock_flags",
    "end_without_begin": "ends_without_begin",
    "clamped_span": "clamped_spans",
}
"""Kinds of gaps that something has to be mended for, and how a job's quality counts them all."""

GAPS: tuple[str, ...] = (*_BROKEN, *_COUNTED_GAPS)
"""Values of the label ``kind``: attempts with a broken hook, and what senders did not report."""

BOUNDS_US: Mapping[str, tuple[int, ...]] = {
    "time_to_start_seconds": DURATION_BOUNDS_US,
    "time_to_recover_seconds": DURATION_BOUNDS_US,
    "phase_duration_seconds": DURATION_BOUNDS_US,
    "checkpoint_blocking_seconds": SAVE_BOUNDS_US,
}
"""Upper bounds by histogram; one more bucket holds what is longer than the last."""

OF_A_CLUSTER = frozenset({"failures", "phase_duration_seconds", "reporting_gaps"})
"""Families without the label ``cohort``."""

_STOPS = "checkpoint_blocking_seconds"
_TIMES = {
    "time_to_start": "time_to_start_seconds",
    "time_to_recover": "time_to_recover_seconds",
    "checkpoint_blocking": _STOPS,
}
BETWEEN_RUNS = "between_runs_seconds"
_AT_REFERENCE = "effective_speed_seconds:at_reference"
_SLOWED = "effective_speed_seconds:slowed"
_UNMEASURED = "effective_speed_seconds:unmeasured"
_DATA_WAIT = "data_wait_seconds"
_DATA_WAIT_LOOP = "data_wait_loop_seconds"
_SILENT = f"{Phase.TRAIN_LOOP}/{Category.STALLED}"
_OWNERS = {category: phase.value for phase, owned in CATEGORIES_OF.items() for category in owned}


class Seen(NamedTuple):
    """The latest duration in a bucket."""

    at_us: int
    us: int
    number: int  #: of the attempt


class CounterChange(NamedTuple):
    """One more for a counter at an instant, and the duration where it fills a bucket."""

    at_us: int
    key: str
    seen: Seen | None = None


@dataclass(frozen=True, slots=True)
class JobCounters:
    """What a job adds to the counters, by key, and the latest duration in each bucket."""

    sums: Mapping[str, int]
    seen: Mapping[str, Seen]


@dataclass(frozen=True, slots=True)
class SettledStops:
    """What the checkpoint stops of a job before an instant add to the counters.

    There are thousands of them in a job of weeks, and each fold changes only the last.
    """

    until: int = -NEVER
    sums: Mapping[str, int] = field(default_factory=dict)
    seen: Mapping[str, Seen] = field(default_factory=dict)


NO_STOPS = SettledStops()


@dataclass(frozen=True, slots=True)
class OpenWork:
    """What runs now: since when each phase has been open, and signs of life."""

    open_since: Mapping[str, int]
    heard: tuple[int, ...]  #: the last sign of each running attempt
    last_heard_at: int | None  #: of all attempts


def family_of(key: str) -> str:
    """Return the family that a key is of: ``failures`` of ``failures:infra/network``."""
    return key.partition("#")[0].partition(":")[0]


def sum_of(bucket: str) -> str:
    """Return the key of a histogram's sum, from that of one of its buckets."""
    return f"{bucket.partition('#')[0]}#us"


def job_counters(ledger: JobLedger, stops: SettledStops = NO_STOPS) -> JobCounters:
    """Return what the job adds to the counters; nothing where it is left out of the fleet.

    *stops* are those of the same ledger: only what comes after them is looked at. A running
    attempt's silent tail is not deducted: its next ``progress`` would take it back.
    """
    if not fits(ledger):
        return JobCounters({}, {})
    sums, seen = defaultdict(int, stops.sums), dict(stops.seen)
    frame = Frame(ledger)
    for share in ledger.shares:
        _add_share(sums, share, weighted=frame.known)
    for attempt in ledger.attempts:
        if attempt.outcome is Outcome.RUNNING:
            sums[f"deducted_seconds:{_SILENT}"] -= attempt.silent_tail_us
            weighted_us = attempt.silent_tail_us * frame.weights[attempt.number]
            sums[f"deducted_weighted_seconds:{_SILENT}"] -= weighted_us
    sums[BETWEEN_RUNS] += ledger.between_runs_us
    for _, key, amount in dated_amounts(ledger):
        sums[key] += amount
    for change in counter_changes(ledger, stops.until):
        _count(sums, seen, change)
    return JobCounters({key: amount for key, amount in sums.items() if amount}, seen)


def settled_stops(ledger: JobLedger, until: int, known: SettledStops = NO_STOPS) -> SettledStops:
    """Return what checkpoint stops before the instant *until* add to the counters.

    *known* ones that end no later go on, so the ledger must not differ from theirs before *until*.
    """
    if known.until > until:
        known = NO_STOPS
    sums, seen = defaultdict(int, known.sums), dict(known.seen)
    for at, number, *_, tally in checkpoint_stops(ledger, known.until):
        if at >= until:
            break
        assert number is not None
        assert tally is not None
        _count(sums, seen, _in_bucket(_STOPS, "", Seen(at, tally[2], number)))
    return SettledStops(until, sums, seen)


def _count(sums: defaultdict[str, int], seen: dict[str, Seen], change: CounterChange) -> None:
    sums[change.key] += 1
    if change.seen is not None:
        sums[sum_of(change.key)] += change.seen.us
        seen[change.key] = max(change.seen, seen.get(change.key, change.seen))


def open_work(ledger: JobLedger) -> OpenWork:
    """Return what is open as of the ledger."""
    running = [attempt for attempt in ledger.attempts if attempt.outcome is Outcome.RUNNING]
    opened: dict[str, int] = {}
    for attempt in running:
        phase_since = _open_phase(ledger, attempt)
        if phase_since is not None:
            phase, since = phase_since
            opened[phase] = min(since, opened.get(phase, since))
    heard = [attempt.last_heard_at for attempt in ledger.attempts]
    return OpenWork(
        opened, tuple(attempt.last_heard_at for attempt in running), max(heard, default=None)
    )


def reported_phase(category: Category, phase: Phase | None) -> str:
    """Return who owned a second as it was reported, as the label ``phase`` names it."""
    if category is Category.RESTART_WAIT:
        return Category.RESTART_WAIT.value
    return Category.UNATTRIBUTED.value if phase is None else phase.value


def owner(category: Category) -> str:
    """Return the same of a whole category; of ``stalled`` that of a reported stall."""
    return _OWNERS.get(category, category.value)


def _add_share(sums: defaultdict[str, int], share: Share, *, weighted: bool) -> None:
    phase = reported_phase(share.category, share.phase)
    sums[f"phase_seconds:{phase}"] += share.us
    deduction = (phase, share.category.value)
    is_deducted = deduction in DEDUCTIONS
    if is_deducted:
        sums[f"deducted_seconds:{phase}/{share.category}"] += share.us
    if not weighted or share.weighted_us is None or share.gpu_us is None:
        return
    sums[f"phase_weighted_seconds:{phase}/true"] += share.gpu_us
    sums[f"phase_weighted_seconds:{phase}/false"] += share.weighted_us - share.gpu_us
    if is_deducted:
        sums[f"deducted_weighted_seconds:{phase}/{share.category}"] += share.weighted_us


def counter_changes(ledger: JobLedger, stops_since: int = -NEVER) -> Iterator[CounterChange]:
    """Yield what is counted one by one: attempts that began, failures and durations.

    Checkpoint stops before *stops_since* are left out, and so is a phase that still goes on: it
    would fill one bucket after the other.
    """
    firsts = {run.first_attempt for run in ledger.runs}
    for attempt in ledger.attempts:
        start = "first" if attempt.number in firsts else "restart"
        yield CounterChange(attempt.started_at, f"attempts_started:{start}")
    goes_on = _going_on(ledger)
    amounts = chain(amounts_without_stops(ledger), checkpoint_stops(ledger, stops_since))
    for at, number, _, _, tally in amounts:
        if tally is None or number is None:
            continue
        name, _, us = tally
        if name.startswith(FAILURE):
            yield CounterChange(at, f"failures:{name.removeprefix(FAILURE)}")
        elif (bucketed := _histogram(name)) and (number, bucketed[1]) != goes_on:
            yield _in_bucket(*bucketed, Seen(at, us, number))


def dated_amounts(ledger: JobLedger) -> Iterator[tuple[int, str, int]]:
    """Yield instant, key and amount of what belongs to an instant and fills no bucket."""
    yield from _measured(ledger)
    for at, kind, count in _gaps(ledger):
        yield at, f"reporting_gaps:{kind}", count


def _gaps(ledger: JobLedger) -> Iterator[tuple[int, str, int]]:
    """Yield instant, kind and number of what was not reported.

    Gaps that the ledger does not list one by one, or that have no instant, lie where the job ends.
    """
    for attempt in ledger.attempts:
        states = {*attempt.hooks.values()}
        for kind, state in _BROKEN.items():
            if state in states:
                yield attempt.started_at, kind, 1
    listed: Counter[str] = Counter()
    for gap in ledger.quality.gaps:
        if gap.kind in _COUNTED_GAPS and gap.start_at is not None:
            listed[gap.kind] += 1
            yield gap.start_at, gap.kind, 1
    for kind, name in _COUNTED_GAPS.items():
        yield last_at(ledger), kind, getattr(ledger.quality, name) - listed[kind]


def _measured(ledger: JobLedger) -> Iterator[tuple[int, str, int]]:
    """Yield instant, key and microseconds of ended attempts: by speed, and waits for data.

    Those of a running attempt may still fall, as its reference does.
    """
    for attempt in ledger.attempts:
        if attempt.outcome is Outcome.RUNNING:
            continue
        for key, us in zip((_AT_REFERENCE, _SLOWED, _UNMEASURED), attempt.speed, strict=True):
            yield attempt.ended_at, key, us
        if attempt.data_wait is not None:
            yield attempt.ended_at, _DATA_WAIT, attempt.data_wait.us
            yield attempt.ended_at, _DATA_WAIT_LOOP, attempt.data_wait.loop_us


def _histogram(tally: str) -> tuple[str, str] | None:
    """Return the family that a tally's durations fill and the phase; None where there is none."""
    if tally.startswith(PHASE):
        return "phase_duration_seconds", tally.removeprefix(PHASE)
    return (_TIMES[tally], "") if tally in _TIMES else None


def _in_bucket(family: str, label: str, seen: Seen) -> CounterChange:
    key = f"{family}:{label}" if label else family
    return CounterChange(seen.at_us, f"{key}#{bisect_left(BOUNDS_US[family], seen.us)}", seen)


def _going_on(ledger: JobLedger) -> tuple[int, str] | None:
    """Return the running attempt that owns the time now, and the category of that."""
    last = ledger.segments[-1] if ledger.segments else None
    if last is None or last.number is None:
        return None
    if ledger.attempts[last.number].outcome is not Outcome.RUNNING:
        return None
    return last.number, last.category.value


def _open_phase(ledger: JobLedger, attempt: AttemptLedger) -> tuple[str, int] | None:
    """Return the phase that the attempt is in, and since when; None in no phase."""
    current: tuple[Category, int] | None = None
    for segment in reversed(ledger.segments):
        if segment.number != attempt.number:
            break
        if current and segment.category is not current[0]:
            break
        current = segment.category, segment.start_at
    if current is None or current[0] in {Category.UNATTRIBUTED, Category.RESTART_WAIT}:
        return None
    return owner(current[0]), current[1]
