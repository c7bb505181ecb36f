"""What a detector said of a fleet, in words that all of them can be held to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ett_service.core.regressions.finding import Metric, Series, Subject, Verdict


@dataclass(frozen=True, slots=True)
class Alert:
    """One thing that was told at the end of a day; what came first that day comes first."""

    day: int
    series: Series
    verdict: Verdict = Verdict.REGRESSION
    onset: int | None = None  #: the day on which it is said to have begun

    def members(self) -> list[Any]:
        """Return what :meth:`read` makes it of, for JSON."""
        subject, cohort = self.series
        return [self.day, list(subject), dict(cohort), self.verdict.value, self.onset]

    @classmethod
    def read(cls, told: list[Any]) -> "Alert":
        """Make one of what :meth:`members` returned."""
        day, (metric, *parts), cohort, verdict, onset = told
        series = Series(Subject(Metric(metric), *parts), tuple(cohort.items()))
        return cls(day, series, Verdict(verdict), onset)


@dataclass(frozen=True, slots=True)
class Trial:
    """One fleet, and what each detector said of it."""

    cell: str  #: the scenario's name
    seed: int
    alerts: Mapping[str, tuple[Alert, ...]]  #: by engine
    seconds: Mapping[str, float]  #: that each engine took
    impact: float = 0.0  #: of what was planted, see ``Truth``

    def members(self) -> dict[str, Any]:
        """Return what :meth:`read` makes it of, for JSON."""
        return {
            "cell": self.cell,
            "seed": self.seed,
            "impact": self.impact,
            "alerts": {name: [one.members() for one in told] for name, told in self.alerts.items()},
            "seconds": dict(self.seconds),
        }

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> "Trial":
        """Make one of what :meth:`members` returned."""
        alerts = {
            name: tuple(Alert.read(one) for one in all_) for name, all_ in told["alerts"].items()
        }
        return cls(told["cell"], told["seed"], alerts, told["seconds"], told["impact"])
