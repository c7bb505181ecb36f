"""From a candidate to a finding: every condition is told, met or not."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ett_service.core.fleet.decomposition import Times, decompose
from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import (
    Finding,
    Gate,
    Impact,
    Metric,
    Series,
    Subject,
    Verdict,
)
from ett_service.core.words import Category, Phase
from ett_service.detection.models.ett_ratio import SUBJECT as ETT
from ett_service.detection.models.ett_ratio import times
from ett_service.detection.models.registry import series_model
from ett_service.detection.models.series_model import Change, SeriesModel
from ett_service.detection.options import Memory, Options
from ett_service.detection.panel import Groups, comparable
from ett_service.detection.sample import Sample
from ett_service.detection.selection import (
    BETTER,
    FALLEN,
    FEWEST_DAYS,
    IN_BURSTS,
    OUTLIVES,
    WORSE,
    Candidate,
    Scores,
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


def finding_of(candidate: Candidate, context: Context, window: Window, options: Options) -> Finding:
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


def passes(finding: Finding) -> bool:
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


_NEAR_US = 5 * DAY_US  #: what one change brings about is found to begin within so long
_CHANGED_TOGETHER = 2.0  #: score of a phase that changed together with another
_OUTAGE_PHASES = 2  #: so many more phases of a cohort that change with it are rather an outage
_MOVED = 2.5  #: score of the phase that time went from or to
_BALANCED = 0.4  #: part of the time that moved that the other phase may differ by

_ORDER = (
    Metric.PHASE_SECONDS,
    Metric.CHECKPOINT_BLOCKING_SECONDS,
    Metric.UNSAVED_SECONDS,
    Metric.STAGE_SECONDS,
    Metric.FAILURES_PER_GPU_HOUR,
    Metric.TIME_TO_START_SECONDS,
    Metric.TIME_TO_RECOVER_SECONDS,
    Metric.ETT_RATIO,
)
"""What may explain others comes before them."""

Since = tuple[Series, int]
"""A series, and since when it changed."""


def without_explained(
    findings: Iterable[Finding], known: Mapping[Series, int], accepted: Mapping[Series, int]
) -> list[Finding]:
    """Leave out what another finding of the same verdict explains.

    What is *known* since an instant explains what began later, too, and what was *accepted* all
    that began before it was.
    """
    kept: list[Finding] = []
    ordered = sorted(findings, key=_precedence)
    for finding in ordered:
        mine = (finding.series, finding.onset_us)
        same = [(one.series, one.onset_us) for one in kept if one.verdict is finding.verdict]
        old = [(one, max(since, mine[1])) for one, since in known.items()]
        old += [(one, min(since, mine[1])) for one, since in accepted.items()]
        if not any(explains(cause, mine) for cause in (*same, *old)):
            kept.append(finding)
    return kept


def _precedence(finding: Finding) -> tuple[int, bool, float]:
    """Return what comes first: what explains others, and a cause of failures before all of them."""
    subject = finding.series.subject
    return _ORDER.index(subject.metric), not subject.cause, finding.p


def explains(cause: Since, effect: Since) -> bool:
    """Tell whether a change makes another one no news."""
    near = abs(cause[1] - effect[1]) <= _NEAR_US
    one, other = cause[0], effect[0]
    return near and comparable(one.cohort, other.cohort) and _begets(one.subject, other.subject)


def _begets(cause: Subject, effect: Subject) -> bool:
    """Tell whether values of *effect* are made of those of *cause*, or hold the same ones."""
    starts = cause.metric in {Metric.PHASE_SECONDS, Metric.STAGE_SECONDS}
    begins = starts and cause.phase != Phase.SHUTDOWN.value
    return {
        Metric.PHASE_SECONDS: False,
        Metric.UNSAVED_SECONDS: False,
        Metric.CHECKPOINT_BLOCKING_SECONDS: cause.phase == Phase.CHECKPOINT_BLOCKING.value,
        Metric.STAGE_SECONDS: cause.metric is Metric.PHASE_SECONDS and cause.phase == effect.phase,
        Metric.FAILURES_PER_GPU_HOUR: cause.metric is effect.metric and cause != effect,
        Metric.TIME_TO_START_SECONDS: begins,
        Metric.TIME_TO_RECOVER_SECONDS: starts or cause.metric is Metric.TIME_TO_START_SECONDS,
        Metric.ETT_RATIO: cause.metric is not Metric.ETT_RATIO,
    }[effect.metric]


def is_outage_like(candidate: Candidate, phases: Iterable[SeriesModel]) -> bool:
    """Tell whether other *phases* of the same jobs became slower on the same day.

    Code that is slower is slower in one place. What slows everything down is the machine, and
    mostly it is over after some days.
    """
    group, start = candidate.group, candidate.lasting.start
    slower = [
        other.subject
        for other in phases
        if other.subject != candidate.watch.subject
        and candidate.sign * other.since(group, start).score >= _CHANGED_TOGETHER
    ]
    return len(slower) >= _OUTAGE_PHASES


def is_relabelled(candidate: Candidate, others: Iterable[SeriesModel]) -> bool:
    """Tell whether one of *others* lost what the candidate gained, or gained what it lost."""
    group, start = candidate.group, candidate.lasting.start
    moved = _moved(candidate.watch, group, start)
    return any(
        -candidate.sign * other.since(group, start).score >= _MOVED
        and abs(moved + _moved(other, group, start)) <= _BALANCED * abs(moved)
        for other in others
    )


def are_beside(one: Subject, other: Subject) -> bool:
    """Tell whether time of one may be relabelled as the other's: phases, or stages of a phase."""
    if one.metric is not other.metric or one == other:
        return False
    return one.metric is Metric.PHASE_SECONDS or (
        one.metric is Metric.STAGE_SECONDS and one.phase == other.phase
    )


def _moved(watch: SeriesModel, group: int, start: int) -> float:
    change = watch.change(group, start, watch.days)
    return change.before.median * (change.ratio - 1)


MIX_PART = 0.7  #: of the change, that the mix explains
LEAST_POINTS = 0.01  #: of ETT%, as a part of 1, that the project's figure moved by
_TIME_TO_START = Subject(Metric.TIME_TO_START_SECONDS)
_ONE_GROUP = Groups(((),), np.ones((1, 1)), (True,))


def mixes(window: Window, looks: list[Scores], series: int, options: Options) -> Iterator[Finding]:
    """Yield what moved for the project as a whole, by the mix of its jobs alone."""
    together = replace(
        window, sample=_together(window), kept=np.atleast_2d(window.kept.any(axis=0))
    )
    for look in looks:
        subject = look.watch.subject
        whole = look.watch.groups.place(())
        if subject not in {_TIME_TO_START, ETT} or whole is None or window.baseline < 1:
            continue
        raw = Scores.at(series_model(subject, together, _ONE_GROUP, Memory()), options)
        for sign in (WORSE, BETTER):
            last, p = int(raw.of(sign).last[0]), float(raw.of(sign).p[0])
            if last and p * series <= options.q:
                found = _finding(window, raw.watch, look.watch, window.days - last, options)
                if found is not None:
                    yield replace(found, p=p, q=min(p * series, 1.0))


def _finding(
    window: Window, raw: SeriesModel, stratified: SeriesModel, start: int, options: Options
) -> Finding | None:
    change = raw.change(0, start, window.days)
    if raw.subject == ETT:
        moved, limit = abs(change.after.median - change.before.median), LEAST_POINTS
        part = _of_ett(window, start)
    else:
        moved, limit = max(change.worse, 1 / max(change.worse, 1e-9)), options.effect_floor
        part = _of_durations(raw, stratified, start)
    gates = (
        Gate("effect", moved, limit, moved >= limit),
        Gate("mix_part", part, MIX_PART, part >= MIX_PART),
    )
    if not all(gate.passed for gate in gates):
        return None
    return _told(window, raw, change, start, gates)


def _told(
    window: Window, raw: SeriesModel, change: Change, start: int, gates: tuple[Gate, ...]
) -> Finding:
    return Finding(
        series=Series(raw.subject, ()),
        verdict=Verdict.MIX,
        ratio=change.ratio,
        low=change.low,
        high=change.high,
        p=1.0,
        q=1.0,
        onset_us=window.at_us(start),
        before=change.before,
        after=change.after,
        gates=gates,
        impact=Impact(change.gpu_hours_per_week),
    )


def _of_durations(raw: SeriesModel, stratified: SeriesModel, start: int) -> float:
    """Return the part of the change that is not within cohorts and strata."""
    whole = stratified.groups.place(())
    moved = raw.since(0, start).effect
    if whole is None or not moved:
        return 0.0
    return 1 - stratified.since(whole, start).effect / moved


def _of_ett(window: Window, start: int) -> float:
    """Return the mix's part of the change of ETT%, by the decomposition."""
    assert window.sample.shares is not None
    counted = window.kept[:, window.of_sample].astype(np.float64)
    held, lost = times(window.sample.shares, window, counted)
    before, after = (
        {
            place: _times(float(held[place, days].sum()), float(lost[place, days].sum()))
            for place in range(len(held))
        }
        for days in (slice(0, start), slice(start, None))
    )
    split = decompose(before, after)
    mixed = sum(part.change for part in split.parts if part.category is None)
    return float(mixed / split.change) if split.change else 0.0


def _times(held: float, lost: float) -> Times:
    return {
        Category.EFFECTIVE_TRAINING: round(held - lost),
        Category.UNATTRIBUTED: round(lost),
    }


def _together(window: Window) -> Sample:
    """Return the sample as if all jobs were alike."""
    sample = window.sample
    durations = {}
    rows = sample.durations.get(_TIME_TO_START)
    if rows is not None:
        kept = window.kept[rows.cohort, np.clip(rows.day, 0, sample.days - 1)]
        durations[_TIME_TO_START] = replace(
            rows,
            day=np.where(kept, rows.day, -1).astype(np.int32),
            cohort=np.zeros_like(rows.cohort),
            stratum=np.zeros_like(rows.stratum),
        )
    shares = sample.shares
    if shares is not None:
        kept = window.kept[shares.cohort, np.clip(shares.day, 0, sample.days - 1)]
        shares = replace(
            shares,
            day=np.where(kept, shares.day, -1).astype(np.int32),
            cohort=np.zeros_like(shares.cohort),
        )
    return replace(sample, cohorts=((),), durations=durations, rates={}, shares=shares)
