"""What nobody can beat: the chance to see a change whose size, place and law are known.

A detector that knows the factor, the cohort, the phase, the day and every variance still has the
noise of the values, and divides its share of false findings by all series. It is right with this
chance; a search that must estimate all that cannot be.
"""

import numpy as np
from scipy.special import ndtr, ndtri

from benchmarks.detectors.fleets import parameters
from benchmarks.detectors.fleets.fleet import SimulatedFleet
from benchmarks.detectors.fleets.parameters import CHANGED_ON
from benchmarks.detectors.scoring import WITHIN_DAYS
from ett_service.detection.options import Options
from ett_service.detection.sample import Floats, Ints
from ett_service.detection.window import groups


def chance(fleet: SimulatedFleet) -> float:
    """Return the chance to see the change of one phase of one cohort by its last day in time."""
    truth = fleet.truth
    (cohort,), (subject,) = truth.cohorts, truth.phases
    shape = truth.scenario.shape
    rows = fleet.durations[subject].durations
    mine = rows.day[rows.cohort == shape.plan.cohorts.index(cohort)].astype(np.int64)
    end = CHANGED_ON + WITHIN_DAYS
    first = end - Options().recent_days - Options().baseline_days
    late = _variance(mine, np.arange(CHANGED_ON, end), fleet)
    early = _variance(mine, np.arange(max(first, 0), CHANGED_ON), fleet)
    score = np.log(truth.scenario.factor) / np.sqrt(late + early)
    series = len(groups(shape.plan.cohorts).names) * len(fleet.sample(end - 1).subjects)
    return float(ndtr(score + ndtri(Options().q / series)))


def _variance(mine: Ints, days: Ints, fleet: SimulatedFleet) -> float:
    """Return the variance of the mean logarithm of these days, best weighed."""
    count = np.bincount(mine, minlength=int(days[-1]) + 1)[days].astype(np.float64)
    seen = count > 0
    if not seen.any():
        return float("inf")
    shape, (subject,) = fleet.truth.scenario.shape, fleet.truth.phases
    (phase,) = (each for each in parameters.PHASES if each.subject == subject)
    conditions = parameters.CLUSTER_DAY_SPREAD**2 + parameters.COHORT_DAY_SPREAD**2
    apart = np.abs(days[seen][:, None] - days[seen][None, :])
    shared: Floats = conditions * shape.day_spread**2 * shape.day_memory**apart
    own = (phase.spread**2 + parameters.JOB_SPREAD**2) / count[seen]
    return float(1 / np.linalg.inv(shared + np.diag(own)).sum())
