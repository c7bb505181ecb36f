"""Open phases: the longest of each kind and cohort, and whether they are stuck."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection

from ett_service.core.intervals import DAY_US, SECOND_US
from ett_service.core.regressions.finding import Metric, SeriesCohort, Subject
from ett_service.core.words import Category
from ett_service.detection.sample import Observed
from ett_service.storage.regressions.observations import open_segments

STUCK_MIN_US = 600 * SECOND_US
"""A phase that is open for less is not stuck, however short others are."""

STUCK_FACTOR = 3
"""A phase is stuck that is open for more than so many times the 99th percentile."""

STUCK_HALT_US = 1_800 * SECOND_US
"""So is a checkpoint or a stall that is open for more."""

_PERCENTILE_DAYS = 28
_UNLIMITED = frozenset(
    {
        Category.EFFECTIVE_TRAINING,
        Category.REPEATED_TRAINING,
        Category.RESTART_WAIT,
        Category.UNATTRIBUTED,
    }
)
_HALTS = frozenset({Category.CHECKPOINT_BLOCKING, Category.STALLED})


@dataclass(frozen=True, slots=True)
class OpenPhase:
    """The attempt of a cohort that is longest in a phase."""

    cohort: SeriesCohort
    phase: str
    job: str
    number: int
    age_us: int
    p99_us: int | None  #: of the phases in its cluster that ended in 28 days; None without any

    @property
    def stuck(self) -> bool:
        """Whether it is open for much longer than others; the rule of ``EttPhaseStuck``."""
        if self.phase in _HALTS and self.age_us > STUCK_HALT_US:
            return True
        limit_us = None if self.p99_us is None else max(STUCK_MIN_US, STUCK_FACTOR * self.p99_us)
        return limit_us is not None and self.age_us > limit_us


def open_phases(
    conn: Connection, project_id: int, observed: Observed, at_us: int
) -> list[OpenPhase]:
    """Return the oldest open phase of each kind and cohort at an instant, the oldest first."""
    oldest: dict[tuple[SeriesCohort, str], OpenPhase] = {}
    for phase in _open(conn, project_id, observed, at_us):
        key = (phase.cohort, phase.phase)
        if key not in oldest or phase.age_us > oldest[key].age_us:
            oldest[key] = phase
    return sorted(oldest.values(), key=lambda phase: (-phase.age_us, phase.job, phase.phase))


def _open(conn: Connection, project_id: int, observed: Observed, at_us: int) -> Iterator[OpenPhase]:
    units = zip(observed.attempts.unit.tolist(), observed.attempts.number.tolist(), strict=True)
    places = {(observed.jobs[unit], number): place for place, (unit, number) in enumerate(units)}
    for segment in open_segments(conn, project_id, at_us):
        place = places.get((segment.job, segment.number))
        if place is not None and segment.category not in _UNLIMITED:
            cohort = int(observed.attempts.cohort[place])
            yield OpenPhase(
                cohort=observed.cohorts[cohort],
                phase=segment.category,
                job=segment.job,
                number=segment.number,
                age_us=at_us - segment.started_us,
                p99_us=_p99_us(observed, segment.category, cohort, at_us),
            )


def _p99_us(observed: Observed, phase: str, cohort: int, at_us: int) -> int | None:
    values = observed.durations.get(Subject(Metric.PHASE_SECONDS, phase))
    if values is None:
        return None
    cluster = dict(observed.cohorts[cohort]).get("cluster")
    same_cluster = np.array([dict(each).get("cluster") == cluster for each in observed.cohorts])
    recent = values.between(at_us - _PERCENTILE_DAYS * DAY_US, at_us)
    us = recent.us[same_cluster[observed.attempts.cohort[recent.attempt]]]
    return int(np.quantile(us, 0.99)) if len(us) else None
