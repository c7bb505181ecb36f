"""What is observed of a made-up project: durations drawn day by day, without a store."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ett_service.core.intervals import DAY_US, HOUR_US, SECOND_US
from ett_service.core.regressions.finding import SeriesCohort, Subject
from ett_service.core.words import Category
from ett_service.detection.sample import Attempts, AttemptValues, Held, Observed

TO_US = 20_500 * DAY_US
"""A midnight, at which it ends."""

COHORT: SeriesCohort = (("cluster", "a"), ("model", "m"))


def observed_project(
    factors: Mapping[Subject, Callable[[int], float]],
    *,
    days: int = 60,
    a_day: int = 6,
    gpus: float = 8.0,
    cohorts: Sequence[SeriesCohort] = (COHORT,),
    hardware: Sequence[str] = ("H100",),
    hours: float = 2.0,
) -> Observed:
    """Draw an attempt's durations of each subject, 100 s times a day's factor in the median.

    Every attempt is a job of its own and holds its accelerators for some *hours*; they take turns
    at cohorts and hardware.
    """
    draws = np.random.default_rng(5)
    count = days * a_day
    place = np.arange(count)
    day = place // a_day
    known_us = TO_US - days * DAY_US + day * DAY_US + (2 + place % a_day) * HOUR_US
    spread = np.exp(draws.normal(0, 0.2, (len(factors), count)))
    none, alike = np.array([], dtype=np.int32), np.zeros(count, dtype=np.int32)
    lengths = [
        (100 * SECOND_US * np.array([factor(each) for each in day.tolist()]) * noise).astype(
            np.int64
        )
        for factor, noise in zip(factors.values(), spread, strict=True)
    ]
    durations = {
        subject: AttemptValues(us, known_us, place, alike, us)
        for subject, us in zip(factors, lengths, strict=True)
    }
    return Observed(
        to_us=TO_US,
        days=days,
        cohorts=cohorts,
        jobs=[f"job-{each}" for each in place],
        hardware=hardware,
        attempts=Attempts(
            cohort=(place % len(cohorts)).astype(np.int32),
            stratum=alike,
            unit=place.astype(np.int32),
            number=np.zeros(count, dtype=np.int32),
            gpus=np.full(count, gpus),
            hardware=(place // len(cohorts) % len(hardware)).astype(np.int32),
        ),
        durations=durations,
        failures={},
        held=Held(known_us - round(hours * HOUR_US), known_us, place),
        time_day=none,
        time_cohort=none,
        time={category: np.array([]) for category in Category},
        excluded_days=frozenset(),
    )
