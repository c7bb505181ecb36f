"""A made-up fleet: what a detector would have known of it at the end of each of its days.

It shares nothing with the detector but the columns that both speak of. See
``docs/design/0014-made-up-fleets.md`` for what it is made of.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from benchmarks.detectors import makeup, ratios
from benchmarks.detectors.arrivals import Flags, Floats, Ints, calendar, submit
from benchmarks.detectors.lives import DAY_S, Attempts, Outcome, live
from benchmarks.detectors.planting import CAUSES, Plan, choose
from benchmarks.detectors.scenario import DAYS, Kind, Scenario, Truth
from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Subject
from ett_service.detection.sample import Durations, Rates, Sample, Shares

_NO_PHASE = len(makeup.PHASES)


@dataclass(frozen=True, slots=True)
class Known:
    """Values of one subject, in the order in which they became known."""

    durations: Durations
    values: Ints  #: of each of ``makeup.DIMENSIONS``, beside every row of the durations
    until: Ints  #: rows by the end of each day

    def by(self, day: int) -> Durations:
        """Return what was known at the end of *day*."""
        whole, rows = self.durations, slice(0, int(self.until[day]))
        return Durations(
            whole.us[rows],
            whole.day[rows],
            whole.cohort[rows],
            whole.stratum[rows],
            whole.unit[rows],
            whole.gpus[rows],
        )


class SimulatedFleet:
    """A fleet of ``DAYS`` days; :func:`simulate` makes one."""

    def __init__(self, first_us: int, attempts: Attempts, truth: Truth) -> None:
        self.first_us = first_us  #: its first midnight
        self.truth = truth
        self.attempts = attempts
        self._rates = ratios.rates(attempts)
        self._shares = ratios.shares(attempts)

    @cached_property
    def known(self) -> Mapping[Subject, Known]:
        """All durations."""
        return _durations(self.attempts)

    def sample(self, day: int) -> Sample:
        """Return what was known at the end of *day*, from 0; columns are views of the fleet's."""
        durations = {subject: known.by(day) for subject, known in self.known.items()}
        return Sample(
            as_of_us=self.first_us + (day + 1) * DAY_US,
            days=day + 1,
            cohorts=makeup.COHORTS,
            durations={subject: found for subject, found in durations.items() if len(found.us)},
            rates={subject: _rates_by(rates, day) for subject, rates in self._rates.items()},
            shares=_shares_by(self._shares, day),
        )


def simulate(seed: int, scenario: Scenario) -> SimulatedFleet:
    """Make the fleet of *seed*, with what *scenario* plants; the same two give the same fleet."""
    days = calendar(seed)
    plan = choose(seed, scenario)
    grown = plan.cohorts[0] if plan.cohorts else 0
    attempts = live(seed, submit(seed, scenario, days.load, grown), days.queueing, plan)
    return SimulatedFleet(days.first_us, attempts, _truth(seed, plan, attempts))


def told_beforehand(seed: int, scenario: Scenario) -> Truth:
    """Return what is planted, but for what only the whole fleet tells: cost and explained part."""
    plan = choose(seed, scenario)
    if scenario.kind is Kind.NULL:
        return Truth(scenario, seed, None, None)
    phases = tuple(makeup.PHASES[place].subject for place in plan.phases)
    if scenario.kind is Kind.FAILURES:
        phases = (makeup.FAILURES, *makeup.FAILURES_BY_CAUSE)
    return Truth(
        scenario,
        seed,
        plan.from_day,
        plan.to_day if plan.to_day < DAYS else None,
        tuple(makeup.COHORTS[place] for place in plan.cohorts),
        () if scenario.kind in {Kind.HANG, Kind.MIX} else phases,
        _follows(plan),
    )


def _truth(seed: int, plan: Plan, attempts: Attempts) -> Truth:
    told = told_beforehand(seed, plan.scenario)
    meanwhile = (attempts.start >= plan.from_day) & (attempts.start < plan.to_day)
    surplus = _surplus(attempts)
    if not meanwhile.any():
        return told
    told = replace(told, impact=float(surplus.sum() / _held(attempts)[meanwhile].sum()))
    cause = plan.scenario.cause
    if cause not in CAUSES or not surplus.any():
        return told
    has = attempts.values[:, makeup.DIMENSIONS.index(cause)] == CAUSES[cause]
    explained = float(surplus[has].sum() / surplus.sum())
    return replace(told, value=str(CAUSES[cause]), explained=explained)


def _follows(plan: Plan) -> tuple[Subject, ...]:
    if plan.scenario.kind in {Kind.MIX, Kind.RELABELLING}:
        return ()
    starts = any(place < makeup.STARTING for place in plan.phases)
    return ((makeup.TIME_TO_START, makeup.TIME_TO_RECOVER) if starts else ()) + (makeup.ETT,)


def _surplus(attempts: Attempts) -> Floats:
    """Return the accelerator-seconds of each attempt that are planted."""
    by_phase = attempts.surplus.copy()
    by_phase[:, makeup.SAVING] *= attempts.saves
    return np.asarray(by_phase.sum(axis=1) * attempts.gpus)


def _held(attempts: Attempts) -> Floats:
    return np.asarray((attempts.ended_at - attempts.start) * DAY_S * attempts.gpus)


def _durations(attempts: Attempts) -> dict[Subject, Known]:
    """Return every duration that was known before the fleet's end."""
    found = {}
    at = attempts.start.copy()
    for place, made in enumerate(makeup.PHASES[: makeup.STARTING]):
        at = at + attempts.lengths[:, place] / DAY_S
        left = attempts.stuck > place
        found[made.subject] = _known(attempts, attempts.lengths[:, place], at, left)
    begun = attempts.stuck == _NO_PHASE
    start = attempts.lengths[:, : makeup.STARTING].sum(axis=1)
    found[makeup.TIME_TO_START] = _known(attempts, start, at, begun)
    again = begun & ~np.isnan(attempts.waited)
    found[makeup.TIME_TO_RECOVER] = _known(attempts, start + attempts.waited, at, again)
    shutdown = attempts.lengths[:, makeup.SHUTDOWN]
    ended = begun & (attempts.outcome == Outcome.COMPLETED)
    subject = makeup.PHASES[makeup.SHUTDOWN].subject
    found[subject] = _known(attempts, shutdown, attempts.ended_at, ended)
    failed = begun & np.isin(attempts.outcome, (Outcome.INFRA, Outcome.USER))
    unsaved = attempts.run % makeup.SAVE_EVERY_S
    found[makeup.UNSAVED] = _known(attempts, unsaved, attempts.ended_at, failed)
    found[makeup.PHASES[makeup.SAVING].subject] = _saves(attempts, begun)
    return found


def _saves(attempts: Attempts, begun: Flags) -> Known:
    """Return the first saves of attempts, each with a length of its own."""
    rows, at, lengths = [], [], []
    for number in range(1, makeup.MOST_SAVES + 1):
        saved = np.flatnonzero(begun & (attempts.saves >= number))
        rows.append(saved)
        at.append(attempts.loop_at[saved] + number * makeup.SAVE_EVERY_S / DAY_S)
        lengths.append(attempts.lengths[saved, makeup.SAVING] * attempts.wobble[saved, number - 1])
    return _rows(attempts, np.concatenate(rows), np.concatenate(lengths), np.concatenate(at))


def _known(attempts: Attempts, seconds: Floats, at: Floats, has: Flags) -> Known:
    rows = np.flatnonzero(has)
    return _rows(attempts, rows, seconds[rows], at[rows])


def _rows(attempts: Attempts, rows: Ints, seconds: Floats, at: Floats) -> Known:
    within = np.flatnonzero((at >= 0) & (at < DAYS))
    order = within[np.argsort(at[within], kind="stable")]
    rows, day = rows[order], np.floor(at[order]).astype(np.int32)
    durations = Durations(
        us=np.maximum(np.rint(seconds[order] * 1e6), 1).astype(np.int64),
        day=day,
        cohort=attempts.cohort[rows].astype(np.int32),
        stratum=_stratum(attempts)[rows].astype(np.int32),
        unit=attempts.job[rows].astype(np.int32),
        gpus=attempts.gpus[rows].astype(np.float64),
    )
    until = np.searchsorted(day, np.arange(DAYS), side="right")
    return Known(durations, attempts.values[rows], until)


def _stratum(attempts: Attempts) -> Ints:
    """Return hardware, size, and first start or restart, as one number."""
    size = np.searchsorted(makeup.SIZES, attempts.gpus)
    shape = attempts.hardware * len(makeup.SIZES) + size
    return np.asarray(shape * 2 + (attempts.number > 0))


def _rates_by(rates: Rates, day: int) -> Rates:
    rows = slice(0, int(np.searchsorted(rates.day, day, side="right")))
    return Rates(rates.events[rows], rates.exposure[rows], rates.day[rows], rates.cohort[rows])


def _shares_by(shares: Shares, day: int) -> Shares:
    rows = slice(0, int(np.searchsorted(shares.day, day, side="right")))
    by_category = {name: held[rows] for name, held in shares.by_category.items()}
    return Shares(shares.day[rows], shares.cohort[rows], by_category)
