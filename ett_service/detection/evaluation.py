"""One run of the detector over a project: what is found, what it costs, what it goes with."""

from dataclasses import dataclass, replace

from sqlalchemy import Connection

from ett_service.core.interval import DAY_US
from ett_service.core.regression import Attribution, Finding
from ett_service.detection.attribution import attribute
from ett_service.detection.detector import scan
from ett_service.detection.impact import Severity, Weighing
from ett_service.detection.observed import Observed
from ett_service.detection.old_news import is_old
from ett_service.detection.options import Memory, Options, Power
from ett_service.detection.plan import Plan
from ett_service.detection.reading import observe

MOST_DAYS = 180
"""No baseline is read that lies further back."""


_UNKNOWN = Attribution({}, {})


@dataclass(frozen=True, slots=True)
class Found:
    """A finding with its impact, and what it is associated with."""

    finding: Finding
    severity: Severity
    attribution: Attribution


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What one run says of a project."""

    found: tuple[Found, ...]
    power: tuple[Power, ...]
    series: int  #: how many were looked at

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is found, as the states take it."""
        return tuple(one.finding for one in self.found)


def evaluate(
    conn: Connection, project_id: int, as_of_us: int, plan: Plan, memory: Memory
) -> Evaluated:
    """Search a project for what changed, as of an instant in microseconds."""
    days = days_to_read(as_of_us, plan.options, memory)
    observed = observe(conn, project_id, as_of_us, days, plan)
    judged = judge(observed, as_of_us, plan, memory)
    return replace(
        judged,
        found=tuple(attributed(conn, project_id, one, observed) for one in judged.found),
    )


def attributed(conn: Connection, project_id: int, found: Found, observed: Observed) -> Found:
    """Tell what a finding is associated with; nothing of one that is no longer there."""
    if not found.finding.holds:
        return found
    return replace(found, attribution=attribute(conn, project_id, found.finding, observed))


def days_to_read(as_of_us: int, options: Options, memory: Memory) -> int:
    """Return how far back to look: both windows, and the frozen baselines of what is open."""
    first_us = min((one.from_us for one in memory.open.values()), default=as_of_us)
    frozen = -(-(as_of_us - first_us) // DAY_US)
    return min(MOST_DAYS, max(options.recent_days + options.baseline_days, frozen))


def judge(observed: Observed, as_of_us: int, plan: Plan, memory: Memory) -> Evaluated:
    """Do the same with what was read before; nothing is attributed."""
    options = plan.options
    sample = observed.sample(as_of_us, days_to_read(as_of_us, options, memory))
    told = scan(sample, options, memory)
    weighing = Weighing(observed, as_of_us, options.recent_days, plan.economy)
    found = tuple(
        _weighed(one, weighing)
        for one in told.findings
        if one.series in memory.open or not is_old(one, observed, as_of_us, options.recent_days)
    )
    return Evaluated(found, told.power, told.series)


def _weighed(finding: Finding, weighing: Weighing) -> Found:
    impact = weighing.impact(finding)
    return Found(replace(finding, impact=impact), weighing.severity(impact), _UNKNOWN)
