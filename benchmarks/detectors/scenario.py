"""What may happen to a made-up fleet, and what did."""

from dataclasses import dataclass
from enum import StrEnum, auto

from benchmarks.detectors import makeup
from ett_service.core.regressions.finding import Cohort, Series, Subject

DAYS = 70  #: length of a fleet
CHANGED_ON = 45  #: the day, from 0, on which what is planted begins


class Kind(StrEnum):
    """What is planted."""

    NULL = auto()  #: nothing
    MIX = auto()  #: one cohort starts twice as many jobs, and nothing else changes
    OUTAGE = auto()  #: for some days all is slow in one cluster, and more fails
    CELL = auto()  #: one phase of one cohort is slower
    COHORT = auto()  #: every phase of one cohort is slower
    PHASE = auto()  #: one phase is slower in the whole fleet
    RELABELLING = auto()  #: time of one phase of a cohort is counted as another's
    IMPROVEMENT = auto()  #: one phase of one cohort is faster
    HANG = auto()  #: three in ten attempts of one cohort never leave one phase
    FAILURES = auto()  #: more attempts of one cohort fail


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is planted, how strongly, and how much there is to see it by."""

    kind: Kind = Kind.NULL
    attempts_per_day: int = 60
    factor: float = 1.0  #: that durations are multiplied by, or the odds of failing
    days: int = 1  #: of an outage
    cause: str = ""
    """The dimension, one value of which is slower, or ``none``: three in five attempts are slower,
    whatever their values. Without, all are."""

    @property
    def name(self) -> str:
        """A word that tells it from others: ``cell-1.6@60``."""
        parts = [str(self.kind)]
        if self.factor != 1.0:
            parts.append(f"{self.factor:g}")
        if self.kind is Kind.OUTAGE:
            parts.append(f"{self.days}d")
        if self.cause:
            parts.append(self.cause)
        return f"{'-'.join(parts)}@{self.attempts_per_day}"


@dataclass(frozen=True, slots=True)
class Truth:
    """What was planted, for whoever scores an answer."""

    scenario: Scenario
    seed: int
    from_day: int | None  #: None where nothing was
    to_day: int | None  #: the first that is as before; None: none is
    cohorts: tuple[Cohort, ...] = ()  #: that it was planted in
    phases: tuple[Subject, ...] = ()  #: what was made slower, faster, or to fail
    follows: tuple[Subject, ...] = ()  #: what is made of these, and so changes with them
    value: str = ""  #: of the scenario's ``cause``
    explained: float = 0.0  #: the part of the surplus that attempts with the value have
    impact: float = 0.0  #: GPU-hours that it cost, by those of the whole fleet meanwhile

    def is_target(self, series: Series) -> bool:
        """Tell whether this is exactly what was changed, where it was."""
        return series.subject in self.phases and self.is_where(series.cohort)

    def is_where(self, cohort: Cohort) -> bool:
        """Tell whether this is one of the cohorts it was planted in, or all of them together."""
        inside = {one for one in makeup.COHORTS if set(cohort) <= set(one)}
        return cohort in self.cohorts or inside == set(self.cohorts)

    def is_touched(self, series: Series) -> bool:
        """Tell whether a change of this is no false one: what was changed, or holds some of it."""
        return series.subject in (*self.phases, *self.follows) and (
            not series.cohort or any(set(series.cohort) <= set(one) for one in self.cohorts)
        )
