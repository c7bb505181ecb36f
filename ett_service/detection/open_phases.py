"""Phases that are open: what hangs never completes, and is in no duration that is compared."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection

from ett_service.core.interval import DAY_US, SECOND_US
from ett_service.core.regression import Cohort, Metric, Subject
from ett_service.core.vocabulary import Category
from ett_service.detection.observed import Observed
from ett_service.storage.observations import SeenStretch, open_stretches

LONG_US = 600 * SECOND_US
"""What is open for less is not called stuck, however short others are."""

TIMES = 3
"""What is open for so many times the 99th percentile is."""

STILL_US = 1_800 * SECOND_US
"""So is a save or a stall that is open for so long."""

_DAYS = 28
_ABIDE = frozenset(
    {
        Category.EFFECTIVE_TRAINING,
        Category.REPEATED_TRAINING,
        Category.RESTART_WAIT,
        Category.UNATTRIBUTED,
    }
)
_STILL = frozenset({Category.CHECKPOINT_BLOCKING, Category.STALLED})


@dataclass(frozen=True, slots=True)
class OpenPhase:
    """The attempt of a cohort that is longest in a phase."""

    cohort: Cohort
    phase: str
    job: str
    number: int
    age_us: int
    p99_us: int | None  #: of those of its cluster that were over in 28 days; None without any

    @property
    def stuck(self) -> bool:
        """Whether it is open for much longer than others; the rule of ``EttPhaseStuck``."""
        if self.phase in _STILL and self.age_us > STILL_US:
            return True
        return self.p99_us is not None and self.age_us > max(LONG_US, TIMES * self.p99_us)


def open_phases(
    conn: Connection, project_id: int, observed: Observed, at_us: int
) -> list[OpenPhase]:
    """Return the oldest open phase of each kind and cohort at an instant, the oldest first."""
    oldest: dict[tuple[Cohort, str], OpenPhase] = {}
    for one in _open(conn, project_id, observed, at_us):
        key = (one.cohort, one.phase)
        if key not in oldest or one.age_us > oldest[key].age_us:
            oldest[key] = one
    return sorted(oldest.values(), key=lambda one: (-one.age_us, one.job, one.phase))


def _open(conn: Connection, project_id: int, observed: Observed, at_us: int) -> Iterator[OpenPhase]:
    units = zip(observed.attempts.unit.tolist(), observed.attempts.number.tolist(), strict=True)
    places = {(observed.jobs[unit], number): place for place, (unit, number) in enumerate(units)}
    for stretch in open_stretches(conn, project_id, at_us):
        place = places.get((stretch.job, stretch.number))
        if place is not None and stretch.category not in _ABIDE:
            yield _phase(observed, stretch, observed.attempts.cohort[place], at_us)


def _phase(observed: Observed, stretch: SeenStretch, cohort: int, at_us: int) -> OpenPhase:
    return OpenPhase(
        cohort=observed.cohorts[cohort],
        phase=stretch.category,
        job=stretch.job,
        number=stretch.number,
        age_us=at_us - stretch.started_us,
        p99_us=_p99_us(observed, stretch.category, cohort, at_us),
    )


def _p99_us(observed: Observed, phase: str, cohort: int, at_us: int) -> int | None:
    values = observed.durations.get(Subject(Metric.PHASE_SECONDS, phase))
    if values is None:
        return None
    cluster = dict(observed.cohorts[cohort]).get("cluster")
    alike = np.array([dict(one).get("cluster") == cluster for one in observed.cohorts])
    recent = values.between(at_us - _DAYS * DAY_US, at_us)
    us = recent.us[alike[observed.attempts.cohort[recent.attempt]]]
    return int(np.quantile(us, 0.99)) if len(us) else None
