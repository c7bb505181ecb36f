"""Failures, exposure and shares of time of a made-up fleet, by cohort and day."""

from collections.abc import Mapping

import numpy as np

from benchmarks.detectors import makeup
from benchmarks.detectors.arrivals import Floats, Ints
from benchmarks.detectors.lives import DAY_S, HUNG_S, Attempts, Outcome
from benchmarks.detectors.scenario import DAYS
from ett_service.core.regressions.finding import Subject
from ett_service.core.words import Category
from ett_service.detection.sample import Rates, Shares

_COHORTS = len(makeup.COHORTS)
_STARTING = (
    Category.SCHEDULING,
    Category.HARDWARE_SETUP,
    Category.LAUNCHER_INIT,
    Category.PT2_COMPILE,
)
_CAUSE = {"infra": (Outcome.INFRA,), "user": (Outcome.USER,), "": (Outcome.INFRA, Outcome.USER)}


def rates(attempts: Attempts) -> dict[Subject, Rates]:
    """Return failures by cause over GPU-hours; rows in order of days, then cohorts."""
    exposure = _held(attempts, attempts.start, attempts.ended_at) / 3600
    return {
        subject: Rates(
            _events(attempts, _CAUSE[subject.cause]).ravel(),
            exposure.ravel(),
            _day_of_row(),
            _cohort_of_row(),
        )
        for subject in (makeup.FAILURES, *makeup.FAILURES_BY_CAUSE)
    }


def shares(attempts: Attempts) -> Shares:
    """Return accelerator time by category; rows in order of days, then cohorts."""
    found = {**_before_the_loop(attempts), **_from_the_loop_on(attempts)}
    return Shares(
        _day_of_row(),
        _cohort_of_row(),
        {category.value: held.ravel() * 1e6 for category, held in found.items()},
    )


def _before_the_loop(attempts: Attempts) -> Mapping[Category, Floats]:
    found = {}
    at = attempts.start
    for place, category in enumerate(_STARTING):
        lengths = np.where(attempts.stuck == place, HUNG_S, attempts.lengths[:, place])
        lengths = np.where(attempts.stuck < place, 0.0, lengths)
        found[category] = _held(attempts, at, at + lengths / DAY_S)
        at = at + lengths / DAY_S
    return found


def _from_the_loop_on(attempts: Attempts) -> Mapping[Category, Floats]:
    begun = attempts.stuck == len(makeup.PHASES)
    saving = np.where(begun, attempts.saves * attempts.lengths[:, makeup.SAVING], 0.0)
    run = np.where(begun, attempts.run, 0.0)
    lost = np.isin(attempts.outcome, (Outcome.INFRA, Outcome.USER))
    again = np.where(lost, run % makeup.SAVE_EVERY_S, 0.0)
    at = attempts.loop_at
    end = at + run / DAY_S
    stop = np.where(begun, attempts.lengths[:, makeup.SHUTDOWN], 0.0) / DAY_S
    # Saves and what is lost are spread over the run; only sums by day are told.
    part = np.divide(saving, run, out=np.zeros_like(run), where=run > 0)
    repeated = np.divide(again, run, out=np.zeros_like(run), where=run > 0)
    return {
        Category.EFFECTIVE_TRAINING: _held(attempts, at, end, 1 - np.minimum(part + repeated, 1)),
        Category.CHECKPOINT_BLOCKING: _held(attempts, at, end, part),
        Category.REPEATED_TRAINING: _held(attempts, at, end, repeated),
        Category.SHUTDOWN: _held(attempts, end, end + stop),
    }


def _held(attempts: Attempts, begin: Floats, end: Floats, part: Floats | float = 1.0) -> Floats:
    """Return accelerator-seconds between two instants (days), by day and cohort."""
    found = np.zeros((DAYS, _COHORTS))
    weight = attempts.gpus * DAY_S * np.broadcast_to(part, begin.shape)
    first = np.floor(begin)
    for later in range(1 + int(np.max(np.ceil(end) - first, initial=0))):
        day = first + later
        inside = np.clip(np.minimum(end, day + 1) - np.maximum(begin, day), 0, None) * weight
        seen = (day >= 0) & (day < DAYS)
        place = day[seen].astype(np.int64) * _COHORTS + attempts.cohort[seen]
        found += np.bincount(place, inside[seen], DAYS * _COHORTS).reshape(found.shape)
    return found


def _events(attempts: Attempts, outcomes: tuple[Outcome, ...]) -> Ints:
    ended = attempts.ended_at
    counted = np.isin(attempts.outcome, outcomes) & (ended >= 0) & (ended < DAYS)
    counted &= attempts.stuck == len(makeup.PHASES)
    place = np.floor(ended[counted]).astype(np.int64) * _COHORTS + attempts.cohort[counted]
    return np.bincount(place, minlength=DAYS * _COHORTS).astype(np.int64)


def _day_of_row() -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.repeat(np.arange(DAYS, dtype=np.int32), _COHORTS)


def _cohort_of_row() -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.tile(np.arange(_COHORTS, dtype=np.int32), DAYS)
