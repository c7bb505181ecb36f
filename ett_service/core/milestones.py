"""Milestones: the instants of a job that a picture of it marks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ett_service.core.answer import AttemptLedger, JobLedger
from ett_service.core.event import CheckpointRestored, CheckpointSaved, Event
from ett_service.core.stages import by_attempt
from ett_service.core.vocabulary import Outcome


@dataclass(frozen=True, slots=True)
class Milestone:
    """Something that happened at an instant."""

    at: int
    number: int  #: of the attempt
    rank: int | None
    name: str  #: ``checkpoint_saved``, ``checkpoint_restored``, or how the attempt ended
    details: Mapping[str, object] = field(default_factory=dict)


def milestones(
    events: Iterable[Event], offsets: Mapping[str, int], ledger: JobLedger
) -> list[Milestone]:
    """Return checkpoints and the ends of attempts, in order of time.

    *ledger* is the fold of the same events and offsets.
    """
    given = by_attempt(events, offsets)
    found = []
    for attempt in ledger.attempts:
        for at, _, _, _, event in given[attempt.launch, attempt.attempt, attempt.cycle]:
            if isinstance(event, CheckpointSaved | CheckpointRestored):
                step = {"step": event.step}
                found.append(Milestone(at, attempt.number, event.rank, event.type, step))
        if attempt.outcome is not Outcome.RUNNING:
            found.append(_end(attempt))
    return sorted(found, key=lambda mark: (mark.at, mark.number, mark.name))


def _end(attempt: AttemptLedger) -> Milestone:
    details = {
        "origin": attempt.origin,
        "cause": attempt.cause,
        "evidence": None if attempt.evidence is None else attempt.evidence.text,
        "reason": attempt.reason,
    }
    known = {name: value for name, value in details.items() if value is not None}
    return Milestone(attempt.ended_at, attempt.number, None, attempt.outcome.value, known)
