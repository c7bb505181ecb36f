"""Plants what a scenario asks for into the attempts of a made-up fleet."""

from dataclasses import dataclass

import numpy as np

from benchmarks.detectors import makeup
from benchmarks.detectors.arrivals import Flags, Floats, Ints, stream
from benchmarks.detectors.scenario import CHANGED_ON, DAYS, Kind, Scenario

OUTAGE_ON = 50  #: the day on which an outage begins
_MOVED = 0.4  #: part of a phase that is counted as another's
_NO_PHASE = len(makeup.PHASES)
_EVERYTHING = tuple(range(_NO_PHASE))
LAST_RELEASE = 8  #: of code; it comes on ``CHANGED_ON``
CAUSES = {"code_version": LAST_RELEASE, "image": 1, "host": 2, "cache": 1, "source": 0}
"""The value of each dimension that can be slower; of code it is the last."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A scenario, and what a seed chose for it."""

    scenario: Scenario
    cohorts: tuple[int, ...]  #: places in ``makeup.COHORTS``
    phases: tuple[int, ...]  #: places in ``makeup.PHASES``
    from_day: int
    to_day: int


@dataclass(frozen=True, slots=True)
class Planted:
    """Attempts with what is planted in them."""

    lengths: Floats
    failed: Floats  #: how likely each of them is to fail
    stuck: Ints  #: the phase that it never leaves; ``len(makeup.PHASES)`` for none


def choose(seed: int, scenario: Scenario) -> Plan:
    """Choose the cohort, the cluster and the phase that it happens to."""
    draws = stream(seed, "chosen")
    cohort = int(draws.integers(len(makeup.COHORTS)))
    phase = int(draws.integers(len(makeup.PHASES)))
    kind = scenario.kind
    phases = {
        Kind.OUTAGE: _EVERYTHING,
        Kind.COHORT: _EVERYTHING,
        Kind.RELABELLING: (makeup.LAUNCHER, makeup.COMPILE),
        Kind.HANG: (phase % makeup.STARTING,),
        Kind.FAILURES: (),
        Kind.MIX: (),
        Kind.NULL: (),
    }.get(kind, (phase,))
    if kind is Kind.OUTAGE:
        return Plan(scenario, _beside(cohort), phases, OUTAGE_ON, OUTAGE_ON + scenario.days)
    cohorts = {Kind.PHASE: tuple(range(len(makeup.COHORTS))), Kind.NULL: ()}.get(kind, (cohort,))
    return Plan(scenario, cohorts, phases, CHANGED_ON, DAYS)


def _beside(cohort: int) -> tuple[int, ...]:
    """Return the cohorts of the cluster that one is in."""
    clusters = enumerate(makeup.CLUSTER_OF)
    return tuple(place for place, other in clusters if other == makeup.CLUSTER_OF[cohort])


def plant(
    plan: Plan, usual: Floats, cohort: Ints, day: Ints, values: Ints, chance: Floats
) -> Planted:
    """Return attempts of *usual* lengths as they are with it; *chance* is three draws each."""
    kind = plan.scenario.kind
    hit = np.isin(cohort, plan.cohorts) & (day >= plan.from_day) & (day < plan.to_day)
    hit &= _is_slower(plan.scenario.cause, values, chance[:, 0])
    failed = np.full(len(usual), makeup.FAILED)
    stuck = np.full(len(usual), _NO_PHASE)
    lengths = usual.copy()
    if kind is Kind.RELABELLING:
        before, after = plan.phases
        moved = _MOVED * usual[hit, before]
        lengths[hit, before] -= moved
        lengths[hit, after] += moved
    elif kind is Kind.HANG:
        stuck[hit & (chance[:, 1] < makeup.HANGING)] = plan.phases[0]
    elif kind is Kind.FAILURES:
        odds = makeup.FAILED / (1 - makeup.FAILED) * plan.scenario.factor
        failed[hit] = odds / (1 + odds)
    elif kind is not Kind.MIX:
        factor = makeup.OUTAGE_SLOWS if kind is Kind.OUTAGE else plan.scenario.factor
        lengths[np.ix_(hit, np.array(plan.phases, dtype=np.int64))] *= factor
        failed[hit & (kind is Kind.OUTAGE)] = makeup.OUTAGE_FAILED
    return Planted(lengths, failed, stuck)


def _is_slower(cause: str, values: Ints, chance: Floats) -> Flags:
    """Tell which attempts something slower lies in, with one cause or none."""
    if not cause:
        return np.ones(len(values), dtype=np.bool_)
    if cause == "none":
        return np.asarray(chance < makeup.SPREAD_CAUSE)
    has = values[:, makeup.DIMENSIONS.index(cause)] == CAUSES[cause]
    return np.asarray(has | (chance < makeup.DOUBTFUL))
