"""Samples made by hand: a cohort's phase lasts so long on each day, give or take."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Finding, Metric, SeriesCohort, Subject, Verdict
from ett_service.detection.sample import Durations, Floats, Memory, Options, Sample
from ett_service.detection.scan import Scan, scan

DAYS = 56
AS_OF_US = 1_750_000_000_000_000
OPTIONS = Options(impact_floor=0.0)
SPREAD = 0.25

COHORTS: tuple[SeriesCohort, ...] = tuple(
    (("cluster", cluster), ("model", model))
    for cluster, model in (("a", "one"), ("a", "two"), ("b", "three"), ("b", "four"))
)
COMPILE = Subject(Metric.PHASE_SECONDS, phase="pt2_compile")
LAUNCHER = Subject(Metric.PHASE_SECONDS, phase="launcher_init")
SCHEDULING = Subject(Metric.PHASE_SECONDS, phase="scheduling")
START = Subject(Metric.TIME_TO_START_SECONDS)
PHASES = (SCHEDULING, LAUNCHER, COMPILE)
SECONDS: Mapping[Subject, float] = {SCHEDULING: 60.0, LAUNCHER: 240.0, COMPILE: 400.0}

Seconds = dict[Subject, NDArray[np.float64]]
Change = Callable[[NDArray[np.int32], NDArray[np.int32], Seconds], None]
"""Changes seconds in place, by the day and the cohort of each attempt."""


def fleet(
    change: Change | None = None, *, seed: int = 1, a_day: Sequence[float] = (6, 6, 6, 6)
) -> Sample:
    """Make every attempt of all days, with *change* done to them."""
    draws = np.random.default_rng(seed)
    numbers = draws.poisson(np.array(a_day)[:, None], (len(a_day), DAYS)).ravel()
    cohort, day = (
        np.repeat(part.ravel(), numbers).astype(np.int32) for part in np.indices((len(a_day), DAYS))
    )
    seconds = {
        subject: median * np.exp(draws.normal(0, SPREAD, len(day)))
        for subject, median in SECONDS.items()
    }
    if change is not None:
        change(day, cohort, seconds)
    seconds[START] = sum(seconds.values(), np.zeros(len(day)))
    return sample({subject: rows(lasted, day, cohort) for subject, lasted in seconds.items()})


def conditions(draws: np.random.Generator, series: int, days: int, memory: float) -> Floats:
    """Draw conditions of days with a variance of 1, of which the next day has a part *memory*."""
    drawn = draws.normal(0, 1, (series, days))
    for day in range(1, days):
        fresh = np.sqrt(1 - memory**2) * drawn[:, day]
        drawn[:, day] = memory * drawn[:, day - 1] + fresh
    return np.asarray(drawn)


def rows(
    seconds: NDArray[np.float64], day: NDArray[np.int32], cohort: NDArray[np.int32]
) -> Durations:
    """Make columns, each attempt of a job of its own."""
    us = np.rint(seconds * 1e6).astype(np.int64)
    return Durations(
        us=us,
        day=day,
        cohort=cohort,
        stratum=np.zeros(len(day), dtype=np.int32),
        unit=np.arange(len(day), dtype=np.int32),
        gpus=np.full(len(day), 8.0),
        spent_us=us,
    )


def sample(
    durations: Mapping[Subject, Durations], cohorts: Sequence[SeriesCohort] = COHORTS
) -> Sample:
    """Make a sample of ``DAYS`` days."""
    return Sample(AS_OF_US, DAYS, cohorts, durations, {})


def slower(
    subject: Subject, factor: float, since: int, *, cohort: int = 0, until: int = DAYS
) -> Change:
    """Multiply a phase of one cohort."""

    def change(day: NDArray[np.int32], of: NDArray[np.int32], seconds: Seconds) -> None:
        hit = (of == cohort) & (day >= since) & (day < until)
        seconds[subject][hit] *= factor

    return change


def at_end_of(day: int, whole: Sample) -> Sample:
    """Return what was known of *whole* at the end of *day*."""
    later_us = (whole.days - day - 1) * DAY_US
    durations = {
        subject: column.chosen(np.flatnonzero(column.day <= day))
        for subject, column in whole.durations.items()
    }
    return replace(whole, as_of_us=whole.as_of_us - later_us, days=day + 1, durations=durations)


def scan_of(whole: Sample, memory: Memory | None = None) -> Scan:
    """Scan a sample without the floor of the impact."""
    return scan(whole, OPTIONS, memory or Memory())


def regressions(whole: Sample) -> list[Finding]:
    """Return what alerts."""
    return [each for each in scan_of(whole).findings if each.verdict is Verdict.REGRESSION]


def day_of(finding: Finding) -> float:
    """Return the day on which a finding begins."""
    return (finding.onset_us - (AS_OF_US - DAYS * DAY_US)) / DAY_US
