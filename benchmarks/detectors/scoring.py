"""How well detectors did: false alerts, recall, delay and onset, each with how sure it is."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.detectors.alert import Alert
from benchmarks.detectors.scenario import CHANGED_ON, DAYS, Kind, Scenario, Truth
from ett_service.core.regressions.finding import Verdict

QUIET_UNTIL = 42
"""Alerts up to this day are not counted: until then there is no baseline of four weeks."""

WITHIN_DAYS = 14  #: after the change; later alerts are neither right nor false
MONTH_DAYS = 30
ONSET_DAYS = 2  #: an onset within so many days is right
_Z = 1.959963984540054

EXPECTED = {
    Kind.CELL: Verdict.REGRESSION,
    Kind.COHORT: Verdict.REGRESSION,
    Kind.PHASE: Verdict.REGRESSION,
    Kind.FAILURES: Verdict.REGRESSION,
    Kind.IMPROVEMENT: Verdict.IMPROVEMENT,
    Kind.RELABELLING: Verdict.RELABELLING,
    Kind.MIX: Verdict.MIX,
    Kind.OUTAGE: Verdict.INCIDENT,
}
"""What is to be said of what was planted; only a regression alerts. Of what hangs, no length can
say anything."""


def alerts_are_right(scenario: Scenario) -> bool:
    """Tell whether people are to be told of what a scenario plants."""
    return EXPECTED.get(scenario.kind) is Verdict.REGRESSION


@dataclass(frozen=True, slots=True)
class Part:
    """So many of so many, with the interval that Wilson (1927) gives at 95 %."""

    hits: int
    of: int

    @property
    def share(self) -> float | None:
        """The part itself; None of nothing."""
        return self.hits / self.of if self.of else None

    @property
    def bounds(self) -> tuple[float, float]:
        """The interval's ends; all from 0 to 1 of nothing."""
        if not self.of:
            return 0.0, 1.0
        n, p = self.of, self.hits / self.of
        middle = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
        reach = _Z / (1 + _Z**2 / n) * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
        return max(0.0, middle - reach), min(1.0, middle + reach)


@dataclass(frozen=True, slots=True)
class Marks:
    """How one engine did on one fleet."""

    false: int  #: alerts on what had not changed
    noticed: bool  #: anything that did change was told of in time, the whole fleet included
    right_cohort: bool  #: in time, and of a cohort that it was planted in
    right_cell: bool  #: in time, and of exactly what was planted
    right_first: bool | None  #: what came first is what was planted; None: nothing did
    delay: int | None  #: whole days from the change to the first on the right cohort
    onset_error: int | None  #: days, of the same


def mark(truth: Truth, alerts: Sequence[Alert]) -> Marks:
    """Hold the *alerts* of one engine on one fleet against what was planted."""
    counted = [alert for alert in alerts if alert.day > QUIET_UNTIL]
    start = CHANGED_ON if truth.from_day is None else truth.from_day
    false = [
        one for one in counted if one.verdict is Verdict.REGRESSION and not _excused(truth, one)
    ]
    touched = timely(truth, alerts)
    cohort = [one for one in touched if truth.is_where(one.series.cohort)]
    first = [one for one in touched if one.day == touched[0].day]
    return Marks(
        false=len(false),
        noticed=bool(touched),
        right_cohort=bool(cohort),
        right_cell=any(truth.is_target(one.series) for one in cohort),
        right_first=truth.is_target(first[0].series) if first and truth.phases else None,
        delay=cohort[0].day + 1 - start if cohort else None,
        onset_error=_onset_error(cohort, start),
    )


def timely(truth: Truth, alerts: Sequence[Alert]) -> list[Alert]:
    """Return what is about what was planted, says what that is, and came in time."""
    expected = EXPECTED.get(truth.scenario.kind)
    start = CHANGED_ON if truth.from_day is None else truth.from_day
    days = range(start, start + WITHIN_DAYS)
    return [
        one for one in alerts if one.day in days and one.verdict is expected and _is_of(truth, one)
    ]


def _excused(truth: Truth, alert: Alert) -> bool:
    """Tell whether a regression is to be told of there: it is what was planted, or follows."""
    if truth.from_day is None or alert.day < truth.from_day:
        return False
    expected = EXPECTED.get(truth.scenario.kind)
    if expected not in {None, Verdict.REGRESSION}:
        return False
    return truth.is_touched(alert.series)


def _is_of(truth: Truth, alert: Alert) -> bool:
    """Tell whether an alert is about what was planted; a shift of the mix is the project's."""
    if truth.scenario.kind is Kind.MIX:
        return not alert.series.cohort or truth.is_where(alert.series.cohort)
    return truth.is_touched(alert.series)


def _onset_error(right: Sequence[Alert], start: int) -> int | None:
    if not right or right[0].onset is None:
        return None
    return abs(right[0].onset - start)


@dataclass(frozen=True, slots=True)
class Score:
    """How one engine did on the fleets of one cell."""

    fleets: int
    false: int
    noticed: Part
    right_cohort: Part
    right_cell: Part
    right_first: Part
    onset: Part  #: of those with one, within ``ONSET_DAYS``
    median_delay: float | None

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
        """Fleets in which the right cohort was told of, by these and false alerts."""
        told = self.right_cohort.hits + self.false
        return self.right_cohort.hits / told if told else None

    @property
    def f1(self) -> float:
        """Harmonic mean of the precision and the recall of the right cohort."""
        missed = self.right_cohort.of - self.right_cohort.hits
        return 2 * self.right_cohort.hits / (2 * self.right_cohort.hits + self.false + missed)


def score(marks: Sequence[Marks]) -> Score:
    """Sum up one engine's marks in one cell; there is to be one at least."""
    delays = [one.delay for one in marks if one.delay is not None]
    return Score(
        fleets=len(marks),
        false=sum(one.false for one in marks),
        noticed=_part(one.noticed for one in marks),
        right_cohort=_part(one.right_cohort for one in marks),
        right_cell=_part(one.right_cell for one in marks),
        right_first=_part(one.right_first for one in marks if one.right_first is not None),
        onset=_part(one.onset_error <= ONSET_DAYS for one in marks if one.onset_error is not None),
        median_delay=median(delays) if delays else None,
    )


def _part(hits: Iterable[bool]) -> Part:
    counted = list(hits)
    return Part(sum(counted), len(counted))


def count_bounds(count: int) -> tuple[float, float]:
    """Return Wilson's interval for the mean of which *count* were counted (Poisson).

    It is the limit of that for parts, as these become small.
    """
    middle, reach = count + _Z**2 / 2, _Z * math.sqrt(count + _Z**2 / 4)
    return middle - reach, middle + reach
