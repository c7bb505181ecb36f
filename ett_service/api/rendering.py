"""Turns ledgers and rows into answers. Here, and only here, microseconds become seconds."""

from collections.abc import Iterable, Mapping
from typing import Any

from ett_service.api.answers import (
    AttemptAnswer,
    EvidenceAnswer,
    ExclusionAnswer,
    GapAnswer,
    IntervalAnswer,
    JobAnswer,
    JobSummary,
    LedgerAnswer,
    ProductivityAnswer,
    QualityAnswer,
    RecoveryAnswer,
    SegmentAnswer,
    VerdictAnswer,
)
from ett_service.core.dimensions import Facts
from ett_service.core.fleet.totals import ratio
from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.core.ledger.results import (
    FORMULA_VERSION,
    AttemptLedger,
    Evidence,
    Exclusion,
    Gap,
    JobLedger,
    Override,
    Quality,
    Recovery,
    Segment,
    Share,
)
from ett_service.core.planning.definitions import definitions
from ett_service.core.words import WASTED, Category, JobState, Period
from ett_service.fleet.economy import Productivity
from ett_service.fleet.uncertainty import Interval
from ett_service.storage.record.corrections import Correction


def seconds(us: float) -> float:
    """Divide microseconds, last."""
    return us / SECOND_US


def maybe_seconds(us: float | None) -> float | None:
    """Divide microseconds that may be unknown."""
    return None if us is None else seconds(us)


def maybe_instant(us: int | None) -> str | None:
    """Write an instant that may be unknown."""
    return None if us is None else rfc3339(us)


def interval_answer(interval: Interval | None, factor: float) -> IntervalAnswer | None:
    """Answer where a figure lies, in units of which *factor* make one of its own."""
    if interval is None:
        return None
    return IntervalAnswer(low=interval.low * factor, high=interval.high * factor)


def in_seconds(us: Mapping[Category, int]) -> dict[Category, float]:
    """Divide each of *us*, in the order of the vocabulary, without those that are 0."""
    return {category: seconds(us[category]) for category in Category if us.get(category)}


def summary(row: Any, training_us: tuple[int, int]) -> JobSummary:
    """Answer one row of ``storage.listing.jobs`` with its ``(wasted, all)`` training time."""
    return JobSummary(
        job=row.job,
        state=row.state,
        provisional=row.state != JobState.FINISHED,
        as_of=rfc3339(row.as_of_us),
        formula_version=row.formula_version,
        name=row.name,
        team=row.team,
        model=row.model,
        cluster=row.cluster,
        hardware=row.hardware,
        kind=row.kind,
        gpus=row.gpus,
        code_version=row.code_version,
        started_at=maybe_instant(row.started_us),
        ended_at=maybe_instant(row.ended_us),
        e2e_seconds=seconds(row.e2e_us),
        queue_wait_seconds=seconds(row.queue_wait_us),
        ett_ratio=ratio(row.effective_us, row.e2e_us),
        time_to_start_seconds=maybe_seconds(row.time_to_start_us),
        failures=row.failures,
        infra_failures=row.infra_failures,
        wasted_ratio=ratio(*training_us),
        unsaved_training_seconds=seconds(row.unsaved_us),
    )


def job_answer(
    job: str, ledger: JobLedger, exclusions: Iterable[Correction], produced: Productivity
) -> JobAnswer:
    """Answer everything about one job, with the *exclusions* that stand."""
    by_category = _sums(ledger.shares, "us")
    periods = dict.fromkeys(Period, 0)
    for share in ledger.shares:
        periods[share.period] += share.us
    return JobAnswer(
        job=job,
        **_facts(ledger.facts),
        **_numbers(ledger),
        ett_ratio=ratio(by_category[Category.EFFECTIVE_TRAINING], ledger.e2e_us),
        wasted_ratio=ratio(_wasted_in_training(ledger.shares), periods[Period.TRAINING]),
        categories={category: seconds(us) for category, us in by_category.items()},
        periods={period: seconds(us) for period, us in periods.items()},
        weighted_seconds=_weighted(ledger, "weighted_us"),
        gpu_seconds=_weighted(ledger, "gpu_us"),
        recoveries=[_recovery(recovery) for recovery in ledger.recoveries],
        attempts=[attempt_answer(attempt) for attempt in ledger.attempts],
        exclusions=[exclusion_answer(one) for one in exclusions],
        productivity=productivity_answer(produced),
        quality=_quality(ledger.quality, ledger.e2e_us),
        definitions={name: ratio(*pair) for name, pair in definitions(ledger).items()},
    )


def productivity_answer(found: Productivity) -> ProductivityAnswer:
    """Answer what time brought."""
    return ProductivityAnswer(
        tokens=found.tokens,
        samples=found.samples,
        tokens_per_second=found.tokens_per_second,
        tokens_per_second_per_accelerator=found.tokens_per_second_per_accelerator,
        samples_per_second=found.samples_per_second,
        samples_per_second_per_accelerator=found.samples_per_second_per_accelerator,
        mfu=found.mfu_ratio,
        useful_ratio=found.useful_ratio,
        cost_per_million_tokens=found.cost_per_million_tokens,
    )


def ledger_answer(job: str, ledger: JobLedger, segments: Iterable[Segment]) -> LedgerAnswer:
    """Answer the segments of one job."""
    return LedgerAnswer(
        job=job,
        state=ledger.state,
        provisional=ledger.provisional,
        as_of=rfc3339(ledger.as_of),
        e2e_microseconds=ledger.e2e_us,
        segments=[
            SegmentAnswer(
                start=rfc3339(segment.start_at),
                end=rfc3339(segment.end_at),
                category=segment.category,
                period=segment.period,
                number=segment.number,
                microseconds=segment.end_at - segment.start_at,
            )
            for segment in segments
        ],
    )


def exclusion_answer(exclusion: Correction) -> ExclusionAnswer:
    """Answer one window of a job's exclusion."""
    window = exclusion.window or Exclusion()
    return ExclusionAnswer(
        **{"from": maybe_instant(window.from_at), "to": maybe_instant(window.to_at)},
        why=exclusion.why,
        made_by=exclusion.made_by.key,
        made_by_name=exclusion.made_by.name,
        made_at=rfc3339(exclusion.made_at),
    )


def _facts(facts: Facts) -> dict[str, Any]:
    return {
        "name": facts.name,
        "team": facts.team,
        "model": facts.model,
        "cluster": facts.cluster,
        "hardware": facts.hardware,
        "gpus": facts.gpus,
        "kind": facts.kind,
        "code_version": facts.code_version,
        "image": facts.image,
        "owner": facts.owner,
        "submitted_at": maybe_instant(facts.submitted_at),
        "parameters": facts.parameters,
        "precision": facts.precision,
        "labels": facts.labels,
    }


def _numbers(ledger: JobLedger) -> dict[str, Any]:
    return {
        "state": ledger.state,
        "provisional": ledger.provisional,
        "as_of": rfc3339(ledger.as_of),
        "formula_version": FORMULA_VERSION,
        "outcome": ledger.outcome,
        "started_at": maybe_instant(ledger.started_at),
        "ended_at": maybe_instant(ledger.ended_at),
        "e2e_seconds": seconds(ledger.e2e_us),
        "queue_wait_seconds": seconds(ledger.queue_wait_us),
        "time_to_start_seconds": maybe_seconds(ledger.time_to_start_us),
        "failures": ledger.failures,
        "infra_failures": ledger.infra_failures,
        "unsaved_training_seconds": seconds(ledger.unsaved_us),
    }


def _sums(shares: Iterable[Share], member: str) -> dict[Category, int]:
    sums = dict.fromkeys(Category, 0)
    for share in shares:
        sums[share.category] += getattr(share, member) or 0
    return sums


def _weighted(ledger: JobLedger, member: str) -> dict[Category, float] | None:
    if ledger.quality.gpus_unknown:
        return None
    return in_seconds(_sums(ledger.shares, member))


def _wasted_in_training(shares: Iterable[Share]) -> int:
    return sum(
        share.us for share in shares if share.period is Period.TRAINING and share.category in WASTED
    )


def _recovery(recovery: Recovery) -> RecoveryAnswer:
    return RecoveryAnswer(
        interrupted=recovery.interrupted,
        resumed=recovery.resumed,
        started_at=rfc3339(recovery.start_at),
        ended_at=rfc3339(recovery.end_at),
        seconds=seconds(recovery.us),
        outcome=recovery.outcome,
        parts=in_seconds(recovery.parts_us),
        stalled_seconds=seconds(recovery.stalled_us),
        repeated_seconds=seconds(recovery.repeated_us),
    )


def attempt_answer(attempt: AttemptLedger) -> AttemptAnswer:
    """Answer one life of the job's training processes."""
    return AttemptAnswer(
        number=attempt.number,
        launch=attempt.launch,
        attempt=attempt.attempt,
        cycle=attempt.cycle,
        gpus=attempt.gpus,
        code_version=attempt.code_version,
        started_at=rfc3339(attempt.started_at),
        ended_at=rfc3339(attempt.ended_at),
        outcome=attempt.outcome,
        origin=attempt.origin,
        cause=attempt.cause,
        verdict=_verdict(attempt.verdict),
        evidence=_evidence(attempt.evidence),
        reason=attempt.reason,
        basis=attempt.basis,
        last_step=attempt.last_step,
        last_heard_at=rfc3339(attempt.last_heard_at),
        unsaved_training_seconds=seconds(attempt.unsaved_us),
        stalled_seconds=seconds(attempt.silent_tail_us),
        categories=in_seconds(attempt.categories_us),
    )


def _verdict(override: Override | None) -> VerdictAnswer | None:
    if override is None:
        return None
    return VerdictAnswer(
        origin=override.origin,
        cause=override.cause,
        why=override.why,
        made_by=override.made_by,
        made_at=rfc3339(override.made_at),
        rules_origin=override.rules_origin,
        rules_cause=override.rules_cause,
    )


def _evidence(evidence: Evidence | None) -> EvidenceAnswer | None:
    if evidence is None:
        return None
    return EvidenceAnswer(rule=evidence.rule, text=evidence.text, event_id=evidence.event_id)


def _quality(quality: Quality, e2e_us: int) -> QualityAnswer:
    return QualityAnswer(
        unattributed_ratio=ratio(quality.unattributed_us, e2e_us),
        inferred_ends=quality.inferred_ends,
        ends_without_begin=quality.ends_without_begin,
        clamped_spans=quality.clamped_spans,
        clock_flags=quality.clock_flags,
        missing_phases=list(quality.missing_phases),
        gpus_unknown=quality.gpus_unknown,
        gaps=[_gap(gap) for gap in quality.gaps],
    )


def _gap(gap: Gap) -> GapAnswer:
    return GapAnswer(
        kind=gap.kind,
        number=gap.number,
        started_at=None if gap.start_at is None else rfc3339(gap.start_at),
        ended_at=None if gap.end_at is None else rfc3339(gap.end_at),
        detail=gap.detail,
        event_id=gap.event_id,
    )
