"""What a search for regressions goes by, remembers and answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ett_service.core.regressions.finding import Cohort, Finding, Series, Subject
from ett_service.fleet.economy import Economy


@dataclass(frozen=True, slots=True)
class Options:
    """Windows in days, floors, and how sure it has to be."""

    recent_days: int = 14
    baseline_days: int = 42
    fewest_recent: int = 5
    fewest_baseline: int = 16
    effect_floor: float = 1.15  #: a change by a smaller factor is none
    impact_floor: float = 0.0025  #: part of the GPU-hours of the whole project
    q: float = 0.06  #: expected part of false findings among all


@dataclass(frozen=True, slots=True)
class Frozen:
    """The baseline that an open finding was found against, which it keeps."""

    from_us: int
    to_us: int
    onset_us: int
    improvement: bool


@dataclass(frozen=True, slots=True)
class Memory:
    """What earlier runs and people said."""

    open: Mapping[Series, Frozen] = field(default_factory=dict)
    accepted: Mapping[Series, int] = field(default_factory=dict)
    """Since when, in microseconds, values may be part of a series' baseline."""
    incidents: Mapping[Series, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """Days of incidents, from and to in microseconds; they are no part of a baseline."""


@dataclass(frozen=True, slots=True)
class Power:
    """What could have been seen in a cohort, so that silence is not read as health."""

    subject: Subject
    cohort: Cohort
    recent: int  #: values in the recent window
    baseline: int
    smallest: float | None  #: the factor found in 80 of 100 cases; None: nothing could be found


@dataclass(frozen=True, slots=True)
class Scan:
    """What one run found; every finding stands on its own, none is decided by earlier runs.

    For each open series of the memory there is a finding, whose ``holds`` tells whether it is
    still there, or none where too little was seen to tell.
    """

    findings: tuple[Finding, ...]
    power: tuple[Power, ...]
    series: int  #: how many were looked at


MOST_COHORTS = 1_000
"""So many, those with most attempts, are looked at one by one; the others are put together."""

MOST_STAGES = 40
"""Stages are words of users: only so many, those of most attempts, are looked at."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is told apart, how sure to be, and what an accelerator's hour costs.

    *cohort* and *strata* are dimensions of ``core.cohort.DIMENSIONS``. Whether a start is the first
    or a restart is always told apart.
    """

    cohort: tuple[str, ...] = ("cluster", "model")
    strata: tuple[str, ...] = ("hardware", "kind", "size")
    options: Options = field(default_factory=Options)
    economy: Economy = field(default_factory=Economy)
