"""Findings of the detector: what it observes, what changed, and which changes explain others.

Time to start is made of phases, a phase of stages, and the whole project of cohorts: one slower
stage shows in all of them. Durations are microseconds, instants microseconds since the Unix epoch.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum, auto
from hashlib import sha256
from typing import Literal, NamedTuple, TypeAlias

from ett_service.core.intervals import DAY_US
from ett_service.core.words import Phase

SeriesCohort: TypeAlias = tuple[tuple[str, str], ...]
"""Dimensions and their values, in the order of the settings; empty for the whole project."""

Unit: TypeAlias = Literal["seconds", "failures_per_gpu_hour", "ratio"]
"""The unit of a metric in answers; inside, seconds are microseconds."""


class Metric(StrEnum):
    """What the detector observes: one value an attempt, job, recovery, checkpoint or day."""

    PHASE_SECONDS = auto()  #: of an attempt, once the phase is over
    CACHE_MISS_RATIO = auto()  #: of the starts whose compile cache is known
    STAGE_SECONDS = auto()  #: of an attempt, inclusive
    TIME_TO_START_SECONDS = auto()
    TIME_TO_RECOVER_SECONDS = auto()
    CHECKPOINT_BLOCKING_SECONDS = auto()  #: of one checkpoint
    STEP_SECONDS = auto()  #: mean of a job's first day in a setting
    UNSAVED_SECONDS = auto()  #: of a failure: training that was lost with it
    FAILURES_PER_GPU_HOUR = auto()
    ETT_RATIO = auto()

    @property
    def unit(self) -> Unit:
        """The unit of its values in answers."""
        match self:
            case Metric.ETT_RATIO | Metric.CACHE_MISS_RATIO:
                return "ratio"
            case Metric.FAILURES_PER_GPU_HOUR:
                return "failures_per_gpu_hour"
            case _:
                return "seconds"


class Subject(NamedTuple):
    """What the detector observes of a cohort; parts that do not apply are empty."""

    metric: Metric
    phase: str = ""
    stage: str = ""
    cause: str = ""  #: of failures; empty for all of them


class Series(NamedTuple):
    """A subject in a cohort."""

    subject: Subject
    cohort: SeriesCohort

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits, the same for as long as its words are."""
        words = json.dumps([*self.subject, *self.cohort], separators=(",", ":"))
        return sha256(words.encode()).hexdigest()[:16]


def improvement_fingerprint(fingerprint: str) -> str:
    """Return what an improvement of the series of this fingerprint has: the digits reversed.

    Receivers and stored regressions know improvements by it.
    """
    return fingerprint[::-1]


class Verdict(StrEnum):
    """What a finding is. Only a regression alerts."""

    REGRESSION = auto()
    IMPROVEMENT = auto()
    INCIDENT = auto()  #: some bad days: it does not survive the removal of one of them
    RELABELLING = auto()  #: time moved between phases, and their sum is what it was
    MIX = auto()  #: other jobs ran, and no cohort changed
    SMALL = auto()  #: a regression that costs less than the floor


class State(StrEnum):
    """The state of a finding; one that was never found is inactive."""

    INACTIVE = auto()
    PENDING = auto()
    FIRING = auto()
    RESOLVED = auto()


class Resolution(StrEnum):
    """Why a finding is resolved."""

    BETTER = auto()  #: the change is no longer there
    ACCEPTED = auto()  #: somebody called the new level normal
    MERGED = auto()  #: another finding reports the same change
    GONE = auto()  #: nothing of its cohort runs any more


class Triage(StrEnum):
    """What people call a finding."""

    REAL = auto()
    NOISE = auto()
    EXPECTED = auto()
    MIX = auto()


@dataclass(frozen=True, slots=True)
class Side:
    """Values before or after the onset; of rates ``median`` is the rate and ``p90`` is None.

    Of durations both are microseconds, of failures they are failures per GPU-hour, of ETT% the
    ratio, of misses of a cache their share.
    """

    n: int
    days: int  #: days with any
    median: float
    p90: float | None
    from_us: int
    to_us: int


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition of the verdict."""

    name: str
    value: float | None  #: None where it could not be worked out
    limit: float
    passed: bool


@dataclass(frozen=True, slots=True)
class Impact:
    """What a finding costs, or saves where negative."""

    gpu_hours_per_week: float | None  #: None while accelerators are unknown
    ett_points: float | None = None  #: of the cohort; negative is worse
    cost_per_week: float | None = None  #: None without a price
    currency: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A change of a series, as one run of the detector reports it."""

    series: Series
    verdict: Verdict
    ratio: float
    """After over before; of ETT% and where before is 0 see ``Side``. Of misses of a cache it is
    that of the mean time of the phase, as far as it follows from them."""
    low: float  #: of its 95 % interval
    high: float
    p: float
    q: float  #: after correction for the number of series
    onset_us: int
    before: Side
    after: Side
    gates: tuple[Gate, ...]
    impact: Impact = field(default_factory=lambda: Impact(None))
    mean_ratio: float | None = None
    """Of durations, the ratio of their means, which is what is paid for; else None. ``ratio`` is
    that of the values in the middle, which a few long ones do not move."""
    holds: bool = True  #: False for an open finding whose effect is under half the floor by now

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the series; an improvement has one of its own."""
        if self.verdict is Verdict.IMPROVEMENT:
            return improvement_fingerprint(self.series.fingerprint)
        return self.series.fingerprint


@dataclass(frozen=True, slots=True)
class Suspect:
    """A value of a dimension that a change is associated with."""

    dimension: str
    value: str
    explains: float  #: the part of the change that goes away without it, 0 to 1
    attempts: int
    first_seen_us: int | None = None


@dataclass(frozen=True, slots=True)
class NearMarker:
    """A marker near the onset."""

    id: str
    kind: str
    title: str
    at_us: int
    score: float


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Attempts with a value compared with those without it, after the onset.

    Where both ran before the onset as well, their difference then is taken off (difference in
    differences of logarithms).
    """

    dimension: str
    value: str
    against: str  #: the value of most of the others; empty for all others
    n: int
    against_n: int
    ratio: float
    low: float  #: of its 95 % interval
    high: float
    p: float


@dataclass(frozen=True, slots=True)
class Attribution:
    """What a change is associated with."""

    phase_shares: Mapping[str, float]
    """Part of the change of time to start by phase, or of ETT% by category; sums to 1."""
    cohort_shares: Mapping[str, float]  #: part of the change by cohort, ``k=v,k=v``; sums to 1
    suspects: tuple[Suspect, ...] = ()
    markers: tuple[NearMarker, ...] = ()
    examples: tuple[tuple[str, int], ...] = ()  #: jobs and numbers of attempts
    within_points: float | None = None  #: ETT points within cohorts
    mix_points: float | None = None  #: ETT points of the mix of jobs
    side_by_side: SideBySide | None = None
    as_of_us: int | None = None  #: the end of the time that was looked at
    onset_us: int | None = None  #: that was looked at; people may have moved it since


class Severity(StrEnum):
    """How much a finding costs, as a share of the project's GPU-hours a week."""

    LOW = auto()  #: under 0.5 %, or unknown
    MEDIUM = auto()  #: under 2 %
    HIGH = auto()


@dataclass(frozen=True, slots=True)
class RunFinding:
    """A finding of one run, with its severity and what it is associated with."""

    finding: Finding
    severity: Severity
    attribution: Attribution


Onset: TypeAlias = tuple[Series, int]
"""A series, and since when it changed."""

NEAR_US = 5 * DAY_US
"""Changes with one cause are found to begin within this time."""

SAME_US = 2 * DAY_US
"""The change of a cohort and that of a wider one are the same if they begin within this time."""

_ALIKE = 2.0  #: times as large as the change of the wider cohort, in the logarithm, at most

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


class FindingKey(NamedTuple):
    """The identity of a finding from run to run."""

    fingerprint: str
    verdict: Verdict

    @classmethod
    def of(cls, finding: Finding) -> "FindingKey":
        """Return the key of a finding."""
        return cls(finding.fingerprint, finding.verdict)
