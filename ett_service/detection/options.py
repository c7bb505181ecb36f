"""The options of a search for regressions, its memory and its answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ett_service.core.regressions.finding import Finding, Metric, Series, SeriesCohort, Subject
from ett_service.fleet.economy import Economy

MOST_COHORTS = 1_000
"""Cohorts that are searched one by one, those with most attempts; the others are one cohort."""

MOST_STAGES = 40
"""Stages are words of users: only this many, those of most attempts, are searched."""


@dataclass(frozen=True, slots=True)
class Options:
    """Windows in days, and the floors of a finding."""

    recent_days: int = 14
    baseline_days: int = 42
    fewest_recent: int = 5
    fewest_baseline: int = 16
    effect_floor: float = 1.15  #: a change by a smaller factor is none
    impact_floor: float = 0.0025  #: share of the GPU-hours of the whole project
    q: float = 0.06  #: expected share of false findings among all
    tuned: Mapping[Metric, float] = field(default_factory=dict)
    """Factors of what the smallest change of a metric exceeds 1 by, from people's verdicts."""


@dataclass(frozen=True, slots=True)
class FrozenBaseline:
    """The baseline of a finding that fires, which it keeps, or of one that is pending."""

    from_us: int
    to_us: int
    onset_us: int
    improvement: bool


@dataclass(frozen=True, slots=True)
class Memory:
    """What earlier runs found and people accepted."""

    open: Mapping[Series, FrozenBaseline] = field(default_factory=dict)
    noise: frozenset[Series] = frozenset()  #: open ones that explain nothing, as people said
    pending: Mapping[Series, FrozenBaseline] = field(default_factory=dict)
    accepted: Mapping[Series, int] = field(default_factory=dict)
    """Since when, in microseconds, values may be part of a series' baseline."""
    incidents: Mapping[Series, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """Spans of incidents in microseconds; they are no part of a baseline."""
    outages: Mapping[SeriesCohort, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """Spans of short incidents of phases and failures: other subjects were not as usual, either."""

    @property
    def explaining(self) -> Mapping[Series, FrozenBaseline]:
        """The open ones that explain others: what people called noise is none of them."""
        return {series: frozen for series, frozen in self.open.items() if series not in self.noise}


@dataclass(frozen=True, slots=True)
class Power:
    """The smallest change that a search could find in a cohort: silence is not health."""

    subject: Subject
    cohort: SeriesCohort
    recent: int  #: values in the recent window
    baseline: int
    smallest: float | None  #: the factor found in 80 of 100 cases; None: nothing could be found


@dataclass(frozen=True, slots=True)
class Scan:
    """The answer of one scan; no finding of it depends on earlier runs.

    Each open series of the memory has a finding, whose ``holds`` says whether the change is
    still there, or none where there are too few values.
    """

    findings: tuple[Finding, ...]
    power: tuple[Power, ...]
    series: int  #: how many were tested
    gone: tuple[Series, ...] = ()  #: open ones of whose cohort nothing ran in the recent days
    standing: tuple[Series, ...] = ()
    """Pending ones that were not found, though nothing shows that their change is over."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a search tells apart, its options, and the prices of accelerators.

    *cohort* and *strata* are names of ``core.fleet.cohort.DIMENSIONS``. First starts and restarts
    are always told apart.
    """

    cohort: tuple[str, ...] = ("cluster", "model")
    strata: tuple[str, ...] = ("hardware", "kind", "size")
    options: Options = field(default_factory=Options)
    economy: Economy = field(default_factory=Economy)

    def tuned(self, factors: Mapping[Metric, float]) -> "Plan":
        """Return the plan with other smallest changes; see ``Options.tuned``."""
        return replace(self, options=replace(self.options, tuned=dict(factors)))
