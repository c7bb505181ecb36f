"""How well detectors did: false alerts, recall, delay and onset, with confidence intervals."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import NamedTuple

from benchmarks.detectors.fleets.parameters import CHANGED_ON, DAYS
from benchmarks.detectors.fleets.scenario import Scenario, ScenarioKind, Truth
from benchmarks.detectors.trials import DetectorAlert
from ett_service.core.regressions.finding import Verdict

QUIET_UNTIL = 42
"""Alerts up to this day are not counted: until then there is no full baseline."""

WITHIN_DAYS = 14  #: of the change; later alerts are neither right nor false
MONTH_DAYS = 30
ONSET_DAYS = 2  #: an onset within so many days is right
_Z = 1.959963984540054

EXPECTED = {
    ScenarioKind.CELL: Verdict.REGRESSION,
    ScenarioKind.COHORT: Verdict.REGRESSION,
    ScenarioKind.PHASE: Verdict.REGRESSION,
    ScenarioKind.FAILURES: Verdict.REGRESSION,
    ScenarioKind.STEPS: Verdict.REGRESSION,
    ScenarioKind.RAMP: Verdict.REGRESSION,
    ScenarioKind.SECOND: Verdict.REGRESSION,
    ScenarioKind.HITS: Verdict.REGRESSION,
    ScenarioKind.IMPROVEMENT: Verdict.IMPROVEMENT,
    ScenarioKind.RELABELLING: Verdict.RELABELLING,
    ScenarioKind.MIX: Verdict.MIX,
    ScenarioKind.OUTAGE: Verdict.INCIDENT,
}
"""The right verdict on what was planted; only a regression alerts. A hang has none: attempts that
never leave a phase have no length."""


def alerts_are_right(scenario: Scenario) -> bool:
    """Whether people should be alerted to what a scenario plants."""
    return EXPECTED.get(scenario.kind) is Verdict.REGRESSION


@dataclass(frozen=True, slots=True)
class Proportion:
    """Hits out of a number of cases, with the 95 % interval of Wilson (1927)."""

    hits: int
    of: int

    @property
    def share(self) -> float | None:
        """The proportion itself; None without cases."""
        return self.hits / self.of if self.of else None

    @property
    def bounds(self) -> tuple[float, float]:
        """The interval's ends; 0 and 1 without cases."""
        if not self.of:
            return 0.0, 1.0
        n, p = self.of, self.hits / self.of
        middle = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
        reach = _Z / (1 + _Z**2 / n) * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
        return max(0.0, middle - reach), min(1.0, middle + reach)


@dataclass(frozen=True, slots=True)
class FleetMarks:
    """How one engine did on one fleet."""

    false: int  #: alerts on what had not changed
    noticed: bool  #: it reported anything that did change in time, the whole fleet included
    right_cohort: bool  #: in time, of a cohort that changed
    right_cell: bool  #: in time, of exactly the changed series
    right_first: bool | None  #: the first report was of exactly that series; None without any
    delay: int | None  #: whole days from the change to the first alert on the right cohort
    onset_error: int | None  #: of that alert, in days


def mark(truth: Truth, alerts: Sequence[DetectorAlert]) -> FleetMarks:
    """Compare the *alerts* of one engine on one fleet with what was planted."""
    counted = [alert for alert in alerts if alert.day > QUIET_UNTIL]
    start = CHANGED_ON if truth.from_day is None else truth.from_day
    false = [
        alert
        for alert in counted
        if alert.verdict is Verdict.REGRESSION and not _is_excused(truth, alert)
    ]
    touched = in_time(truth, alerts)
    right = [alert for alert in touched if truth.is_where(alert.series.cohort)]
    first = [alert for alert in touched if alert.day == touched[0].day]
    return FleetMarks(
        false=len(false),
        noticed=bool(touched),
        right_cohort=bool(right),
        right_cell=any(truth.is_target(alert.series) for alert in right),
        right_first=truth.is_target(first[0].series) if first and truth.phases else None,
        delay=right[0].day + 1 - start if right else None,
        onset_error=_onset_error(right, start),
    )


def in_time(truth: Truth, alerts: Sequence[DetectorAlert]) -> list[DetectorAlert]:
    """Return the alerts on what was planted that have the right verdict and came in time."""
    expected = EXPECTED.get(truth.scenario.kind)
    start = CHANGED_ON if truth.from_day is None else truth.from_day
    days = range(start, start + WITHIN_DAYS)
    return [
        alert
        for alert in alerts
        if alert.day in days and alert.verdict is expected and _is_about(truth, alert)
    ]


def _is_excused(truth: Truth, alert: DetectorAlert) -> bool:
    """Whether a regression is right to report: it was planted, or contains what was."""
    since = CHANGED_ON if truth.earlier else truth.from_day
    if since is None or alert.day < since:
        return False
    expected = EXPECTED.get(truth.scenario.kind)
    if expected not in {None, Verdict.REGRESSION}:
        return False
    return truth.is_touched(alert.series)


def _is_about(truth: Truth, alert: DetectorAlert) -> bool:
    """Whether an alert is about what was planted; a shift of the mix is the project's."""
    if truth.scenario.kind is ScenarioKind.MIX:
        return not alert.series.cohort or truth.is_where(alert.series.cohort)
    return truth.is_touched(alert.series)


def _onset_error(right: Sequence[DetectorAlert], start: int) -> int | None:
    if not right or right[0].onset is None:
        return None
    return abs(right[0].onset - start)


@dataclass(frozen=True, slots=True)
class CellScore:
    """How one engine did on the fleets of one cell."""

    fleets: int
    false: int
    noticed: Proportion
    right_cohort: Proportion
    right_cell: Proportion
    right_first: Proportion
    onset: Proportion  #: of the alerts with an onset, those within ``ONSET_DAYS``
    median_delay: float | None
    bound: float | None = None  #: of ``right_cell``, which no detector can pass on average
    searched: float | None = None  #: the same of a scan that has to search the day

    @property
    def false_per_month(self) -> float:
        """False alerts a fleet and 30 days."""
        return self.false * MONTH_DAYS / (self.fleets * (DAYS - 1 - QUIET_UNTIL))

    @property
    def false_bounds(self) -> tuple[float, float]:
        """The interval of ``false_per_month``."""
        month = MONTH_DAYS / (self.fleets * (DAYS - 1 - QUIET_UNTIL))
        low, high = count_bounds(self.false)
        return low * month, high * month

    @property
    def precision(self) -> float | None:
        """Fleets with an alert on the right cohort, over these and the false alerts."""
        reported = self.right_cohort.hits + self.false
        return self.right_cohort.hits / reported if reported else None

    @property
    def f1(self) -> float:
        """Harmonic mean of the precision and the recall of the right cohort."""
        missed = self.right_cohort.of - self.right_cohort.hits
        return 2 * self.right_cohort.hits / (2 * self.right_cohort.hits + self.false + missed)


class Chances(NamedTuple):
    """The chances to see a change of one phase of one cohort by its last day in time."""

    known: float  #: where its day is known, too
    searched: float  #: where it is searched among the recent days


def score(marks: Sequence[FleetMarks], bounds: Sequence[Chances] = ()) -> CellScore:
    """Sum up one engine's marks in one cell, at least one; *bounds* are those of their fleets."""
    delays = [fleet.delay for fleet in marks if fleet.delay is not None]
    errors = [fleet.onset_error for fleet in marks if fleet.onset_error is not None]
    firsts = [fleet.right_first for fleet in marks if fleet.right_first is not None]
    return CellScore(
        fleets=len(marks),
        false=sum(fleet.false for fleet in marks),
        noticed=_proportion(fleet.noticed for fleet in marks),
        right_cohort=_proportion(fleet.right_cohort for fleet in marks),
        right_cell=_proportion(fleet.right_cell for fleet in marks),
        right_first=_proportion(firsts),
        onset=_proportion(error <= ONSET_DAYS for error in errors),
        median_delay=median(delays) if delays else None,
        bound=fmean(bound.known for bound in bounds) if bounds else None,
        searched=fmean(bound.searched for bound in bounds) if bounds else None,
    )


def _proportion(hits: Iterable[bool]) -> Proportion:
    cases = list(hits)
    return Proportion(sum(cases), len(cases))


def count_bounds(count: int) -> tuple[float, float]:
    """Return Wilson's interval for the mean of a Poisson variable that was *count* once.

    It is the limit of the interval for proportions, as these become small.
    """
    middle, reach = count + _Z**2 / 2, _Z * math.sqrt(count + _Z**2 / 4)
    return middle - reach, middle + reach
