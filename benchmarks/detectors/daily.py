"""Series of one value a day, which is what most change-point tools take."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from itertools import pairwise

import numpy as np

from benchmarks.detectors import makeup
from benchmarks.detectors.arrivals import Flags, Floats
from benchmarks.detectors.fleet import Known, SimulatedFleet
from benchmarks.detectors.scenario import DAYS
from ett_service.core.regressions.finding import Series


class Grain(StrEnum):
    """What one series is of."""

    FLEET = auto()  #: time to start of all attempts
    COHORT = auto()  #: time to start by cohort
    CELL = auto()  #: each phase by cohort


@dataclass(frozen=True, slots=True)
class Daily:
    """Values by day in seconds, a series a row; NaN on days without any."""

    series: Sequence[Series]
    medians: Floats


def daily(fleet: SimulatedFleet, grain: Grain, days: int = DAYS) -> Daily:
    """Sum up each of the first *days* by what became known on it, so that none changes later."""
    told = list(_rows(fleet, grain))
    medians = np.array([medians for _, medians in told])
    return Daily([series for series, _ in told], medians[:, :days])


def _rows(fleet: SimulatedFleet, grain: Grain) -> Iterator[tuple[Series, Floats]]:
    if grain is Grain.FLEET:
        known = fleet.known[makeup.TIME_TO_START]
        everywhere = np.ones(len(known.durations.us), dtype=np.bool_)
        yield Series(makeup.TIME_TO_START, ()), _by_day(known, everywhere)
        return
    subjects = [makeup.TIME_TO_START]
    if grain is Grain.CELL:
        subjects = [made.subject for made in makeup.PHASES]
    for subject in subjects:
        known = fleet.known[subject]
        for place, cohort in enumerate(makeup.COHORTS):
            yield Series(subject, cohort), _by_day(known, known.durations.cohort == place)


def _by_day(known: Known, rows: Flags) -> Floats:
    seconds, day = known.durations.us[rows] / 1e6, known.durations.day[rows]
    ends = np.searchsorted(day, np.arange(DAYS + 1))
    groups = [seconds[begin:end] for begin, end in pairwise(ends)]
    return np.array([np.median(group) if len(group) else np.nan for group in groups])
