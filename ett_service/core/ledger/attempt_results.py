"""Attempt ledgers: how each attempt began, ended and spent its time."""

from collections.abc import Mapping
from dataclasses import dataclass

from ett_service.core.events import Ending, JobEnded
from ett_service.core.ledger.attempt_segments import AttemptSegments
from ett_service.core.ledger.failures import Classification, classify
from ett_service.core.ledger.job_segments import AttemptPart
from ett_service.core.ledger.lifetimes import Lifetime
from ett_service.core.ledger.results import AttemptLedger, Checkpoint, Evidence
from ett_service.core.ledger.spans import NEVER
from ett_service.core.words import FAILURES, Basis, Category, Outcome

_LONGEST_SECONDS = 1e9
_TRAINED = (Category.EFFECTIVE_TRAINING, Category.REPEATED_TRAINING)


@dataclass(frozen=True, slots=True)
class Setting:
    """What the job knows of an attempt that its own events need not say."""

    gpus: int | None
    code_version: str | None
    basis: Basis


def unsaved_us(part: AttemptPart) -> int:
    """Return effective and repeated time after the last durable checkpoint, in microseconds."""
    life = part.own.life
    if life.outcome not in FAILURES:
        return 0
    saves = life.track.saves
    since = saves[-1][0] if saves else -NEVER
    total = 0
    for start, end, category, _ in reversed(part.painting.canvas.pieces):
        if end <= since:
            break
        if category in _TRAINED:
            total += end - max(start, since)
    return total


def _categories_us(painting: AttemptSegments) -> Mapping[Category, int]:
    found: dict[Category, int] = {}
    for (category, _, _), us in painting.canvas.totals.items():
        found[category] = found.get(category, 0) + us
    return {category: found[category] for category in Category if found.get(category)}


def _verdict(life: Lifetime) -> Classification | None:
    if life.outcome not in FAILURES:
        return None
    evidence: list[tuple[int, Ending]] = [*life.track.ends]
    if isinstance(life.deciding, JobEnded):
        evidence.append((life.end, life.deciding))
    return classify(life.outcome, life.deciding, evidence)


def code_version(life: Lifetime) -> str | None:
    """Return what the attempt's latest ``attempt_started`` names as its code version."""
    named = [
        (at, event.code_version)
        for at, event in life.track.starts
        if event.code_version is not None
    ]
    return max(named)[1] if named else None


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
            bytes=life.track.saved[name].bytes,
            duration_us=_whole_us(life.track.saved[name].duration_seconds),
        )
        for at, step, name in life.track.saves
    )


def _whole_us(seconds: float | None) -> int | None:
    return None if seconds is None else round(min(seconds, _LONGEST_SECONDS) * 1_000_000)


def attempt_ledger(part: AttemptPart, setting: Setting) -> AttemptLedger:
    """Put together what is to be said of one attempt."""
    life, track, painting = part.own.life, part.own.life.track, part.painting
    loops = part.own.loops
    verdict = _verdict(life)
    evidence: Evidence | None = verdict.evidence if verdict else None
    launch, attempt, cycle = track.key
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
        lead_rank=track.lead,
        loop_started_at=loops[0][0] if loops else None,
        last_heard_at=track.heard,
        last_step=track.progress[-1][1] if track.progress else None,
        unsaved_us=unsaved_us(part),
        silent_tail_us=painting.canvas.silent_tail_us,
        categories_us=_categories_us(painting),
        preempted_by=_preempted_by(life),
        stages=track.staged.sums((life.begin, life.end), track.by_phase, part.own.closings),
    )
