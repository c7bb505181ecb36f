"""Verdicts: what each candidate is, and which findings others explain.

On a day of an outage a phase of a cohort was bad, or more failed for one cause, and then was well
again. What else changed in that cohort must have changed beside those days: an outage makes
attempts fail, lowers ETT%, and leaves a phase or two that look as if they had stayed slow.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import (
    PRECEDENCE,
    Finding,
    Gate,
    Metric,
    Series,
    Subject,
    Verdict,
    absorbs,
    explains,
)
from ett_service.detection.models import METRICS
from ett_service.detection.models.series_model import Change, SeriesModel
from ett_service.detection.sample import Flags, Options
from ett_service.detection.selection import (
    BETTER,
    FALLEN,
    FEWEST_DAYS,
    WORSE,
    Candidate,
)
from ett_service.detection.window import Window

FEWEST_SHARED_DAYS = 4
"""Days since the onset for several cohorts: no others are left to show a shock that they share."""

FEWEST_OUTAGE_DAYS = 5
"""Days since the onset, where several phases changed together, and of metrics in bursts."""

_LASTING_GATES = frozenset({"without_any_day", "still_there", "recent_values", "recent_days"})
"""Gates that an incident need not pass."""

_COST_GATES = frozenset({"impact"})
"""Gates that a small regression need not pass."""

_CHANGED_TOGETHER = 2.0  #: score of a phase that changed together with another
_OUTAGE_PHASES = 2  #: more phases of a cohort that change with it make an outage likely
_MOVED = 2.5  #: score of the phase that time went from or to
_BALANCED = 0.4  #: share of the moved time by which the other phase may differ

_OF_PHASES = frozenset({Metric.PHASE_SECONDS, Metric.CHECKPOINT_BLOCKING_SECONDS})
_OUTAGES_SHOW_IN = _OF_PHASES | {Metric.FAILURES_PER_GPU_HOUR}
_MOST_OUTAGE_DAYS = 7  #: a longer incident says nothing of other subjects
_DAYS_AFTER = 2  #: on which failures and ETT% are still those of an outage


@dataclass(frozen=True, slots=True)
class Context:
    """What is known of a candidate beside itself."""

    q: float  #: after correction for the number of series
    outage_like: bool
    relabelled: bool


def finding_of(candidate: Candidate, context: Context, window: Window, options: Options) -> Finding:
    """Return the finding of a candidate, whichever gates it fails."""
    model, group = candidate.model, candidate.group
    lasting, options = candidate.lasting, of_metric(options, model.subject.metric)
    change = model.change(group, lasting.start, lasting.stop)
    gates = _gates(candidate, change, context, options)
    return change.finding(
        Series(model.subject, model.groups.names[group]),
        _verdict(candidate, context, gates),
        window.at_us(lasting.start),
        gates=gates,
        p=candidate.p,
        q=context.q,
    )


def of_metric(options: Options, metric: Metric) -> Options:
    """Return the options of a search with the smallest effect of one metric."""
    part = METRICS[metric].floor * options.tuned.get(metric, 1.0)
    return replace(options, effect_floor=1 + (options.effect_floor - 1) * part)


def passes(finding: Finding) -> bool:
    """Whether a finding passes the gates that its verdict asks for."""
    failed = {gate.name for gate in finding.gates if not gate.passed}
    if finding.verdict is Verdict.INCIDENT:
        failed -= _LASTING_GATES
    if finding.verdict is Verdict.SMALL:
        failed -= _COST_GATES
    return not failed


def _verdict(candidate: Candidate, context: Context, gates: Iterable[Gate]) -> Verdict:
    if not candidate.lasting.lasts:
        return Verdict.INCIDENT
    if context.relabelled:
        return Verdict.RELABELLING
    if candidate.sign == BETTER:
        return Verdict.IMPROVEMENT
    is_cheap = any(gate.name in _COST_GATES and not gate.passed for gate in gates)
    return Verdict.SMALL if is_cheap else Verdict.REGRESSION


def _gates(
    candidate: Candidate, change: Change, context: Context, options: Options
) -> tuple[Gate, ...]:
    factor = change.worse if candidate.sign == WORSE else 1 / max(change.worse, 1e-9)
    part = None if change.part is None else candidate.sign * change.part
    before, after, lasting = change.before, change.after, candidate.lasting
    fewest = candidate.model.fewest(options)
    return (
        at_least("recent_values", after.n, fewest.recent),
        at_least("baseline_values", before.n, fewest.baseline),
        at_least("recent_days", after.days, _fewest_days(candidate, context)),
        Gate("p", candidate.p, options.q, candidate.p <= options.q),
        Gate("q", context.q, options.q, context.q <= options.q),
        at_least("effect", factor, options.effect_floor),
        of_cost(part, options),
        at_least("without_any_day", lasting.without_one, lasting.outlives),
        Gate("still_there", lasting.fallen, FALLEN, lasting.fallen < FALLEN),
    )


def _fewest_days(candidate: Candidate, context: Context) -> int:
    if context.outage_like or METRICS[candidate.model.subject.metric].in_bursts:
        return FEWEST_OUTAGE_DAYS
    single = candidate.model.groups.single[candidate.group]
    return FEWEST_DAYS if single else FEWEST_SHARED_DAYS


def of_cost(part: float | None, options: Options) -> Gate:
    """Return the gate of a cost as a part of the project's; an unknown one passes."""
    floor = options.impact_floor
    return Gate("impact", part, floor, part is None or part >= floor)


def at_least(name: str, value: float, limit: float) -> Gate:
    return Gate(name, float(value), float(limit), value >= limit)


def is_outage_like(candidate: Candidate, phases: Iterable[SeriesModel]) -> bool:
    """Whether other *phases* of the same jobs became slower on the same day.

    Code that is slower is slower in one place. What slows everything down is the machine, and
    mostly it is over after some days.
    """
    group, start = candidate.group, candidate.lasting.start
    slower = sum(
        other.subject != candidate.model.subject
        and candidate.sign * other.since(group, start).score >= _CHANGED_TOGETHER
        for other in phases
    )
    return slower >= _OUTAGE_PHASES


def is_relabelled(candidate: Candidate, others: Iterable[SeriesModel]) -> bool:
    """Whether one of *others* lost what the candidate gained, or gained what it lost."""
    group, start = candidate.group, candidate.lasting.start
    moved = _moved(candidate.model, group, start)
    return any(
        -candidate.sign * other.since(group, start).score >= _MOVED
        and abs(moved + _moved(other, group, start)) <= _BALANCED * abs(moved)
        for other in others
    )


def can_exchange_time(subject: Subject, other: Subject) -> bool:
    """Whether time may move between two subjects: phases, or stages of one phase."""
    if subject.metric is not other.metric or subject == other:
        return False
    return subject.metric is Metric.PHASE_SECONDS or (
        subject.metric is Metric.STAGE_SECONDS and subject.phase == other.phase
    )


def _moved(model: SeriesModel, group: int, start: int) -> float:
    change = model.change(group, start, model.days)
    return change.before.median * (change.ratio - 1)


def without_explained(
    findings: Iterable[Finding], open_since: Mapping[Series, int], accepted: Mapping[Series, int]
) -> list[Finding]:
    """Leave out the findings that are no news beside another one.

    An open finding explains what began later, too, and an accepted one all that began before it.
    """
    unexplained: list[Finding] = []
    for finding in sorted(findings, key=_precedence):
        effect = (finding.series, finding.onset_us)
        causes = [(series, max(since, effect[1])) for series, since in open_since.items()]
        causes += [(series, min(since, effect[1])) for series, since in accepted.items()]
        is_news = not any(absorbs(other, finding) for other in unexplained)
        if is_news and not any(explains(cause, effect) for cause in causes):
            unexplained.append(finding)
    return unexplained


def _precedence(finding: Finding) -> tuple[bool, int, bool, float]:
    """Sort what explains others first, and a cause of failures before all failures."""
    subject = finding.series.subject
    is_less = finding.verdict in {Verdict.INCIDENT, Verdict.SMALL}
    return is_less, PRECEDENCE.index(subject.metric), not subject.cause, finding.p


def is_outage(metric: Metric, verdict: Verdict, span: tuple[int, int]) -> bool:
    """Whether a finding's days, a span of microseconds, were an outage of its whole cohort."""
    is_short = span[1] - span[0] <= _MOST_OUTAGE_DAYS * DAY_US
    return verdict is Verdict.INCIDENT and metric in _OUTAGES_SHOW_IN and is_short


def outage_days(changes: Iterable[Candidate], earlier: Flags) -> Flags:
    """Return cohorts by days of the window on which a phase or a cause had an incident.

    *changes* are those of one search; *earlier* are the days that earlier runs found.
    """
    out = earlier.copy()
    for change in changes:
        lasting = change.lasting
        is_short = lasting.stop - lasting.start <= _MOST_OUTAGE_DAYS
        if change.model.subject.metric in _OUTAGES_SHOW_IN and is_short and not lasting.lasts:
            cohorts = np.flatnonzero(change.model.groups.members[change.group])
            out[cohorts, lasting.start : lasting.stop] = True
    return out


def beside_outages(changes: Sequence[Candidate], earlier: Flags) -> list[Candidate]:
    """Return the changes, those as incidents of which too little is left without outages."""
    outages = outage_days(changes, earlier)
    return [_beside(change, outages) for change in changes] if outages.any() else [*changes]


def _and_after(out: Flags) -> Flags:
    """Mark the days on which attempts end that began on marked ones, too."""
    return np.convolve(out, np.ones(_DAYS_AFTER + 1))[: len(out)] > 0


def _beside(change: Candidate, outages: Flags) -> Candidate:
    model, group, lasting = change.model, change.group, change.lasting
    out = outages[model.groups.members[group] > 0].any(axis=0)
    if METRICS[model.subject.metric].in_bursts:
        out = _and_after(out)
    late = np.arange(model.days) >= lasting.start
    if not lasting.lasts or not (out & late).any():
        return change
    whole = model.contrast(group, late, ~late).effect
    left = model.contrast(group, late & ~out, ~late & ~out)
    score = change.sign * left.score
    if score >= lasting.outlives and change.sign * (left.effect - whole / 2) >= 0:
        return change
    days = np.flatnonzero(out & late)
    left_over = score if score < lasting.outlives else 0.0
    return replace(
        change,
        lasting=replace(lasting, without_one=left_over, start=int(days[0]), stop=int(days[-1]) + 1),
    )
