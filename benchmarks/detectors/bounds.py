"""What nobody can beat: the chance to see a change whose size, place and law are known.

A detector that knows the factor, the cohort, the phase, the days and every variance still has the
noise of the values, and divides its share of false findings by all series. It is right with this
chance; a search that must estimate all that cannot be.
"""

import numpy as np
from scipy.special import ndtr, ndtri

from benchmarks.detectors.fleets import parameters
from benchmarks.detectors.fleets.fleet import SimulatedFleet
from benchmarks.detectors.fleets.parameters import CHANGED_ON
from benchmarks.detectors.fleets.scenario import RAMP_DAYS, Scenario, ScenarioKind
from benchmarks.detectors.fleets.shape import MISS_SHARE, WORSE_MISS_SHARE
from benchmarks.detectors.scoring import WITHIN_DAYS
from ett_service.detection.observed.sample import Flags, Floats, Ints
from ett_service.detection.options import Options
from ett_service.detection.window import groups


def chance(fleet: SimulatedFleet) -> float:
    """Return the chance to see the change of one phase of one cohort by its last day in time."""
    truth = fleet.truth
    (cohort,), (subject,) = truth.cohorts, truth.phases
    cohorts = truth.scenario.shape.plan.cohorts
    rows = fleet.durations[subject].durations
    end = CHANGED_ON + WITHIN_DAYS
    first = max(end - Options().recent_days - Options().baseline_days, 0)
    days = np.arange(first, end)
    mine = rows.chosen(np.flatnonzero(rows.cohort == cohorts.index(cohort)))
    if truth.scenario.kind is ScenarioKind.HITS:  # all saves of an attempt hit or miss
        mine = mine.chosen(np.unique(np.stack([mine.unit, mine.day]), axis=1, return_index=True)[1])
    count = np.bincount(mine.day, minlength=end)[days].astype(np.float64)
    if truth.scenario.kind is ScenarioKind.HITS:
        score = _score_of_hits(count, days >= CHANGED_ON)
    else:
        score = _score(_effect(truth.scenario, days), _variance(count, days, fleet), count > 0)
    series = len(groups(cohorts).names) * len(fleet.sample(end - 1).subjects)
    return float(ndtr(score + ndtri(Options().q / series)))


def _effect(scenario: Scenario, days: Ints) -> Floats:
    """Return by how much the logarithm is larger on each day."""
    risen = np.clip(
        days + 1 - CHANGED_ON, 0, RAMP_DAYS if scenario.kind is ScenarioKind.RAMP else 1
    )
    return np.asarray(np.log(scenario.factor) * risen)


def _score(effect: Floats, variance: Floats, seen: Flags) -> float:
    """Return the score of the effect, best weighed, beside a level that is not known."""
    design = np.stack([np.ones(int(seen.sum())), effect[seen]])
    information = design @ np.linalg.solve(variance[np.ix_(seen, seen)], design.T)
    if not effect[seen].any() or effect[seen].all():
        return 0.0
    return float(1 / np.sqrt(np.linalg.inv(information)[1, 1]))


def _score_of_hits(count: Floats, late: Flags) -> float:
    after, before = float(count[late].sum()), float(count[~late].sum())
    if not after or not before:
        return 0.0
    variance = MISS_SHARE * (1 - MISS_SHARE) * (1 / after + 1 / before)
    return float((WORSE_MISS_SHARE - MISS_SHARE) / np.sqrt(variance))


def _variance(count: Floats, days: Ints, fleet: SimulatedFleet) -> Floats:
    """Return the covariance of the mean logarithms of days."""
    shape, (subject,) = fleet.truth.scenario.shape, fleet.truth.phases
    (phase,) = (each for each in parameters.PHASES if each.subject == subject)
    conditions = parameters.CLUSTER_DAY_SPREAD**2 + parameters.COHORT_DAY_SPREAD**2
    apart = np.abs(days[:, None] - days[None, :])
    shared: Floats = conditions * shape.day_spread**2 * shape.day_memory**apart
    own = (phase.spread**2 + parameters.JOB_SPREAD**2) / np.maximum(count, 1)
    return shared + np.diag(own)
