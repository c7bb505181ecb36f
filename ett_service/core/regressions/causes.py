"""The cause that findings share, and costs of which each is counted once."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ett_service.core.regressions.finding import (
    PRECEDENCE,
    Attribution,
    Finding,
    Metric,
    Series,
    SeriesCohort,
    Subject,
    begets,
    overlaps,
)

_AS_SURE = 0.9  #: of what the first suspect explains
_NAMED = 0.5  #: score over which a marker's labels name the suspect


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
