"""The experiment that settles a finding: which two runs to launch, and what they say."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from glob import escape

from sqlalchemy import Connection

from ett_service.core.errors import EttError
from ett_service.core.regressions.confirmation import Settled, settle, spread, starts_needed
from ett_service.core.regressions.finding import Attribution, Finding
from ett_service.core.words import OTHER
from ett_service.detection.comparison.job_sets import JobSet, SetValue, values
from ett_service.storage.regressions.attempt_facts import AttemptFacts, attempt_facts

_ALIKE = ("hardware", "precision", "kind", "size", "start")
_VERSION = "code_version"
_MOST_READ = 200


class NotComparable(EttError):
    """Two runs cannot settle it."""

    hint = "`ett regressions confirm ID` says which runs to launch."


@dataclass(frozen=True, slots=True)
class Experiment:
    """Two versions to run side by side, and how often; unknown texts are empty."""

    dimension: str  #: in which the two runs differ
    before: str
    after: str
    cohort: Mapping[str, str]
    alike: Mapping[str, str]  #: what both runs share, as most attempts after the onset have it
    ratio: float
    sigma: float  #: standard deviation of the logarithms of durations
    starts: int  #: of each version, for 80 % power


@dataclass(frozen=True, slots=True)
class SettledRuns:
    """What two jobs say of a finding."""

    settled: Settled
    base_n: int
    n: int
    more: int  #: starts of each version that are still to be launched, for 80 % power


def finding_values(conn: Connection, project_id: int, finding: Finding) -> list[SetValue]:
    """Return the values of a finding's series on both sides of its onset, in order of time.

    None for a cohort beyond the daily cap, and where the metric is no duration.
    """
    cohort = dict(finding.series.cohort)
    if OTHER in cohort.values():
        return []
    where = {name: frozenset({value}) for name, value in cohort.items()}
    span = (finding.before.from_us, finding.after.to_us)
    return values(conn, project_id, JobSet(where), finding.series.subject, span)


def experiment(
    conn: Connection, project_id: int, finding: Finding, attribution: Attribution
) -> Experiment:
    """Return which two runs to launch.

    Raises:
        NotComparable: The finding has too few durations, or is of no durations.
    """
    before, after = _sides(conn, project_id, finding)
    sigma = _sigma(finding, before, after)
    facts = attempt_facts(conn, project_id, [_key(value) for value in (*before, *after)])
    earlier, later = (
        [facts[_key(each)] for each in side if _key(each) in facts] for side in (before, after)
    )
    dimension, value = _version(attribution, later)
    return Experiment(
        dimension=dimension,
        before=_most(
            fact.values.get(dimension, "")
            for fact in earlier
            if fact.values.get(dimension) != value
        ),
        after=value,
        cohort=dict(finding.series.cohort),
        alike={
            name: common
            for name in _ALIKE
            if name not in dict(finding.series.cohort)
            and (common := _most(fact.values.get(name, "") for fact in later))
        },
        ratio=finding.ratio,
        sigma=sigma,
        starts=starts_needed(finding.ratio, sigma),
    )


def settled_by(
    conn: Connection, project_id: int, finding: Finding, jobs: tuple[str, str], now_us: int
) -> SettledRuns:
    """Compare two jobs, the first of the version before the change.

    Raises:
        NotComparable: The finding is of no durations, or a job has none of its series.
    """
    sigma = _sigma(finding, *_sides(conn, project_id, finding))
    base, other = (_logs_of(conn, project_id, finding, job, now_us) for job in jobs)
    needed = starts_needed(finding.ratio, sigma)
    return SettledRuns(
        settle(base, other, ratio=finding.ratio, sigma=sigma),
        len(base),
        len(other),
        max(0, needed - min(len(base), len(other))),
    )


def _sides(
    conn: Connection, project_id: int, finding: Finding
) -> tuple[list[SetValue], list[SetValue]]:
    set_values = finding_values(conn, project_id, finding)
    before = [value for value in set_values if value.at_us < finding.onset_us]
    after = [value for value in set_values if value.at_us >= finding.onset_us]
    return before[-_MOST_READ:], after[-_MOST_READ:]


def _sigma(finding: Finding, before: Sequence[SetValue], after: Sequence[SetValue]) -> float:
    sigma = spread(_logs(before), _logs(after))
    if sigma is None or finding.ratio <= 0 or finding.ratio == 1:
        raise NotComparable("It has too few durations on a side to plan or settle by two runs.")
    return sigma


def _logs_of(
    conn: Connection, project_id: int, finding: Finding, job: str, now_us: int
) -> list[float]:
    wanted, span = JobSet(jobs=(escape(job),)), (finding.before.from_us, now_us)
    set_values = values(conn, project_id, wanted, finding.series.subject, span)
    if not set_values:
        raise NotComparable(f"The job {job} has no complete duration of the finding's series.")
    return _logs(set_values)


def _logs(set_values: Iterable[SetValue]) -> list[float]:
    return [math.log(value.us) for value in set_values]


def _key(value: SetValue) -> tuple[str, int]:
    return value.job, value.number


def _version(attribution: Attribution, later: Sequence[AttemptFacts]) -> tuple[str, str]:
    """Return what the second run has: the first suspect that one can choose, or the version."""
    for suspect in attribution.suspects:
        if any(fact.values.get(suspect.dimension) == suspect.value for fact in later):
            return suspect.dimension, suspect.value
    return _VERSION, _most(fact.values.get(_VERSION, "") for fact in later)


def _most(texts: Iterable[str]) -> str:
    counts = Counter(filter(None, texts))
    return min(counts, key=lambda text: (-counts[text], text), default="")
