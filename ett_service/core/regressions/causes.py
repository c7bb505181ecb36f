"""Which findings have one cause, so that it is reported and counted once.

Time to start is made of phases, a phase of stages, and the whole project of cohorts: one slower
stage shows in all of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import (
    Attribution,
    Cohort,
    Finding,
    Metric,
    Series,
    Subject,
    Suspect,
    Verdict,
)
from ett_service.core.words import Phase

Onset: TypeAlias = tuple[Series, int]
"""A series, and since when it changed."""

NEAR_US = 5 * DAY_US
"""Changes with one cause are found to begin within this time."""

PRECEDENCE = (
    Metric.CACHE_MISS_RATIO,
    Metric.PHASE_SECONDS,
    Metric.CHECKPOINT_BLOCKING_SECONDS,
    Metric.STEP_SECONDS,
    Metric.UNSAVED_SECONDS,
    Metric.STAGE_SECONDS,
    Metric.FAILURES_PER_GPU_HOUR,
    Metric.TIME_TO_START_SECONDS,
    Metric.TIME_TO_RECOVER_SECONDS,
    Metric.ETT_RATIO,
)
"""Metrics whose changes may explain others come first."""

_STARTS = frozenset({Metric.CACHE_MISS_RATIO, Metric.PHASE_SECONDS, Metric.STAGE_SECONDS})


def comparable(cohort: Cohort, other: Cohort) -> bool:
    """Tell whether one cohort is part of the other, which names fewer dimensions."""
    return set(cohort) <= set(other) or set(other) <= set(cohort)


def explains(cause: Onset, effect: Onset) -> bool:
    """Tell whether a change makes another one no news."""
    near = abs(cause[1] - effect[1]) <= NEAR_US
    return near and overlaps(cause[0], effect[0]) and begets(cause[0].subject, effect[0].subject)


def overlaps(series: Series, other: Series) -> bool:
    """Tell whether jobs of one are jobs of the other."""
    return comparable(series.cohort, other.cohort)


def begets(cause: Subject, effect: Subject) -> bool:
    """Tell whether values of *effect* are made of those of *cause*, or hold the same ones.

    Stages of one phase beget each other: one waits while the other works.
    """
    begins = cause.metric in _STARTS and cause.phase != Phase.SHUTDOWN.value
    return {
        Metric.CACHE_MISS_RATIO: False,
        Metric.PHASE_SECONDS: False,
        Metric.UNSAVED_SECONDS: False,
        Metric.CHECKPOINT_BLOCKING_SECONDS: cause.phase == Phase.CHECKPOINT_BLOCKING.value,
        Metric.STEP_SECONDS: False,
        Metric.STAGE_SECONDS: cause.metric in _STARTS
        and cause.phase == effect.phase
        and cause != effect,
        Metric.FAILURES_PER_GPU_HOUR: cause.metric is effect.metric and cause != effect,
        Metric.TIME_TO_START_SECONDS: begins,
        Metric.TIME_TO_RECOVER_SECONDS: cause.metric in _STARTS
        or cause.metric is Metric.TIME_TO_START_SECONDS,
        Metric.ETT_RATIO: cause.metric not in {Metric.ETT_RATIO, Metric.STEP_SECONDS},
    }[effect.metric]


def absorbs(cause: Finding, effect: Finding) -> bool:
    """Tell whether a finding that fires is the same news as another one that does.

    A regression is an incident of its own series that lasted, and one that costs too little grew.
    """
    if cause.verdict is effect.verdict:
        return explains((cause.series, cause.onset_us), (effect.series, effect.onset_us))
    if cause.verdict is not Verdict.REGRESSION:
        return False
    is_same = cause.series == effect.series
    if effect.verdict is Verdict.INCIDENT:
        return is_same
    near = explains((cause.series, cause.onset_us), (effect.series, effect.onset_us))
    return effect.verdict is Verdict.SMALL and (is_same or near)


def absorbers(findings: Sequence[Finding]) -> dict[int, int]:
    """Return, by the place of each finding that is no news beside another, the place of that one.

    *findings* are those that fire, the earliest first: of two that explain each other it stays.
    No answer is absorbed itself.
    """
    into: dict[int, int] = {}
    for place, effect in enumerate(findings):
        causes = (
            other
            for other, cause in enumerate(findings)
            if other != place
            and absorbs(cause, effect)
            and (other < place or not absorbs(effect, cause))
        )
        if (cause := next(causes, None)) is not None:
            into[place] = cause
    return {place: _root(into, place) for place in into}


def _root(into: Mapping[int, int], place: int) -> int:
    while place in into:
        place = into[place]
    return place


class CommonCause(NamedTuple):
    """The cause that findings share, as far as it is known; ``dimension`` is empty otherwise."""

    dimension: str
    value: str
    subject: Subject  #: empty where the dimension is known
    cohort: Cohort


_NOTHING = Subject(Metric.PHASE_SECONDS)


def cause_of(finding: Finding, attribution: Attribution) -> CommonCause:
    """Return the cause of a finding: its first suspect, or else itself alone."""
    first: Suspect | None = next(iter(attribution.suspects), None)
    if first is None:
        return CommonCause("", "", finding.series.subject, finding.series.cohort)
    return CommonCause(first.dimension, first.value, _NOTHING, ())


def counted_once(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings whose costs may be added: each with what no other one of them costs.

    Of time to start and its phases the phases count, and of a cohort and one that it is part of the
    wider; what the rest costs more than these stays. Those of which nothing is left are left out.
    """
    counted: list[Finding] = []
    for finding in sorted(findings, key=_from_cause_to_effect):
        parts = [other for other in counted if _holds(other.series, finding.series)]
        if (left := _without(finding, parts)) is not None:
            counted.append(left)
    return counted


def _without(finding: Finding, parts: Sequence[Finding]) -> Finding | None:
    """Take the costs of *parts* off a finding; None where nothing is left, or nobody knows."""
    if not parts:
        return finding
    impact = finding.impact
    whole = impact.gpu_hours_per_week or 0.0
    left = whole - sum(part.impact.gpu_hours_per_week or 0.0 for part in parts)
    if left <= 0:
        return None
    cost = None if impact.cost_per_week is None else impact.cost_per_week * left / whole
    return replace(finding, impact=replace(impact, gpu_hours_per_week=left, cost_per_week=cost))


def _from_cause_to_effect(finding: Finding) -> tuple[int, int, Series]:
    series = finding.series
    return PRECEDENCE.index(series.subject.metric), len(series.cohort), series


def _holds(other: Series, series: Series) -> bool:
    is_made_of = other.subject == series.subject or begets(other.subject, series.subject)
    return is_made_of and overlaps(other, series)
