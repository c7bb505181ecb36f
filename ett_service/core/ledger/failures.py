"""Failures: origin and cause from the evidence, and corrections by people."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from ett_service.core.events import Ending
from ett_service.core.ledger.failure_rules import RULES, Rule, Strength
from ett_service.core.ledger.results import AttemptLedger, Evidence, JobLedger, Override
from ett_service.core.words import FAILURES, INFRA_ORIGINS, ORIGIN_OF_CAUSE, Cause, Origin, Outcome


class AttemptKey(NamedTuple):
    """What names an attempt for good: its number moves when an earlier one becomes known."""

    launch: str
    attempt: int
    cycle: int


@dataclass(frozen=True, slots=True)
class FailureVerdict:
    """What somebody says that a failure was."""

    origin: Origin
    cause: Cause
    why: str
    made_by: str  #: the prefix of a key
    made_at: int


def corrected(ledger: JobLedger, verdicts: Mapping[AttemptKey, FailureVerdict]) -> JobLedger:
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


def _judged(attempt: AttemptLedger, verdicts: Mapping[AttemptKey, FailureVerdict]) -> AttemptLedger:
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


_LONGEST_TEXT = 200
_FIRST_SIGNAL_EXIT = 129
_LAST_SIGNAL_EXIT = 192


@dataclass(frozen=True, slots=True)
class Classification:
    """Who a failure belongs to, what broke, and the evidence that decided."""

    origin: Origin
    cause: Cause
    evidence: Evidence


def classify(
    outcome: Outcome, deciding: Ending | None, evidence: Iterable[tuple[int, Ending]]
) -> Classification:
    """Judge a failure (*outcome* is one of ``FAILURES``).

    *deciding* is the event that gives outcome, origin and cause, None where the attempt was
    lost without one; what it reports stands, and the rules fill in only what it leaves out.
    *evidence* is every ending of the attempt with its instant, in any order.
    """
    if outcome is Outcome.PREEMPTED:
        told = Evidence("reported", "outcome=preempted", deciding.id if deciding else None)
        return Classification(Origin.PREEMPTION, Cause.PREEMPTION, told)
    origin = deciding.origin if deciding else None
    if deciding is not None and deciding.cause is not None:
        told = Evidence("reported", f"cause={deciding.cause}", deciding.id)
        return Classification(origin or ORIGIN_OF_CAUSE[deciding.cause], deciding.cause, told)
    found = _initiating(evidence)
    if found is not None:
        rule, told = found
        return Classification(
            origin or rule.origin or ORIGIN_OF_CAUSE[rule.cause], rule.cause, told
        )
    if deciding is not None and origin is not None:
        return Classification(
            origin, Cause.UNKNOWN, Evidence("reported", f"origin={origin}", deciding.id)
        )
    cause = Cause.LOST_CONTACT if outcome is Outcome.LOST else Cause.UNKNOWN
    return Classification(
        Origin.UNKNOWN, cause, Evidence("none", "no rule matches what was reported")
    )


def _initiating(evidence: Iterable[tuple[int, Ending]]) -> tuple[Rule, Evidence] | None:
    """Return the rule and the evidence that came first among the strongest."""
    best: tuple[Strength, int, int, str, str] | None = None
    for at, event in sorted(evidence, key=lambda told: told[0]):
        if best is not None and best[0] is Strength.INITIATING and best[1] < at:
            break  # nothing later outranks it, and there may be thousands of ranks
        matched = first_match(
            _text(event.exception, event.message),
            event.scheduler_state or "",
            event.signal,
            event.exit_code,
        )
        if matched is not None:
            place, text = matched
            candidate = (RULES[place].strength, at, place, event.id, text)
            best = candidate if best is None else min(best, candidate)
    if best is None:
        return None
    _, _, place, event_id, text = best
    return RULES[place], Evidence(RULES[place].name, text, event_id)


def _text(exception: str | None, message: str | None) -> str:
    return ": ".join(part for part in (exception, message) if part)


@lru_cache(maxsize=4096)
def first_match(
    text: str, state: str, signal: int | None, exit_code: int | None
) -> tuple[int, str] | None:
    """Return the place of the first rule that matches and the evidence in words.

    Ranks of one job fail alike and every fold judges them again, hence the cache.
    """
    facts = _facts(text, state, signal, exit_code)
    for place, rule in enumerate(RULES):
        value, told = facts[rule.looks_at]
        found = rule.regex.search(value)
        if found is not None:
            return place, told or _line_around(value, found.start())
    return None


def _facts(
    text: str, state: str, signal: int | None, exit_code: int | None
) -> dict[str, tuple[str, str]]:
    """What each kind of rule looks at, and how it reads as evidence."""
    told_signal = f"signal={signal}"
    if signal is None and exit_code is not None:
        told_signal = f"exit_code={exit_code}"
        signal = _signal_of(exit_code)
    return {
        "text": (text, ""),
        "state": (state, f"scheduler_state={state[:_LONGEST_TEXT]}"),
        "signal": ("" if signal is None else str(signal), told_signal),
        "exit": ("" if exit_code is None else str(exit_code), f"exit_code={exit_code}"),
    }


def _signal_of(exit_code: int) -> int | None:
    """The signal that an exit code stands for: Python writes -9 and a shell 137."""
    if exit_code < 0:
        return -exit_code
    if _FIRST_SIGNAL_EXIT <= exit_code <= _LAST_SIGNAL_EXIT:
        return exit_code - _FIRST_SIGNAL_EXIT + 1
    return None


def _line_around(text: str, place: int) -> str:
    """The line of *text* that holds *place*, cut to a length that can be shown."""
    begin = max(text.rfind("\n", 0, place) + 1, place - _LONGEST_TEXT // 2)
    end = text.find("\n", place)
    return text[begin : len(text) if end < 0 else end][:_LONGEST_TEXT].strip()
