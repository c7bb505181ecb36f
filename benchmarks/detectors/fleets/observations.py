"""What a detector can see of simulated attempts: durations, failure rates, shares of time."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.detectors.fleets import parameters
from benchmarks.detectors.fleets.attempts import DAY_S, HUNG_S, AttemptOutcome, SimulatedAttempts
from benchmarks.detectors.fleets.parameters import DAYS
from ett_service.core.regressions.finding import Subject
from ett_service.core.words import Category
from ett_service.detection.sample import Durations, Flags, Floats, Ints, Rates, Shares, SmallInts

_NO_PHASE = len(parameters.PHASES)
_START_CATEGORIES = (
    Category.SCHEDULING,
    Category.HARDWARE_SETUP,
    Category.LAUNCHER_INIT,
    Category.PT2_COMPILE,
)
_FAILURES = (AttemptOutcome.INFRA, AttemptOutcome.USER)
_OUTCOMES = {"infra": (AttemptOutcome.INFRA,), "user": (AttemptOutcome.USER,), "": _FAILURES}


@dataclass(frozen=True, slots=True)
class SubjectDurations:
    """Durations of one subject, in the order in which they became known."""

    durations: Durations
    values: Ints  #: by row and dimension of ``parameters.DIMENSIONS``
    until: Ints  #: how many rows are known at the end of each day

    def by(self, day: int) -> Durations:
        """Return what is known at the end of *day*."""
        return self.durations.chosen(slice(0, int(self.until[day])))


def durations(
    attempts: SimulatedAttempts, modes_are_known: bool = False
) -> dict[Subject, SubjectDurations]:
    """Return every duration that is known before the fleet's end."""
    by_subject = {}
    state = attempts.missed * modes_are_known
    at = attempts.start.copy()
    for index, phase in enumerate(parameters.PHASES[: parameters.START_PHASES]):
        seconds = attempts.lengths[:, index]
        at = at + seconds / DAY_S
        over = attempts.stuck > index
        by_subject[phase.subject] = _where_ended(attempts, seconds, at, over, state[:, index])
    begun = attempts.stuck == _NO_PHASE
    start = attempts.lengths[:, : parameters.START_PHASES].sum(axis=1)
    by_subject[parameters.TIME_TO_START] = _where_ended(attempts, start, at, begun)
    recovered = begun & ~np.isnan(attempts.waited)
    recovery = start + attempts.waited
    by_subject[parameters.TIME_TO_RECOVER] = _where_ended(attempts, recovery, at, recovered)
    ended_at = attempts.ended_at
    completed = begun & (attempts.outcome == AttemptOutcome.COMPLETED)
    shutdown = attempts.lengths[:, parameters.SHUTDOWN]
    subject = parameters.PHASES[parameters.SHUTDOWN].subject
    of_shutdown = state[:, parameters.SHUTDOWN]
    by_subject[subject] = _where_ended(attempts, shutdown, ended_at, completed, of_shutdown)
    failed = begun & np.isin(attempts.outcome, _FAILURES)
    unsaved = attempts.run % parameters.SAVE_EVERY_S
    by_subject[parameters.UNSAVED_TIME] = _where_ended(attempts, unsaved, ended_at, failed)
    by_subject[parameters.PHASES[parameters.SAVING].subject] = _saves(
        attempts, begun, state[:, parameters.SAVING]
    )
    if modes_are_known:
        by_subject |= {
            parameters.MISSES[phase.subject]: _misses(by_subject[phase.subject])
            for phase in parameters.PHASES
        }
    return by_subject


def _misses(values: SubjectDurations) -> SubjectDurations:
    """Return which values missed their cache, as their strata tell."""
    rows = values.durations
    missed = rows.stratum % 2
    rows = replace(rows, us=missed.astype(np.int64), stratum=rows.stratum // 2)
    return replace(values, durations=rows)


def _saves(attempts: SimulatedAttempts, begun: Flags, state: Ints) -> SubjectDurations:
    """Return the first saves of each attempt, each with a length of its own."""
    rows, at, seconds = [], [], []
    for number in range(1, parameters.MOST_SAVES + 1):
        saved = np.flatnonzero(begun & (attempts.saves >= number))
        factor = attempts.save_factors[saved, number - 1]
        rows.append(saved)
        at.append(attempts.loop_at[saved] + number * parameters.SAVE_EVERY_S / DAY_S)
        seconds.append(attempts.lengths[saved, parameters.SAVING] * factor)
    row = np.concatenate(rows)
    return _by_day(attempts, row, np.concatenate(seconds), np.concatenate(at), state)


def step_times(attempts: SimulatedAttempts) -> SubjectDurations:
    """Return the mean step time of each day of every attempt."""
    end = attempts.loop_at + attempts.run / DAY_S
    rows, at, spent = [], [], []
    for later in range(2 + int(parameters.LONGEST_RUN_S / DAY_S)):
        midnight = np.floor(attempts.loop_at) + later
        until = np.minimum(end, midnight + 1)
        seconds = (until - np.maximum(attempts.loop_at, midnight)) * DAY_S
        enough = seconds >= parameters.FEWEST_STEPS * attempts.step_s
        trained = np.flatnonzero(enough & (attempts.stuck == _NO_PHASE))
        rows.append(trained)
        at.append(np.minimum(until, midnight + 1 - 1e-9)[trained])
        spent.append(seconds[trained])
    row, days, seconds = (np.concatenate(parts) for parts in (rows, at, spent))
    order = _in_order(days)
    row, seconds = row[order], seconds[order]
    values = _by_day(attempts, row, attempts.step_s[row], days[order])
    setting = _stratum(attempts)[row] // 2 * 2 + attempts.large_batch[row]
    in_order = replace(
        values.durations,
        stratum=setting.astype(np.int32),
        spent_us=np.rint(seconds * 1e6).astype(np.int64),
    )
    return replace(values, durations=in_order)


def _where_ended(
    attempts: SimulatedAttempts,
    seconds: Floats,
    at: Floats,
    ended: Flags,
    state: Ints | None = None,
) -> SubjectDurations:
    rows = np.flatnonzero(ended)
    return _by_day(attempts, rows, seconds[rows], at[rows], state)


def _in_order(at: Floats) -> Ints:
    """Return the places of those that lie inside the fleet's days, in order."""
    within = np.flatnonzero((at >= 0) & (at < DAYS))
    return within[np.argsort(at[within], kind="stable")]


def _by_day(
    attempts: SimulatedAttempts,
    rows: Ints,
    seconds: Floats,
    at: Floats,
    state: Ints | None = None,
) -> SubjectDurations:
    """Return values of attempts; rows of another *state* are of another stratum."""
    order = _in_order(at)
    rows, day = rows[order], np.floor(at[order]).astype(np.int32)
    us = np.maximum(np.rint(seconds[order] * 1e6), 1).astype(np.int64)
    stratum = _stratum(attempts) * 2 + (0 if state is None else state)
    in_order = Durations(
        us=us,
        day=day,
        cohort=attempts.cohort[rows].astype(np.int32),
        stratum=stratum[rows].astype(np.int32),
        unit=attempts.job[rows].astype(np.int32),
        gpus=attempts.gpus[rows].astype(np.float64),
        spent_us=us,
    )
    until = np.searchsorted(day, np.arange(DAYS), side="right")
    return SubjectDurations(in_order, attempts.values[rows], until)


def _stratum(attempts: SimulatedAttempts) -> Ints:
    """Return hardware, size, and first start or restart, as one number."""
    size = np.searchsorted(parameters.SIZES, attempts.gpus)
    shape = attempts.hardware * len(parameters.SIZES) + size
    return np.asarray(shape * 2 + (attempts.number > 0))


def rates(attempts: SimulatedAttempts, cohorts: int) -> dict[Subject, Rates]:
    """Return failures by cause over GPU-hours; rows in order of days, cohorts, then sizes."""
    sizes = np.array(parameters.SIZES)
    size = np.searchsorted(sizes, attempts.gpus)
    parts = cohorts * len(sizes)
    apart = replace(attempts, cohort=attempts.cohort * len(sizes) + size)
    gpu_hours = _gpu_seconds(apart, parts, apart.start, apart.ended_at) / 3600
    return {
        subject: Rates(
            _failures(apart, parts, _OUTCOMES[subject.cause]),
            gpu_hours.ravel(),
            _day_of_row(parts),
            (_cohort_of_row(parts) // len(sizes)).astype(np.int32),
            sizes[_cohort_of_row(parts) % len(sizes)].astype(np.float64),
        )
        for subject in (parameters.FAILURES, *parameters.FAILURES_BY_CAUSE)
    }


def shares(attempts: SimulatedAttempts, cohorts: int) -> Shares:
    """Return accelerator time by category; rows in order of days, then cohorts."""
    by_category = {
        **_before_the_loop(attempts, cohorts),
        **_from_the_loop_on(attempts, cohorts),
    }
    return Shares(
        _day_of_row(cohorts),
        _cohort_of_row(cohorts),
        {category.value: seconds.ravel() * 1e6 for category, seconds in by_category.items()},
    )


def _before_the_loop(attempts: SimulatedAttempts, cohorts: int) -> Mapping[Category, Floats]:
    by_category = {}
    at = attempts.start
    for index, category in enumerate(_START_CATEGORIES):
        seconds = np.where(attempts.stuck == index, HUNG_S, attempts.lengths[:, index])
        seconds = np.where(attempts.stuck < index, 0.0, seconds)
        by_category[category] = _gpu_seconds(attempts, cohorts, at, at + seconds / DAY_S)
        at = at + seconds / DAY_S
    return by_category


def _from_the_loop_on(attempts: SimulatedAttempts, cohorts: int) -> Mapping[Category, Floats]:
    begun = attempts.stuck == _NO_PHASE
    saving = np.where(begun, attempts.saves * attempts.lengths[:, parameters.SAVING], 0.0)
    run = np.where(begun, attempts.run, 0.0)
    failed = np.isin(attempts.outcome, _FAILURES)
    lost = np.where(failed, run % parameters.SAVE_EVERY_S, 0.0)
    loop, end = attempts.loop_at, attempts.loop_at + run / DAY_S
    shutdown = np.where(begun, attempts.lengths[:, parameters.SHUTDOWN], 0.0) / DAY_S
    # Saves and lost time are spread evenly over the run: only sums by day matter.
    saved = np.divide(saving, run, out=np.zeros_like(run), where=run > 0)
    repeated = np.divide(lost, run, out=np.zeros_like(run), where=run > 0)
    effective = 1 - np.minimum(saved + repeated, 1)
    return {
        Category.EFFECTIVE_TRAINING: _gpu_seconds(attempts, cohorts, loop, end, effective),
        Category.CHECKPOINT_BLOCKING: _gpu_seconds(attempts, cohorts, loop, end, saved),
        Category.REPEATED_TRAINING: _gpu_seconds(attempts, cohorts, loop, end, repeated),
        Category.SHUTDOWN: _gpu_seconds(attempts, cohorts, end, end + shutdown),
    }


def _gpu_seconds(
    attempts: SimulatedAttempts,
    cohorts: int,
    begin: Floats,
    end: Floats,
    share: Floats | float = 1.0,
) -> Floats:
    """Return accelerator-seconds between two instants (in days), by day and cohort."""
    total = np.zeros((DAYS, cohorts))
    weight = attempts.gpus * DAY_S * np.broadcast_to(share, begin.shape)
    first, last = np.floor(begin), np.minimum(np.ceil(end), DAYS)  # some never end
    for later in range(1 + int(np.max(last - first, initial=0))):
        day = first + later
        inside = np.clip(np.minimum(end, day + 1) - np.maximum(begin, day), 0, None) * weight
        within = (day >= 0) & (day < DAYS)
        cell = day[within].astype(np.int64) * cohorts + attempts.cohort[within]
        total += np.bincount(cell, inside[within], DAYS * cohorts).reshape(total.shape)
    return total


def _failures(
    attempts: SimulatedAttempts, cohorts: int, outcomes: tuple[AttemptOutcome, ...]
) -> Ints:
    ended = attempts.ended_at
    counted = np.isin(attempts.outcome, outcomes) & (ended >= 0) & (ended < DAYS)
    counted &= attempts.stuck == _NO_PHASE
    cell = np.floor(ended[counted]).astype(np.int64) * cohorts + attempts.cohort[counted]
    return np.bincount(cell, minlength=DAYS * cohorts).astype(np.int64)


def _day_of_row(cohorts: int) -> SmallInts:
    return np.repeat(np.arange(DAYS, dtype=np.int32), cohorts)


def _cohort_of_row(cohorts: int) -> SmallInts:
    return np.tile(np.arange(cohorts, dtype=np.int32), DAYS)
