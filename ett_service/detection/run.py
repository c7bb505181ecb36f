"""One run over a project: what is found, what it costs, what it goes with."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum, auto
from types import MappingProxyType

import numpy as np
from sqlalchemy import Connection

from ett_service.core.intervals import DAY_US, WEEK_US
from ett_service.core.regressions.finding import (
    Attribution,
    Cohort,
    Finding,
    Impact,
    Metric,
    Series,
    State,
    Subject,
    Verdict,
)
from ett_service.core.regressions.state import LASTING, FindingState
from ett_service.core.words import Category
from ett_service.detection.attribution.attribute import attribute
from ett_service.detection.inputs import observe
from ett_service.detection.options import Frozen, Memory, Options, Plan, Power
from ett_service.detection.sample import Flags, Floats, Observed
from ett_service.detection.scan import scan
from ett_service.fleet.economy import Economy

_NOTHING: Mapping[Series, int] = MappingProxyType({})


def memory_of(
    standings: Iterable[FindingState], accepted: Mapping[Series, int] = _NOTHING
) -> Memory:
    """Return what to remember; *accepted* is since when values may be a series' baseline.

    What fires keeps its baseline. Days of incidents, and of regressions that are over, are no
    part of a later one: else what is cured would look like an improvement, and what comes back
    like nothing. What was accepted is normal from then on.
    """
    opened: dict[Series, Frozen] = {}
    bad: dict[Series, tuple[tuple[int, int], ...]] = {}
    for one in standings:
        series = one.finding.series
        if one.state is State.FIRING and one.verdict in LASTING:
            opened[series] = Frozen(
                from_us=one.baseline_from_us,
                to_us=one.baseline_to_us,
                onset_us=one.onset_us,
                improvement=one.verdict is Verdict.IMPROVEMENT,
            )
        elif (stretch := _bad_days(one)) and series not in accepted:
            bad[series] = (*bad.get(series, ()), stretch)
    return Memory(open=opened, accepted=dict(accepted), incidents=bad)


def _bad_days(one: FindingState) -> tuple[int, int] | None:
    """Return from when to when values were not as usual; None where they were."""
    after = one.finding.after
    if one.verdict is Verdict.INCIDENT:
        return after.from_us, after.to_us
    if one.verdict is Verdict.REGRESSION and one.resolved_us is not None:
        return one.onset_us, one.resolved_us
    return None


MEDIUM, HIGH = 0.005, 0.02
"""Parts of the project's GPU-hours from which on a finding is so severe."""


class Severity(StrEnum):
    """How much a finding costs, as a part of the project's GPU-hours a week."""

    LOW = auto()  #: under 0.5 %, or unknown
    MEDIUM = auto()  #: under 2 %
    HIGH = auto()


class Weighing:
    """Weighs the findings of one run by what was held in its recent days."""

    def __init__(
        self, observed: Observed, as_of_us: int, recent_days: int, economy: Economy
    ) -> None:
        self._observed = observed
        self._economy = economy
        self._from_us = as_of_us - recent_days * DAY_US
        self._weeks = recent_days * DAY_US / WEEK_US
        self._hours = observed.gpu_hours(self._from_us, recent_days)

    def impact(self, finding: Finding) -> Impact:
        """Return the finding's impact with what follows from its accelerators' hours.

        Points are of the ETT% of its cohort: the hours that are lost by all that it held. Money
        is by the price of each hardware and day, and None where any of it has none.
        """
        lost = finding.impact.gpu_hours_per_week
        hours = self._hours_of(finding.series.cohort)
        held = float(hours.sum()) / self._weeks
        if lost is None or not held:
            return finding.impact
        price = self._price(hours)
        return replace(
            finding.impact,
            ett_points=-100 * lost / held,
            cost_per_week=None if price is None else lost * price,
            currency="" if price is None else self._economy.currency,
        )

    def severity(self, impact: Impact) -> Severity:
        """Return how severe it is among all that the project does."""
        whole = float(self._hours.sum()) / self._weeks
        if impact.gpu_hours_per_week is None or not whole:
            return Severity.LOW
        part = abs(impact.gpu_hours_per_week) / whole
        if part >= HIGH:
            return Severity.HIGH
        return Severity.MEDIUM if part >= MEDIUM else Severity.LOW

    def _hours_of(self, wanted: Cohort) -> Floats:
        """Return hours by day and hardware of what a cohort holds."""
        inside = [set(wanted) <= set(one) for one in self._observed.cohorts]
        summed: Floats = self._hours[np.array(inside, dtype=np.bool_)].sum(axis=0)
        return summed

    def _price(self, hours: Floats) -> float | None:
        """Return what an hour costs in the mean."""
        total = 0.0
        for day, place in np.argwhere(hours > 0).tolist():
            at_us = self._from_us + day * DAY_US
            price = self._economy.price(self._observed.hardware[place], at_us)
            if price is None:
                return None
            total += float(price) * float(hours[day, place])
        return total / float(hours.sum())


_NEAR_DAYS = 3  #: from the window's edge on, in which an older onset is placed
_BEFORE_DAYS = 7
_LATEST = 8  #: durations of these days, of which the median tells
_FEWEST = 4


def is_stale(finding: Finding, observed: Observed, as_of_us: int, recent_days: int) -> bool:
    """Tell whether a change began before the recent window.

    It did where what was last before its onset, of a week at most, is nearer to what is now than
    to what was before.
    """
    edge_us = as_of_us - recent_days * DAY_US
    if finding.onset_us < edge_us:
        return True
    if finding.onset_us > edge_us + _NEAR_DAYS * DAY_US:
        return False
    inside = _inside(observed, finding.series.cohort)
    since_us = finding.onset_us - _BEFORE_DAYS * DAY_US
    was, last, now = (
        _level(finding.series.subject, observed, inside, span, latest)
        for span, latest in (
            ((finding.before.from_us, since_us), 0),
            ((since_us, finding.onset_us), _LATEST),
            ((finding.onset_us, as_of_us), 0),
        )
    )
    if was is None or last is None or now is None:
        return False
    return abs(last - now) < abs(last - was)


def _inside(observed: Observed, cohort: Cohort) -> Flags:
    wanted = set(cohort)
    return np.array([wanted <= set(one) for one in observed.cohorts], dtype=np.bool_)


def _level(
    subject: Subject, observed: Observed, inside: Flags, span: tuple[int, int], latest: int
) -> float | None:
    """Return a subject's level in a span, of durations that of the *latest* (0: of all).

    None where too little is known.
    """
    if span[0] >= span[1]:
        return None
    if subject.metric is Metric.ETT_RATIO:
        return _ett(observed, inside, span)
    if subject.metric is Metric.FAILURES_PER_GPU_HOUR:
        return _rate(subject, observed, inside, span)
    values = observed.durations[subject].between(*span)
    us = values.us[inside[observed.attempts.cohort[values.attempt]]][-latest:]
    return float(np.median(np.log(us))) if len(us) >= _FEWEST else None


def _rate(
    subject: Subject, observed: Observed, inside: Flags, span: tuple[int, int]
) -> float | None:
    days = (span[1] - span[0]) // DAY_US
    hours = float(observed.gpu_hours(span[0], days)[inside].sum())
    failed = observed.failures[subject].between(*span).attempt
    events = int(inside[observed.attempts.cohort[failed]].sum())
    return events / hours if hours else None


def _ett(observed: Observed, inside: Flags, span: tuple[int, int]) -> float | None:
    first_us = observed.to_us - observed.days * DAY_US
    first, last = ((at_us - first_us) // DAY_US for at_us in span)
    rows = inside[observed.time_cohort]
    rows &= (observed.time_day >= first) & (observed.time_day < last)
    whole = sum(float(us[rows].sum()) for us in observed.time.values())
    return float(observed.time[Category.EFFECTIVE_TRAINING][rows].sum()) / whole if whole else None


MOST_DAYS = 180
"""No baseline is read that lies further back."""


_UNKNOWN = Attribution({}, {})


@dataclass(frozen=True, slots=True)
class RunFinding:
    """A finding with its impact, and what it is associated with."""

    finding: Finding
    severity: Severity
    attribution: Attribution


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one run says of a project."""

    found: tuple[RunFinding, ...]
    power: tuple[Power, ...]
    series: int  #: how many were looked at

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is found, as the states take it."""
        return tuple(one.finding for one in self.found)


def evaluate(
    conn: Connection, project_id: int, as_of_us: int, plan: Plan, memory: Memory
) -> RunResult:
    """Search a project for what changed, as of an instant in microseconds."""
    days = days_to_read(as_of_us, plan.options, memory)
    observed = observe(conn, project_id, as_of_us, days, plan)
    judged = search(observed, as_of_us, plan, memory)
    return replace(
        judged,
        found=tuple(attributed(conn, project_id, one, observed) for one in judged.found),
    )


def attributed(
    conn: Connection, project_id: int, found: RunFinding, observed: Observed
) -> RunFinding:
    """Tell what a finding is associated with; nothing of one that is no longer there."""
    if not found.finding.holds:
        return found
    return replace(found, attribution=attribute(conn, project_id, found.finding, observed))


def days_to_read(as_of_us: int, options: Options, memory: Memory) -> int:
    """Return how far back to look: both windows, and the frozen baselines of what is open."""
    first_us = min((one.from_us for one in memory.open.values()), default=as_of_us)
    frozen = -(-(as_of_us - first_us) // DAY_US)
    return min(MOST_DAYS, max(options.recent_days + options.baseline_days, frozen))


def search(observed: Observed, as_of_us: int, plan: Plan, memory: Memory) -> RunResult:
    """Do the same with what was read before; nothing is attributed."""
    options = plan.options
    sample = observed.sample(as_of_us, days_to_read(as_of_us, options, memory))
    told = scan(sample, options, memory)
    weighing = Weighing(observed, as_of_us, options.recent_days, plan.economy)
    found = tuple(
        _weighed(one, weighing)
        for one in told.findings
        if one.series in memory.open or not is_stale(one, observed, as_of_us, options.recent_days)
    )
    return RunResult(found, told.power, told.series)


def _weighed(finding: Finding, weighing: Weighing) -> RunFinding:
    impact = weighing.impact(finding)
    return RunFinding(replace(finding, impact=impact), weighing.severity(impact), _UNKNOWN)
