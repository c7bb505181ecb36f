"""What nobody can beat: the chance to see a change whose size, place and law are known.

A detector that knows the factor, the cohort, the phase, the days and the law still has the noise of
the values, and divides its share of false findings by all series. It is right with this
chance; a search that must estimate all that cannot be.

A second chance is that of a scan that knows the law and the noise, but not the day: it tries all
days on which the change may have begun, any of which may look like one by chance.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from benchmarks.detectors.fleets import parameters
from benchmarks.detectors.fleets.fleet import SimulatedFleet
from benchmarks.detectors.fleets.parameters import PhaseModel
from benchmarks.detectors.fleets.scenario import RAMP_DAYS, Scenario, ScenarioKind
from benchmarks.detectors.fleets.shape import (
    MISS_FACTOR,
    MISS_SHARE,
    WORSE_MISS_SHARE,
    Shape,
)
from benchmarks.detectors.scoring import WITHIN_DAYS, Chances
from ett_service.detection.models.residuals import residuals
from ett_service.detection.panel import CHANCE_OF_YOUNG, num_young
from ett_service.detection.sample import Durations, Floats, Ints, Options
from ett_service.detection.window import groups

_KINDS = frozenset({ScenarioKind.CELL, ScenarioKind.RAMP, ScenarioKind.SECOND, ScenarioKind.HITS})
"""Of these one phase of one cohort changes, and has a bound."""

_GOALS = {
    (ScenarioKind.CELL, 60, 1.3): 0.8,
    (ScenarioKind.CELL, 60, 1.6): 0.95,
    (ScenarioKind.CELL, 60, 2.5): 0.98,
    (ScenarioKind.CELL, 12, 1.6): 0.75,
    (ScenarioKind.CELL, 12, 2.5): 0.95,
    (ScenarioKind.HITS, 60, 1.0): 0.9,
    (ScenarioKind.RAMP, 60, 1.02): 0.7,
    (ScenarioKind.SECOND, 60, 1.6): 0.8,
}
"""Recall of the right cohort and phase that is wanted, by kind, attempts a day and factor."""

_PART_OF_BOUND = 0.9  #: that is wanted where the bound is too low for the goal
_STEP = 0.01
_GRID = np.arange(-8.0, 12.0, _STEP)
_QUANTILES = 20_001
_DRAWS = 4_000
_COHORTS, _VALUES, _DAYS = 20, 4_000, 40  #: of which scores are taken
_MEDIAN_US = 60e6


def has_bound(scenario: Scenario) -> bool:
    """Whether the change is of one phase of one cohort, whatever the attempt's other values."""
    return scenario.kind in _KINDS and not scenario.cause


def goal(scenario: Scenario, bound: float) -> float | None:
    """Return the recall that is wanted of a cell; nine tenths of a *bound* that is under it."""
    wanted = _GOALS.get((scenario.kind, scenario.attempts_per_day, scenario.factor))
    if wanted is None or scenario.cause:
        return None
    return wanted if wanted <= bound else _PART_OF_BOUND * bound


def chances(fleet: SimulatedFleet) -> Chances:
    """Return the chances of the fleet's change."""
    truth = fleet.truth
    (cohort,), (subject,), begin = truth.cohorts, truth.phases, truth.from_day
    assert begin is not None
    cohorts = truth.scenario.shape.plan.cohorts
    rows = fleet.durations[subject].durations
    end = begin + WITHIN_DAYS
    first = max(end - Options().recent_days - Options().baseline_days, 0)
    days = np.arange(first, end)
    mine = rows.chosen(np.flatnonzero(rows.cohort == cohorts.index(cohort)))
    # All saves of an attempt hit or miss, and are as long but for a little.
    mine = mine.chosen(np.unique(np.stack([mine.unit, mine.day]), axis=1, return_index=True)[1])
    count = np.bincount(mine.day, minlength=end)[days].astype(np.float64)
    if truth.scenario.kind is ScenarioKind.HITS:
        effect: Floats = (WORSE_MISS_SHARE - MISS_SHARE) * (days >= begin).astype(np.float64)
        variance = np.diag(MISS_SHARE * (1 - MISS_SHARE) / np.maximum(count, 1))
    else:
        effect = _effect(truth.scenario, days, begin)
        variance = _variance(count, days, fleet)
    series = len(groups(cohorts).names) * len(fleet.sample(end - 1).subjects)
    share = Options().q / series
    seen = np.flatnonzero(count)
    noise, of_seen = variance[np.ix_(seen, seen)], effect[seen]
    if not of_seen.any() or of_seen.all():
        return Chances(share, share)
    recent = Options().recent_days
    steps = days[seen] >= days[-recent:, None]
    is_start = steps.any(axis=1) & ~steps.all(axis=1)
    is_young = (np.arange(recent, 0, -1) <= num_young(recent))[is_start]
    known = float(ndtr(_weights(of_seen, noise) @ of_seen + ndtri(share)))
    return Chances(known, _searched(steps[is_start], is_young, of_seen, noise, share))


def _weights(change: Floats, variance: Floats) -> Floats:
    """Return the weights of days by which a change scores most, beside a level not known.

    Scores have a variance of 1.
    """
    design = np.stack([np.ones(len(change)), change])
    weighed = np.linalg.solve(variance, design.T)
    best = (weighed @ np.linalg.inv(design @ weighed))[:, 1]
    return np.asarray(best / np.sqrt(best @ variance @ best))


def _searched(
    steps: NDArray[np.bool_],
    is_young: NDArray[np.bool_],
    effect: Floats,
    variance: Floats,
    share: float,
) -> float:
    """Return the chance that one of *steps* scores more than the best do by chance.

    Young ones have a small part of the *share*, as in the search.
    """
    weights = np.stack([_weights(step.astype(np.float64), variance) for step in steps])
    alike = weights @ variance @ weights.T
    angles = np.arccos(np.clip(np.diag(alike, 1), -1.0, 1.0))
    young = _limit(angles[is_young[1:] & is_young[:-1]], CHANCE_OF_YOUNG * share)
    old = _limit(angles[~is_young[1:] & ~is_young[:-1]], (1 - CHANCE_OF_YOUNG) * share)
    limits = np.where(is_young, young, old)
    scores = np.random.default_rng(0).multivariate_normal(weights @ effect, alike, _DRAWS)
    return float((scores > limits).any(axis=1).mean())


def _limit(angles: Floats, share: float) -> float:
    """Return the score that the largest of neighbours passes with a chance of *share*."""
    return float(brentq(lambda score: _largest(score, angles) - share, 1.0, 10.0))


def _largest(score: float, angles: Floats) -> float:
    """Return the chance of a largest score so large, by the *angles* of neighbours (Efron 1997)."""
    density = math.exp(-(score**2) / 2) / math.sqrt(2 * math.pi)
    return float(ndtr(-score) + density * 2 / score * (ndtr(score * angles / 2) - 0.5).sum())


def _effect(scenario: Scenario, days: Ints, begin: int) -> Floats:
    """Return by how much the logarithm is larger on each day."""
    risen = np.clip(days + 1 - begin, 0, RAMP_DAYS if scenario.kind is ScenarioKind.RAMP else 1)
    return np.asarray(np.log(scenario.factor) * risen)


def _variance(count: Floats, days: Ints, fleet: SimulatedFleet) -> Floats:
    """Return the covariance of the mean logarithms of days."""
    shape, (subject,) = fleet.truth.scenario.shape, fleet.truth.phases
    (phase,) = (each for each in parameters.PHASES if each.subject == subject)
    conditions = parameters.CLUSTER_DAY_SPREAD**2 + parameters.COHORT_DAY_SPREAD**2
    apart = np.abs(days[:, None] - days[None, :])
    shared: Floats = conditions * shape.day_spread**2 * shape.day_memory**apart
    scenario = fleet.truth.scenario
    rise = np.log(scenario.factor) * (RAMP_DAYS / 2 if scenario.kind is ScenarioKind.RAMP else 1)
    own = variance_of_value(shape, phase, float(rise)) / np.maximum(count, 1)
    return shared + np.diag(own)


@lru_cache
def variance_of_value(shape: Shape, phase: PhaseModel, rise: float) -> float:
    """Return the variance of a normal value that tells a rise as surely as one of the true law.

    Both have the same coefficient of Bhattacharyya (1943), which bounds the errors of any test.
    """
    density = _density(shape, phase)
    shifted = np.interp(_GRID - rise, _GRID, density)
    alike = float(np.sqrt(density * shifted).sum()) * _STEP
    return -(rise**2) / (8 * math.log(alike))


def told(shape: Shape, phase: PhaseModel, factor: float) -> float:
    """Return how surely the score of a value tells a slowdown, relative to what the law allows.

    Both are in standard deviations of a value. The score is that of the search; one of twenty
    cohorts that are alike becomes slower halfway.
    """
    draws, density = np.random.default_rng(0), _density(shape, phase)
    number = _COHORTS * _VALUES
    logs = draws.choice(_GRID, number, p=density / density.sum())
    cohort = np.repeat(np.arange(_COHORTS, dtype=np.int32), _VALUES)
    day = np.tile(np.arange(_VALUES, dtype=np.int32) % _DAYS, _COHORTS)
    is_late, is_changed, rise = day >= _DAYS // 2, cohort == 0, math.log(factor)
    us = np.rint(_MEDIAN_US * np.exp(logs + rise * (is_late & is_changed))).astype(np.int64)
    alike, job = np.zeros(number, dtype=np.int32), np.arange(number, dtype=np.int32)
    scored = residuals(
        Durations(us, day, cohort, alike, job, np.ones(number), us), _COHORTS, ~is_late
    )
    after, before = (scored.cut[is_changed & side].mean() for side in (is_late, ~is_late))
    of_score = float((after - before) / scored.cut_spread[0])
    return of_score * math.sqrt(variance_of_value(shape, phase, rise)) / rise


def _density(shape: Shape, phase: PhaseModel) -> Floats:
    """Return the density of a duration's logarithm, its job's share included."""
    below = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    logs = shape.logs(ndtri(below)[:, None], np.array([phase.spread]))[:, 0]
    least, most = np.log(parameters.TAIL_FACTORS)
    tails = np.linspace(float(least), float(most), 40)
    counted = np.zeros(len(_GRID))
    for place, share in _modes(shape, phase):
        for tail, weight in [(0.0, 1 - parameters.TAIL_SHARE)] + [
            (float(tail), parameters.TAIL_SHARE / len(tails)) for tail in tails
        ]:
            bins = np.clip(np.rint((logs + place + tail - _GRID[0]) / _STEP), 0, len(_GRID) - 1)
            counted += share * weight * np.bincount(bins.astype(np.intp), minlength=len(_GRID))
    reach = np.arange(-5 * parameters.JOB_SPREAD, 5 * parameters.JOB_SPREAD, _STEP)
    kernel = np.exp(-((reach / parameters.JOB_SPREAD) ** 2) / 2)
    density = np.convolve(counted, kernel, mode="same")
    return np.asarray(density / (density.sum() * _STEP))


def _modes(shape: Shape, phase: PhaseModel) -> list[tuple[float, float]]:
    """Return the places and shares of the modes that no stratum tells apart."""
    modes = [(0.0, 1.0)]
    caches = []
    if shape.has_modes and not shape.modes_are_known:
        caches.append((np.log(MISS_FACTOR), MISS_SHARE))
    if phase == parameters.PHASES[parameters.COMPILE]:
        caches.append((np.log(1 - parameters.WARM_CACHE_SAVES), parameters.WARM_CACHE_SHARE))
    for place, share in caches:
        modes = [
            (at + further, part * of_part)
            for at, part in modes
            for further, of_part in ((0.0, 1 - share), (float(place), share))
        ]
    return modes
