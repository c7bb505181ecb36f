"""Corrections by people: another origin and cause of a failure than the rules tell."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from ett_service.core.answer import AttemptLedger, JobLedger, Override
from ett_service.core.vocabulary import FAILURES, INFRA_ORIGINS, Cause, Origin


class AttemptKey(NamedTuple):
    """What names an attempt for good: its number moves when an earlier one becomes known."""

    launch: str
    attempt: int
    cycle: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What somebody says that a failure was."""

    origin: Origin
    cause: Cause
    why: str
    made_by: str  #: the prefix of a key
    made_at: int


def corrected(ledger: JobLedger, verdicts: Mapping[AttemptKey, Verdict]) -> JobLedger:
    """Return *ledger* with the *verdicts* in place of what the rules say of these attempts.

    Only failures have an origin and a cause: for another attempt a verdict waits, without
    effect. Outcomes and times stay as they are, so no law of the ledger is touched.
    """
    if not verdicts:
        return ledger
    attempts = tuple(_judged(attempt, verdicts) for attempt in ledger.attempts)
    return replace(
        ledger,
        attempts=attempts,
        infra_failures=sum(
            attempt.outcome in FAILURES and attempt.origin in INFRA_ORIGINS for attempt in attempts
        ),
    )


def _judged(attempt: AttemptLedger, verdicts: Mapping[AttemptKey, Verdict]) -> AttemptLedger:
    said = verdicts.get(AttemptKey(attempt.launch, attempt.attempt, attempt.cycle))
    if said is None or attempt.outcome not in FAILURES:
        return attempt
    override = Override(
        origin=said.origin,
        cause=said.cause,
        why=said.why,
        made_by=said.made_by,
        made_at=said.made_at,
        rules_origin=attempt.origin,
        rules_cause=attempt.cause,
    )
    return replace(attempt, origin=said.origin, cause=said.cause, verdict=override)
