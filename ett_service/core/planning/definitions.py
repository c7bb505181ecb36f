"""Other people's ratios, from the same ledger: what each counts, over which time, and from what.

Each is a pair ``(numerator_us, denominator_us)`` of integer microseconds, so that pairs of
several jobs can be added before the one division; a pair over 0 reads as a ratio of 0.

A definition ignores records if it says the same without them. It rests on those without which it
says something else. Both are tried, not derived: the job is folded again without the records.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, NamedTuple

from ett_service.core.events import (
    AttemptEnded,
    AttemptStarted,
    Event,
    JobEnded,
    PhaseEnded,
    PhaseStarted,
    Progress,
    SpanOver,
)
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Period, Phase

_RESCHEDULING = (Category.RESTART_WAIT, Category.SCHEDULING, Category.HARDWARE_SETUP)
_IN_STEPS = (Category.EFFECTIVE_TRAINING, Category.RECOMPILE, Category.STALLED)
_ITERATIONS = (*_IN_STEPS, Category.REPEATED_TRAINING)
_TRAINING = (Period.TRAINING,)

Pairs = Mapping[str, tuple[int, int]]
"""By definition: what it counts and over which time, in microseconds."""

_MOST_FOLDED: Final = 400_000
_FEWEST, _MOST = 10, 300
_EDGES: Final = (AttemptStarted, AttemptEnded, JobEnded, PhaseStarted, PhaseEnded)


def definitions(ledger: JobLedger) -> Mapping[str, tuple[int, int]]:
    """The four ratios that are reported beside ETT%, as exact pairs of microseconds.

    They need the ledger's shares and attempts, but not its segments.
    """
    return {
        "google_goodput": google_goodput(ledger),
        "cre_goodput": cre_goodput(ledger),
        "ettr": ettr(ledger),
        "megascale_rate": megascale_rate(ledger),
    }


def google_goodput(ledger: JobLedger) -> tuple[int, int]:
    """Productive step time over the time since the training program first started.

    As in ml-goodput-measurement: a step lasts until the next one begins, so a stall or a
    recompile makes a step longer and counts as productive; saves, evaluation and steps done
    again do not. Scheduling and hardware setup of a run's first attempt come before its clock.
    """
    productive = _us(ledger, _IN_STEPS, _TRAINING) - _silent_us(ledger)
    firsts = [ledger.attempts[run.first_attempt] for run in ledger.runs if run.attempts]
    scheduled = sum(
        first.categories_us.get(category, 0)
        for first in firsts
        for category in (Category.SCHEDULING, Category.HARDWARE_SETUP)
    )
    return productive, ledger.e2e_us - scheduled


def cre_goodput(ledger: JobLedger) -> tuple[int, int]:
    """``(t_w - t_ch - t_rm - t_re - t_save) / (t_w - t_re)``, not below 0.

    As in NVIDIA's Cluster Readiness Engine: the window ``t_w`` runs from the first step to the
    end; ``t_ch`` is work lost since the last checkpoint, ``t_re`` rescheduling (left out of the
    denominator, too), ``t_rm`` the rest of a recovery, and ``t_save`` blocking saves. Work lost
    is charged when it is lost, with the hang before it was noticed, so doing it again counts
    as productive.
    """
    recovering = _us(ledger, Category, [Period.RECOVERING])
    window = recovering + _us(ledger, Category, [Period.TRAINING, Period.ENDING])
    rescheduling = _us(ledger, _RESCHEDULING, [Period.RECOVERING])
    saving = _us(ledger, [Category.CHECKPOINT_BLOCKING], _TRAINING)
    lost = ledger.unsaved_us + _silent_us(ledger)
    return max(0, window - lost - recovering - saving), window - rescheduling


def ettr(ledger: JobLedger) -> tuple[int, int]:
    """Productive run time over wall time with the first wait in the queue.

    As in "Revisiting Reliability in Large-Scale Machine Learning Research Clusters" (Kokolis
    and others, arXiv 2410.21680), ``R / (Q + R + U)``: unproductive are starting again, catching
    up from a checkpoint, saving, and a hang before a failure was noticed. A scheduler sees no
    evaluation, recompile or stall inside a loop: they count as productive.
    """
    seen = _us(ledger, [*_IN_STEPS, Category.EVALUATION], _TRAINING)
    return seen - _silent_us(ledger), ledger.queue_wait_us + ledger.e2e_us


def megascale_rate(ledger: JobLedger) -> tuple[int, int]:
    """Iterations kept times their own length, over the time from the first step to the last.

    As in MegaScale (arXiv 2402.15627): what comes before the first loop and after the last one
    is in no part of it.
    """
    effective = _us(ledger, [Category.EFFECTIVE_TRAINING], _TRAINING)
    return effective, _us(ledger, Category, [Period.TRAINING, Period.RECOVERING])


def one_logger_productive(ledger: JobLedger) -> tuple[int, int]:
    """Training time that a checkpoint saved, over the time that the application ran.

    As nv-one-logger counts ``productive_train_iterations_sec``: the iterations of a process up to
    the begin of its last successful save. It publishes no ratio. It sees a process from its start
    to its end, so the time between attempts is in no part of it, and an iteration that is done
    again counts again, if it is saved.
    """
    saved: dict[int, int] = {}
    for each in ledger.checkpoints:
        begin_at = each.saved_at - (each.duration_us or 0)
        saved[each.number] = max(begin_at, saved.get(each.number, begin_at))
    productive = sum(
        max(0, min(segment.end_at, saved[segment.number]) - segment.start_at)
        for segment in ledger.segments
        if segment.category in _ITERATIONS and segment.number in saved
    )
    ran = sum(
        us
        for attempt in ledger.attempts
        for category, us in attempt.categories_us.items()
        if category not in _RESCHEDULING
    )
    return productive, ran


def _us(ledger: JobLedger, categories: Iterable[Category], periods: Iterable[Period]) -> int:
    counted = set(product(categories, periods))
    return sum(share.us for share in ledger.shares if (share.category, share.period) in counted)


def _silent_us(ledger: JobLedger) -> int:
    """Silent tails: stalled time that a loop owns, and no reported stall."""
    return sum(
        share.us
        for share in ledger.shares
        if share.category is Category.STALLED and share.phase is Phase.TRAIN_LOOP
    )


class RecordedEvent(NamedTuple):
    """An event, and the number of the record that says so."""

    event: Event
    record: int


class Without(NamedTuple):
    """What the definitions say without some records."""

    name: str  #: of the kind of events that is left out; of all kinds of a single record
    record: int  #: the first that is left out
    records: int  #: how many are
    pairs: Pairs


@dataclass(frozen=True, slots=True)
class JobAudit:
    """The definitions side by side, and what they rest on."""

    ledger: JobLedger
    pairs: Pairs
    kinds: tuple[Without, ...]  #: by kind of event, in alphabetical order
    records: tuple[Without, ...]  #: single ones that change ETT%, the greatest change first
    tried: int  #: how many single records were left out in turn
    of: int  #: how many there are


def ratio(pair: tuple[int, int]) -> float:
    """Return a ratio from its two parts; 0 over no time."""
    numerator, denominator = pair
    return numerator / denominator if denominator else 0.0


def ratios(ledger: JobLedger) -> Pairs:
    """Return every definition's pair, ours first."""
    effective = sum(s.us for s in ledger.shares if s.category is Category.EFFECTIVE_TRAINING)
    return {
        "ett_ratio": (effective, ledger.e2e_us),
        **definitions(ledger),
        "one_logger_productive": one_logger_productive(ledger),
    }


def kind_of(event: Event) -> str:
    """Name the kind of an event: a phase by its name, all stages as one, others by their type."""
    if isinstance(event, PhaseStarted | PhaseEnded | SpanOver):
        return str(event.phase) if event.stage is None else "stages"
    return event.type


def audit(events: Sequence[RecordedEvent], as_of: int) -> JobAudit:
    """Fold a job's events, then again without each kind of them and without single records.

    Single records are tried in the order of what they may move, as many as a fold of this size
    allows; ``tried`` says how many.
    """
    ledger = fold([each.event for each in events], {}, as_of)
    pairs = ratios(ledger)
    kinds = tuple(_without_kinds(events, as_of))
    moving = {each.name for each in kinds if each.pairs["ett_ratio"] != pairs["ett_ratio"]}
    candidates = _candidates(events, moving)
    most = max(_FEWEST, min(_MOST, _MOST_FOLDED // max(1, len(events))))
    singles = [_without_record(events, record, as_of) for record in candidates[:most]]
    decisive = [each for each in singles if each.pairs["ett_ratio"] != pairs["ett_ratio"]]
    whole = ratio(pairs["ett_ratio"])
    decisive.sort(key=lambda each: (-abs(ratio(each.pairs["ett_ratio"]) - whole), each.record))
    return JobAudit(
        ledger, pairs, kinds, tuple(decisive), len(singles), len({each.record for each in events})
    )


def ignored(pairs: Pairs, without: Without) -> list[str]:
    """Return the definitions that say the same without these records."""
    return [name for name, pair in pairs.items() if without.pairs[name] == pair]


def _without_kinds(events: Sequence[RecordedEvent], as_of: int) -> Iterable[Without]:
    records: dict[str, set[int]] = defaultdict(set)
    for event, record in events:
        records[kind_of(event)].add(record)
    for name in sorted(records):
        pairs = _folded_without(events, as_of, lambda each, name=name: kind_of(each.event) == name)  # type: ignore[misc]
        yield Without(name, min(records[name]), len(records[name]), pairs)


def _without_record(events: Sequence[RecordedEvent], record: int, as_of: int) -> Without:
    kinds = sorted({kind_of(each.event) for each in events if each.record == record})
    pairs = _folded_without(events, as_of, lambda each: each.record == record)
    return Without(", ".join(kinds), record, 1, pairs)


def _folded_without(
    events: Sequence[RecordedEvent], as_of: int, is_left_out: Callable[[RecordedEvent], bool]
) -> Pairs:
    return ratios(fold([each.event for each in events if not is_left_out(each)], {}, as_of))


def _candidates(events: Sequence[RecordedEvent], kinds: Collection[str]) -> list[int]:
    """Return the records of these kinds, those that may move most first."""
    weights: dict[int, int] = {}
    heard_at = 0
    for event, record in sorted(events, key=lambda each: each.event.at):
        if kind_of(event) in kinds:
            weights[record] = max(weights.get(record, 0), _weight(event, heard_at))
        if isinstance(event, Progress):
            heard_at = event.at
    return sorted(weights, key=lambda record: (-weights[record], record))


def _weight(event: Event, heard_at: int) -> int:
    """How much time may hang on an event: all of it on an edge."""
    if isinstance(event, _EDGES):
        return 1 << 62
    return event.at - event.start if isinstance(event, SpanOver) else max(0, event.at - heard_at)
