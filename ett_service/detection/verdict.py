"""From a candidate to a finding: every condition is told, met or not."""

from dataclasses import dataclass

from ett_service.core.regressions.finding import Finding, Gate, Impact, Series, Verdict
from ett_service.detection.models.series_model import Change
from ett_service.detection.options import Options
from ett_service.detection.selection import (
    FALLEN,
    FEWEST_DAYS,
    IN_BURSTS,
    OUTLIVES,
    WORSE,
    Candidate,
)
from ett_service.detection.window import Window

FEWEST_SHARED_DAYS = 4
"""Days since the onset for several cohorts: nobody is left to tell a shock that they share from."""


@dataclass(frozen=True, slots=True)
class Context:
    """What is known of a candidate beside itself."""

    q: float  #: after correction for the number of series
    outage_like: bool
    relabelled: bool


def judged(candidate: Candidate, context: Context, window: Window, options: Options) -> Finding:
    """Tell what a candidate is, whichever gates it fails."""
    watch, group = candidate.watch, candidate.group
    change = watch.change(group, candidate.lasting.start, candidate.lasting.stop)
    gates = _gates(candidate, change, context, options)
    return Finding(
        series=Series(watch.subject, watch.groups.names[group]),
        verdict=_verdict(candidate, context),
        ratio=change.ratio,
        low=change.low,
        high=change.high,
        p=candidate.p,
        q=context.q,
        onset_us=window.at_us(candidate.lasting.start),
        before=change.before,
        after=change.after,
        gates=gates,
        impact=Impact(change.gpu_hours_per_week),
    )


def is_told(finding: Finding) -> bool:
    """Tell whether a finding passes what even an incident has to."""
    failed = {gate.name for gate in finding.gates if not gate.passed}
    if finding.verdict is Verdict.INCIDENT:
        failed -= OF_LASTING
    return not failed


FEWEST_OUTAGE_DAYS = 5
"""Days since the onset, where several phases changed together, and of what comes with outages."""

OF_LASTING = frozenset({"without_any_day", "still_there", "recent_values", "recent_days"})
"""Gates that bad days need not pass."""


def _verdict(candidate: Candidate, context: Context) -> Verdict:
    if not candidate.lasting.lasts:
        return Verdict.INCIDENT
    if context.relabelled:
        return Verdict.RELABELLING
    return Verdict.REGRESSION if candidate.sign == WORSE else Verdict.IMPROVEMENT


def _fewest_days(candidate: Candidate, context: Context) -> int:
    if context.outage_like or candidate.watch.subject.metric in IN_BURSTS:
        return FEWEST_OUTAGE_DAYS
    single = candidate.watch.groups.single[candidate.group]
    return FEWEST_DAYS if single else FEWEST_SHARED_DAYS


def _gates(
    candidate: Candidate, change: Change, context: Context, options: Options
) -> tuple[Gate, ...]:
    factor = change.worse if candidate.sign == WORSE else 1 / max(change.worse, 1e-9)
    part = None if change.part is None else candidate.sign * change.part
    before, after, lasting = change.before, change.after, candidate.lasting
    fewest = candidate.watch.fewest(options)
    return (
        _least("recent_values", after.n, fewest.recent),
        _least("baseline_values", before.n, fewest.baseline),
        _least("recent_days", after.days, _fewest_days(candidate, context)),
        Gate("p", candidate.p, options.q, candidate.p <= options.q),
        Gate("q", context.q, options.q, context.q <= options.q),
        _least("effect", factor, options.effect_floor),
        Gate("impact", part, options.impact_floor, part is None or part >= options.impact_floor),
        _least("without_any_day", lasting.without_one, OUTLIVES),
        Gate("still_there", lasting.fallen, FALLEN, lasting.fallen < FALLEN),
    )


def _least(name: str, value: float, limit: float) -> Gate:
    return Gate(name, float(value), float(limit), value >= limit)
