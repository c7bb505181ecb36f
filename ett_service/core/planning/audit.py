"""What every published definition makes of one log, and which of its records each rests on.

A definition ignores records if it says the same without them. It rests on those without which it
says something else. Both are tried, not derived: the job is folded again without the records.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
from ett_service.core.planning.definitions import definitions, one_logger_productive
from ett_service.core.words import Category

Pairs = Mapping[str, tuple[int, int]]
"""By definition: what it counts and over which time, in microseconds."""

_MOST_FOLDED: Final = 400_000
_FEWEST, _MOST = 10, 300
_EDGES: Final = (AttemptStarted, AttemptEnded, JobEnded, PhaseStarted, PhaseEnded)


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
