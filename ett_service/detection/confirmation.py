"""The experiment that settles a finding: which two runs to launch, and what they say."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from sqlalchemy import Connection

from ett_service.core.errors import EttError
from ett_service.core.regressions.confirmation import (
    Chance,
    Settled,
    Start,
    chance,
    in_common,
    settle,
    starts_needed,
)
from ett_service.core.regressions.finding import Finding, Suspect
from ett_service.core.words import OTHER
from ett_service.detection.comparison.job_sets import JobSet
from ett_service.detection.comparison.set_figures import SetValue, values
from ett_service.storage.regressions.cohort_facts import (
    CACHE,
    START,
    AttemptFacts,
    attempt_facts,
)

_ALIKE = ("model", "hardware", "precision", "kind", "size")
_VERSION = "code_version"
_MOST_READ = 200
_ANY: Mapping[str, frozenset[str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Suspects:
    """What may be the cause of a finding, the likeliest first."""

    ranked: Sequence[Suspect]
    ruled_out: frozenset[str]  #: by earlier runs, as ``SettledRuns`` names them


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
    suspect: str  #: what the second has, such as ``code_version 2026.46``
    base_n: int  #: starts of the first that were compared
    n: int
    more: int  #: starts of each version, by other jobs, that are missing for 80 % power


def finding_values(
    conn: Connection,
    project_id: int,
    finding: Finding,
    alike: Mapping[str, frozenset[str]] = _ANY,
) -> list[SetValue]:
    """Return the values of a finding's series on both sides of its onset, in order of time.

    Those of attempts with values of these dimensions alone. None for a cohort beyond the daily
    cap, and where the metric is no duration.
    """
    cohort = dict(finding.series.cohort)
    if OTHER in cohort.values():
        return []
    where = {**alike, **{name: frozenset({value}) for name, value in cohort.items()}}
    span = (finding.before.from_us, finding.after.to_us)
    return values(conn, project_id, JobSet(where), finding.series.subject, span)


def experiment(
    conn: Connection, project_id: int, finding: Finding, suspects: Suspects
) -> Experiment:
    """Return which two versions to launch.

    Raises:
        NotComparable: The finding has too few durations, or is of no durations, or no suspect is
            left.
    """
    return _planned(conn, project_id, finding, suspects)[0]


def _planned(
    conn: Connection, project_id: int, finding: Finding, suspects: Suspects
) -> tuple[Experiment, Chance]:
    before, after = _sides(finding_values(conn, project_id, finding), finding)
    by_chance = chance(
        *([(each.job, math.log(each.us)) for each in side] for side in (before, after))
    )
    if by_chance is None or finding.ratio <= 0 or finding.ratio == 1:
        raise NotComparable("It has too few durations on a side to plan or settle by two runs.")
    earlier, later = (
        [start.facts for start in _known(conn, project_id, side)] for side in (before, after)
    )
    dimension, value = _suspected(suspects, later)
    planned = Experiment(
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
            for name in (*_ALIKE, START)
            if name not in dict(finding.series.cohort)
            and (common := _most(fact.values.get(name, "") for fact in later))
        },
        ratio=finding.ratio,
        sigma=by_chance.sigma,
        starts=starts_needed(finding.ratio, by_chance.sigma),
    )
    return planned, by_chance


def settled_by(
    conn: Connection, project_id: int, finding: Finding, suspects: Suspects,
    jobs: tuple[str, str], now_us: int,
) -> SettledRuns:  # fmt: skip
    """Compare jobs, the first without the change; a name may be a pattern like ``probe-old-*``.

    Raises:
        NotComparable: The finding is of no durations, a job has none of its series, or the jobs
            are not as ``experiment`` says: of the cohort, alike, and of two versions.
    """
    planned, by_chance = _planned(conn, project_id, finding, suspects)
    sides = [_launched(conn, project_id, finding, job, now_us) for job in jobs]
    _check_alike(planned, *sides)
    _check_versions(planned, *sides)
    state = [name for name in (START, CACHE) if name != planned.dimension]
    base, other = in_common(*([_start(run, state) for run in side] for side in sides))
    if not base:
        texts = (_states(side, state) for side in sides)
        raise NotComparable("They share no kind of start: {} beside {}.".format(*texts))
    fewest = min(len({start.job for start in side}) for side in (base, other))
    before, after = (
        [_start(each, state) for each in _known(conn, project_id, side)]
        for side in _sides(_like(conn, project_id, finding, planned, *sides), finding)
    )
    settled = settle(base, other, before=before, after=after, ratio=finding.ratio, chance=by_chance)
    return SettledRuns(
        settled,
        _named(planned.dimension, planned.after),
        len(base),
        len(other),
        max(0, planned.starts - fewest),
    )


class _Launched(NamedTuple):
    """A start, and what is known of it."""

    us: int
    facts: AttemptFacts


def _launched(
    conn: Connection, project_id: int, finding: Finding, job: str, now_us: int
) -> list[_Launched]:
    span = (finding.before.from_us, now_us)
    set_values = values(conn, project_id, JobSet(jobs=(job,)), finding.series.subject, span)
    launched = _known(conn, project_id, set_values)
    if not launched:
        raise NotComparable(f"The job {job} has no complete duration of the finding's series.")
    return launched


def _known(conn: Connection, project_id: int, set_values: Sequence[SetValue]) -> list[_Launched]:
    """Return the starts of values, as far as their attempts are known."""
    facts = attempt_facts(conn, project_id, [_key(value) for value in set_values])
    return [_Launched(each.us, facts[_key(each)]) for each in set_values if _key(each) in facts]


def _like(
    conn: Connection,
    project_id: int,
    finding: Finding,
    planned: Experiment,
    *sides: Sequence[_Launched],
) -> list[SetValue]:
    """Return what the finding was made of, as far as it is like the launched and none of them."""
    runs = [run for side in sides for run in side]
    alike = {
        name: frozenset(common)
        for name in _ALIKE
        if name != planned.dimension and (common := _values(runs, name))
    }
    jobs = {run.facts.job for run in runs}
    set_values = finding_values(conn, project_id, finding, alike)
    return [value for value in set_values if value.job not in jobs]


def _start(run: _Launched, state: Sequence[str]) -> Start:
    facts = run.facts
    return Start(facts.job, tuple(facts.values[name] for name in state), math.log(run.us))


def _states(side: Sequence[_Launched], state: Sequence[str]) -> str:
    """Name the kinds of start of one side: ``first hit and restart hit``."""
    kinds = {tuple(run.facts.values[name] for name in state) for run in side}
    return " and ".join(sorted(" ".join(filter(None, kind)) or "unknown" for kind in kinds))


def _check_alike(
    planned: Experiment, base: Sequence[_Launched], other: Sequence[_Launched]
) -> None:
    """Refuse jobs that are not of the cohort, or that differ in more than the version."""
    if both := {run.facts.job for run in base} & {run.facts.job for run in other}:
        raise NotComparable(f"The job {min(both)} is on both sides.")
    for run in (*base, *other):
        for name, value in planned.cohort.items():
            if run.facts.values.get(name, "") != value:
                wanted = f"{name}:{value or '(unknown)'}"
                raise NotComparable(f"The job {run.facts.job} is not of the cohort {wanted}.")
    for name in _ALIKE:
        first, second = (_values(side, name) for side in (base, other))
        if name != planned.dimension and first and second and first != second:
            texts = " and ".join(", ".join(sorted(values)) for values in (first, second))
            raise NotComparable(f"They differ in {name}: {texts}.")


def _check_versions(
    planned: Experiment, base: Sequence[_Launched], other: Sequence[_Launched]
) -> None:
    """Refuse two sides of one version, and a version that the experiment does not ask for."""
    name, changed = planned.dimension, planned.after
    first, second = (_values(side, name) for side in (base, other))
    if both := first & (second | {changed}):
        raise NotComparable(
            f"The first job has {name} {min(both)}, which is to be that of the second."
        )
    if changed and (wrong := second - {changed}):
        raise NotComparable(f"The second job has {name} {min(wrong)}, not {changed}.")


def _values(side: Sequence[_Launched], name: str) -> set[str]:
    return {run.facts.values.get(name, "") for run in side} - {""}


def _sides(
    set_values: Sequence[SetValue], finding: Finding
) -> tuple[list[SetValue], list[SetValue]]:
    """Return the latest values before the onset, and the latest of all."""
    before = [value for value in set_values if value.at_us < finding.onset_us]
    after = [value for value in set_values if value.at_us >= finding.onset_us]
    return before[-_MOST_READ:], after[-_MOST_READ:]


def _key(value: SetValue) -> tuple[str, int]:
    return value.job, value.number


def _suspected(suspects: Suspects, later: Sequence[AttemptFacts]) -> tuple[str, str]:
    """Return what the second run has: the first suspect that one can choose, or the version."""
    known = [
        (suspect.dimension, suspect.value)
        for suspect in suspects.ranked
        if any(fact.values.get(suspect.dimension) == suspect.value for fact in later)
    ]
    known.append((_VERSION, _most(fact.values.get(_VERSION, "") for fact in later)))
    for dimension, value in known:
        if _named(dimension, value) not in suspects.ruled_out:
            return dimension, value
    texts = ", ".join(sorted(suspects.ruled_out))
    raise NotComparable(f"No suspect is left: runs ruled out {texts}.")


def _named(dimension: str, value: str) -> str:
    return f"{dimension} {value}".rstrip()


def _most(texts: Iterable[str]) -> str:
    counts = Counter(filter(None, texts))
    return min(counts, key=lambda text: (-counts[text], text), default="")
