"""Which findings have one cause, so that it is reported and counted once.

Time to start is made of phases, a phase of stages, and the whole project of cohorts: one slower
stage shows in all of them.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import (
    Attribution,
    Finding,
    Metric,
    Series,
    SeriesCohort,
    Subject,
    Verdict,
)
from ett_service.core.words import Phase

Onset: TypeAlias = tuple[Series, int]
"""A series, and since when it changed."""

NEAR_US = 5 * DAY_US
"""Changes with one cause are found to begin within this time."""

SAME_US = 2 * DAY_US
"""The change of a cohort and that of a wider one are the same if they begin within this time."""

_ALIKE = 2.0  #: times as large as the change of the wider cohort, in the logarithm, at most
_AS_SURE = 0.9  #: of what the first suspect explains
_NAMED = 0.5  #: score over which a marker's labels name the suspect

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


def comparable(cohort: SeriesCohort, other: SeriesCohort) -> bool:
    """Whether one cohort is part of the other, which names fewer dimensions."""
    return set(cohort) <= set(other) or set(other) <= set(cohort)


def explains(cause: Onset, effect: Onset) -> bool:
    """Whether a change makes another one no news."""
    near = abs(cause[1] - effect[1]) <= NEAR_US
    return near and overlaps(cause[0], effect[0]) and begets(cause[0].subject, effect[0].subject)


def overlaps(series: Series, other: Series) -> bool:
    """Whether jobs of one are jobs of the other."""
    return comparable(series.cohort, other.cohort)


def begets(cause: Subject, effect: Subject) -> bool:
    """Whether values of *effect* are made of those of *cause*, or hold the same ones.

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
    """Whether a finding that fires is the same news as another one that does.

    A regression is an incident of its own series that lasted, and one that costs too little grew;
    it also makes incidents and small changes of what it is part of.
    """
    near = _is_wider(cause, effect) or explains(
        (cause.series, cause.onset_us), (effect.series, effect.onset_us)
    )
    if cause.verdict is effect.verdict:
        return near
    is_less = cause.verdict is Verdict.REGRESSION and effect.verdict in _LESS
    return is_less and (near or cause.series == effect.series)


_LESS = frozenset({Verdict.INCIDENT, Verdict.SMALL})


def _is_wider(cause: Finding, effect: Finding) -> bool:
    """Whether a cohort's change is that of a wider one, and not a larger one of its own."""
    wide, narrow = _size(cause), _size(effect)
    return (
        cause.series.subject == effect.series.subject
        and set(cause.series.cohort) < set(effect.series.cohort)
        and abs(cause.onset_us - effect.onset_us) <= SAME_US
        and wide * narrow > 0
        and abs(narrow) <= _ALIKE * abs(wide)
    )


def _size(finding: Finding) -> float:
    ratio = finding.ratio
    return math.log(ratio) if 0 < ratio < math.inf else math.copysign(math.inf, ratio - 1)


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
    cohort: SeriesCohort


_NOTHING = Subject(Metric.PHASE_SECONDS)


def causes_of(findings: Sequence[tuple[Finding, Attribution]]) -> list[CommonCause]:
    """Return the cause of each finding: the suspect that it shares with others, or itself alone.

    Image and code version of one release explain the same. So findings share a cause where one of
    their likeliest suspects is the same, or a marker that names them. Its name is the suspect that
    comes first most often.
    """
    group = list(range(len(findings)))
    first_with: dict[tuple[str, ...], int] = {}
    for place, (_, attribution) in enumerate(findings):
        for sign in _signs(attribution):
            other = group[first_with.setdefault(sign, place)]
            group = [other if each == group[place] else each for each in group]
    return [_named(findings, group, place) for place in range(len(findings))]


def _signs(attribution: Attribution) -> Iterator[tuple[str, ...]]:
    """Yield what shows that two findings have one cause; nothing without suspects."""
    suspects = attribution.suspects
    for suspect in suspects:
        if suspect.explains >= _AS_SURE * suspects[0].explains:
            yield suspect.dimension, suspect.value
    for marker in attribution.markers:
        if suspects and marker.score > _NAMED:
            yield (marker.id,)


def _named(
    findings: Sequence[tuple[Finding, Attribution]], group: Sequence[int], place: int
) -> CommonCause:
    same = [each for each, of in zip(findings, group, strict=True) if of == group[place]]
    firsts = Counter(
        (suspect.dimension, suspect.value)
        for _, attribution in same
        for suspect in attribution.suspects[:1]
    )
    if not firsts:
        series = findings[place][0].series
        return CommonCause("", "", series.subject, series.cohort)
    ((dimension, value), _), *_ = firsts.most_common(1)
    return CommonCause(dimension, value, _NOTHING, ())


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
