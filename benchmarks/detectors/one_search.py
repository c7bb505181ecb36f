"""One search of each fleet, without the states of findings: scores, limits and gates alone.

It is made on the 13th day of the change, and where none is planted on three days. Day by day, as
``runner`` does, a fleet takes some forty times as long.
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

from benchmarks.detectors.bounds import chances, has_bound
from benchmarks.detectors.fleets.fleet import SimulatedFleet, simulate
from benchmarks.detectors.fleets.parameters import DAYS
from benchmarks.detectors.runner import CELLS
from benchmarks.detectors.scoring import Chances, Proportion
from ett_service.core.regressions.finding import Verdict
from ett_service.detection.sample import Memory, Options
from ett_service.detection.scan import scan

DAYS_AFTER = 12  #: the change began, so that it is its 13th day
_DAYS_APART = 12
_SEARCHES = 3  #: of a fleet in which nothing is planted


@dataclass(frozen=True, slots=True)
class CellSearches:
    """What single searches of the fleets of one cell found."""

    cell: str
    fleets: int
    false_per_search: float
    right_cell: Proportion | None  #: fleets in which the change was found; None without any
    bound: Chances | None  #: mean chances, as of ``bounds``


@dataclass(frozen=True, slots=True)
class _FleetSearches:
    false_per_search: float
    is_right: bool | None
    bound: Chances | None


def search_once(
    cell: str, seeds: Sequence[int], jobs: int = 1, q: float = Options().q
) -> CellSearches:
    """Search the fleets of a cell, with a share *q* of false findings."""
    search = partial(_search, cell, q)
    if jobs == 1:
        fleets = list(map(search, seeds))
    else:
        with ProcessPoolExecutor(jobs) as pool:
            fleets = list(pool.map(search, seeds))
    right = [each.is_right for each in fleets if each.is_right is not None]
    bounds = [each.bound for each in fleets if each.bound is not None]
    return CellSearches(
        cell=cell,
        fleets=len(fleets),
        false_per_search=fmean(each.false_per_search for each in fleets),
        right_cell=Proportion(sum(right), len(right)) if right else None,
        bound=Chances(*map(fmean, zip(*bounds, strict=True))) if bounds else None,
    )


def _search(cell: str, q: float, seed: int) -> _FleetSearches:
    scenario = CELLS[cell].scenario
    fleet = simulate(seed, scenario)
    options = replace(Options(), impact_floor=0.0, q=q)
    found = [
        [
            finding.series
            for finding in scan(fleet.sample(day), options, Memory()).findings
            if finding.verdict is Verdict.REGRESSION
        ]
        for day in _days(fleet)
    ]
    truth = fleet.truth
    return _FleetSearches(
        fmean(sum(not truth.is_touched(series) for series in of_day) for of_day in found),
        any(map(truth.is_target, found[0])) if truth.from_day is not None else None,
        chances(fleet) if has_bound(scenario) else None,
    )


def _days(fleet: SimulatedFleet) -> Sequence[int]:
    begin = fleet.truth.from_day
    if begin is not None:
        return [begin + DAYS_AFTER]
    return range(DAYS - 1, DAYS - 1 - _SEARCHES * _DAYS_APART, -_DAYS_APART)
