"""An attempt's results: its ledger and checkpoints, why it failed, and people's corrections."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from ett_service.core.events import Ending, JobEnded
from ett_service.core.failures.rule import Evidence, Override, Rule, Strength
from ett_service.core.failures.rules import RULES
from ett_service.core.ledger.attempt_segments import AttemptSegments
from ett_service.core.ledger.attempts.attempt_events import Attributes
from ett_service.core.ledger.attempts.lifetimes import Lifetime
from ett_service.core.ledger.attempts.spans import NEVER
from ett_service.core.ledger.ownership import Ownership
from ett_service.core.ledger.results import AttemptLedger, Checkpoint, DataWait, JobLedger
from ett_service.core.ledger.runs import AttemptPart
from ett_service.core.words import (
    FAILURES,
    INFRA_ORIGINS,
    ORIGIN_OF_CAUSE,
    Basis,
    Category,
    Cause,
    Origin,
    Outcome,
)

_LONGEST_TEXT = 200
_FIRST_SIGNAL_EXIT = 129
_LAST_SIGNAL_EXIT = 192
_LONGEST_SECONDS = 1e9
_TRAINED = (Category.EFFECTIVE_TRAINING, Category.REPEATED_TRAINING)
_IN_LOOP = (*_TRAINED, Category.STALLED)


@dataclass(frozen=True, slots=True)
class Setting:
    """What an attempt takes from its job where its own events do not report it."""

    gpus: int | None
    code_version: str | None
    basis: Basis


@dataclass(frozen=True, slots=True)
class Classification:
    """Who a failure belongs to, what broke, and the evidence that decided."""

    origin: Origin
    cause: Cause
    evidence: Evidence


def attempt_ledger(part: AttemptPart, setting: Setting) -> AttemptLedger:
    """Return the ledger of one attempt."""
    life, events, segments = part.owned.life, part.owned.life.events, part.attempt_segments
    loops = part.owned.loops
    verdict = _verdict(life)
    evidence: Evidence | None = verdict.evidence if verdict else None
    launch, attempt, cycle = events.key
    return AttemptLedger(
        number=life.number,
        launch=launch,
        attempt=attempt,
        cycle=cycle,
        started_at=life.begin,
        ended_at=life.end,
        outcome=life.outcome,
        origin=verdict.origin if verdict else None,
        cause=verdict.cause if verdict else None,
        evidence=evidence,
        reason=life.deciding.reason if life.deciding else None,
        basis=setting.basis,
        gpus=setting.gpus,
        code_version=setting.code_version,
        lead_rank=events.lead,
        loop_started_at=loops[0][0] if loops else None,
        last_heard_at=events.heard,
        last_step=events.progress[-1][1] if events.progress else None,
        unsaved_us=unsaved_us(part),
        silent_tail_us=segments.ownership.silent_tail_us,
        categories_us=_categories_us(segments),
        preempted_by=_preempted_by(life),
        stages=events.staged.sums((life.begin, life.end), events.by_phase, part.owned.closings),
        data_wait=_data_wait(events.attributes, segments.ownership),
        telemetry_us=events.attributes.telemetry_us,
        hooks=events.attributes.hooks,
        compile_cache=events.attributes.compile_cache,
    )


def _data_wait(reported: Attributes, ownership: Ownership) -> DataWait | None:
    """Return the reported wait for data, cut to the loop time up to its last report."""
    if reported.data_wait_us is None:
        return None
    loop_us = sum(us for (word, _, _), us in ownership.totals.items() if word in _IN_LOOP)
    for start, end, category, _ in reversed(ownership.pieces):
        if end <= reported.data_wait_at:
            break
        if category in _IN_LOOP:
            loop_us -= end - max(start, reported.data_wait_at)
    return DataWait(min(reported.data_wait_us, loop_us), loop_us)


def _verdict(life: Lifetime) -> Classification | None:
    if life.outcome not in FAILURES:
        return None
    evidence: list[tuple[int, Ending]] = [*life.events.ends]
    if isinstance(life.deciding, JobEnded):
        evidence.append((life.end, life.deciding))
    return classify(life.outcome, life.deciding, evidence)


def code_version(life: Lifetime) -> str | None:
    """Return what the attempt's latest ``attempt_started`` names as its code version."""
    named = [
        (at, event.code_version)
        for at, event in life.events.starts
        if event.code_version is not None
    ]
    return max(named)[1] if named else None


def unsaved_us(part: AttemptPart) -> int:
    """Return effective and repeated time after the last durable checkpoint, in microseconds."""
    life = part.owned.life
    if life.outcome not in FAILURES:
        return 0
    saves = life.events.saves
    since = saves[-1][0] if saves else -NEVER
    total = 0
    for start, end, category, _ in reversed(part.attempt_segments.ownership.pieces):
        if end <= since:
            break
        if category in _TRAINED:
            total += end - max(start, since)
    return total


def _categories_us(segments: AttemptSegments) -> Mapping[Category, int]:
    totals: dict[Category, int] = {}
    for (category, _, _), us in segments.ownership.totals.items():
        totals[category] = totals.get(category, 0) + us
    return {category: totals[category] for category in Category if totals.get(category)}


def _preempted_by(life: Lifetime) -> str | None:
    if life.outcome is not Outcome.PREEMPTED or life.deciding is None:
        return None
    return life.deciding.preempted_by


def checkpoints(life: Lifetime) -> tuple[Checkpoint, ...]:
    """Return what the attempt saved, in order; two reports of one save are two."""
    return tuple(
        Checkpoint(
            id=name,
            number=life.number,
            saved_at=at,
            step=step,
            bytes=life.events.saved[name].bytes,
            duration_us=_whole_us(life.events.saved[name].duration_seconds),
        )
        for at, step, name in life.events.saves
    )


def _whole_us(seconds: float | None) -> int | None:
    return None if seconds is None else round(min(seconds, _LONGEST_SECONDS) * 1_000_000)


def classify(
    outcome: Outcome, deciding: Ending | None, evidence: Iterable[tuple[int, Ending]]
) -> Classification:
    """Judge a failure (*outcome* is one of ``FAILURES``).

    *deciding* is the event that gives outcome, origin and cause, None where the attempt was
    lost without one; what it reports stands, and the rules fill in only what it leaves out.
    *evidence* is every ending of the attempt with its instant, in any order.
    """
    if outcome is Outcome.PREEMPTED:
        evidence_used = Evidence("reported", "outcome=preempted", deciding.id if deciding else None)
        return Classification(Origin.PREEMPTION, Cause.PREEMPTION, evidence_used)
    origin = deciding.origin if deciding else None
    if deciding is not None and deciding.cause is not None:
        evidence_used = Evidence("reported", f"cause={deciding.cause}", deciding.id)
        return Classification(
            origin or ORIGIN_OF_CAUSE[deciding.cause], deciding.cause, evidence_used
        )
    initiating = _initiating(evidence)
    if initiating is not None:
        rule, evidence_used = initiating
        return Classification(
            origin or rule.origin or ORIGIN_OF_CAUSE[rule.cause], rule.cause, evidence_used
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
    for at, event in sorted(evidence, key=lambda ending: ending[0]):
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
        value, as_evidence = facts[rule.looks_at]
        match = rule.regex.search(value)
        if match is not None:
            return place, as_evidence or _line_around(value, match.start())
    return None


def _facts(
    text: str, state: str, signal: int | None, exit_code: int | None
) -> dict[str, tuple[str, str]]:
    """What each kind of rule looks at, and how it reads as evidence."""
    signal_text = f"signal={signal}"
    if signal is None and exit_code is not None:
        signal_text = f"exit_code={exit_code}"
        signal = _signal_of(exit_code)
    return {
        "text": (text, ""),
        "state": (state, f"scheduler_state={state[:_LONGEST_TEXT]}"),
        "signal": ("" if signal is None else str(signal), signal_text),
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


class AttemptKey(NamedTuple):
    """What names an attempt for good: its number moves when an earlier one becomes known."""

    launch: str
    attempt: int
    cycle: int


@dataclass(frozen=True, slots=True)
class FailureVerdict:
    """What a person says that a failure was."""

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
    of_infra = [
        attempt.number
        for attempt in attempts
        if attempt.outcome in FAILURES and attempt.origin in INFRA_ORIGINS
    ]
    runs = tuple(
        replace(run, infra_failures=sum(map(run.contains, of_infra))) for run in ledger.runs
    )
    return replace(ledger, attempts=attempts, infra_failures=len(of_infra), runs=runs)


def _judged(attempt: AttemptLedger, verdicts: Mapping[AttemptKey, FailureVerdict]) -> AttemptLedger:
    verdict = verdicts.get(AttemptKey(attempt.launch, attempt.attempt, attempt.cycle))
    if verdict is None or attempt.outcome not in FAILURES:
        return attempt
    override = Override(
        origin=verdict.origin,
        cause=verdict.cause,
        why=verdict.why,
        made_by=verdict.made_by,
        made_at=verdict.made_at,
        rules_origin=attempt.origin,
        rules_cause=attempt.cause,
    )
    return replace(attempt, origin=verdict.origin, cause=verdict.cause, verdict=override)
