"""How the scores of the search spread on fleets in which nothing changed.

A score is standard normal without a change, so in every shape of fleet and for cohorts of every
size, and groups of them, its mean is to be 0, its standard deviation 1, and few are over 3.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchmarks.detectors.fleets.fleet import SimulatedFleet, simulate
from benchmarks.detectors.fleets.parameters import DAYS
from benchmarks.detectors.fleets.scenario import Scenario
from ett_service.core.regressions.finding import Metric
from ett_service.detection.sample import Floats, Memory, Options
from ett_service.detection.scan import Models
from ett_service.detection.window import Window, groups

STARTS = (3, 6, 13)  #: days since the start, of the scores that are taken
SIZES = (1.0, 4.0)  #: values a day that part small, middle and large cohorts
_SIZE_NAMES = ("small", "middle", "large")
_DAYS_APART = 14  #: of two searches of one fleet, so that their recent windows are apart
_RARE = 3.0  #: score
_LARGEST = 6.0  #: of a score; larger ones count so much


class ScoreClass(NamedTuple):
    """Scores that are taken together."""

    metric: Metric
    size: str  #: of the cohort: ``small``, ``middle``, ``large``; ``group`` for several cohorts


@dataclass(frozen=True, slots=True)
class Spread:
    """Scores of one class."""

    number: int
    mean: float
    deviation: float  #: root of their mean square
    worse: float  #: share of those over 3; 0.0013 is right
    better: float  #: share of those under -3


def spreads(scenario: Scenario, seeds: Iterable[int]) -> Mapping[ScoreClass, Spread]:
    """Return the spread of the scores in fleets of *scenario*."""
    by_class: defaultdict[ScoreClass, list[Floats]] = defaultdict(list)
    for seed in seeds:
        for place, scores in _scores(simulate(seed, scenario)):
            by_class[place].append(scores)
    return {place: _spread(np.concatenate(parts)) for place, parts in sorted(by_class.items())}


def pooled(by_class: Mapping[ScoreClass, Spread]) -> Mapping[str, Spread]:
    """Return the spread of each size, over the metrics."""
    by_size: defaultdict[str, list[Spread]] = defaultdict(list)
    for place, spread in by_class.items():
        by_size[place.size].append(spread)
    return {size: _together(parts) for size, parts in by_size.items()}


def _together(parts: Sequence[Spread]) -> Spread:
    weights = [each.number for each in parts]
    return Spread(
        number=sum(weights),
        mean=float(np.average([each.mean for each in parts], weights=weights)),
        deviation=float(
            np.sqrt(np.average([each.deviation**2 for each in parts], weights=weights))
        ),
        worse=float(np.average([each.worse for each in parts], weights=weights)),
        better=float(np.average([each.better for each in parts], weights=weights)),
    )


def _spread(scores: Floats) -> Spread:
    cut = np.clip(scores, -_LARGEST, _LARGEST)
    return Spread(
        number=len(cut),
        mean=float(cut.mean()),
        deviation=float(np.sqrt(np.mean(cut**2))),
        worse=float((cut > _RARE).mean()),
        better=float((cut < -_RARE).mean()),
    )


def _scores(fleet: SimulatedFleet) -> Iterator[tuple[ScoreClass, Floats]]:
    options, memory = Options(), Memory()
    for day in range(DAYS - 1, options.baseline_days, -_DAYS_APART):
        sample = fleet.sample(day)
        window, of_cohorts = Window.of(sample, options), groups(sample.cohorts)
        for subject, model in Models.of(window, of_cohorts, memory).by_subject.items():
            starts, values = model.starts(options), model.num_values()[1]
            for group, is_single in enumerate(of_cohorts.single):
                a_day = values[group] / max(window.baseline, 1)
                size = _SIZE_NAMES[int(np.searchsorted(SIZES, a_day))] if is_single else "group"
                places = [start - 1 for start in STARTS if starts.enough[group, start - 1]]
                if places:
                    yield ScoreClass(subject.metric, size), starts.score[group, places]
