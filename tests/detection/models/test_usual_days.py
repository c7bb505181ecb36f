"""What days share of durations says nothing of how many starts miss their cache."""

import numpy as np
from numpy.typing import NDArray

from ett_service.detection.models.levels import DurationModel
from ett_service.detection.sample import Floats, Memory
from ett_service.detection.scan import Models
from ett_service.detection.window import Window, groups
from tests.detection.samples import COHORTS, DAYS, OPTIONS, PHASES, Seconds, conditions, fleet

DECAY = 0.7


def _independence(seed: int) -> Floats:
    """Return how independent days of durations are, and of misses: the mean of all phases.

    Days hang together in all phases alike, and three starts in ten miss, on any day.
    """
    draws = np.random.default_rng(seed)
    of_day = 0.15 * conditions(draws, len(COHORTS), DAYS, DECAY)

    def slow_down(day: NDArray[np.int32], cohort: NDArray[np.int32], seconds: Seconds) -> None:
        for phase in PHASES:
            missed = draws.random(len(day)) < 0.3
            seconds[phase] *= np.exp(of_day[cohort, day]) * 8**missed

    sample = fleet(slow_down, seed=seed, a_day=(12, 12, 12, 12))
    models = Models.of(Window.of(sample, OPTIONS), groups(sample.cohorts), Memory())
    found = []
    for phase in PHASES:
        model = models.by_subject[phase]
        assert isinstance(model, DurationModel)
        assert model.modes is not None
        early = slice(0, model.window.baseline)
        for levels in (model, model.modes):
            of_days = levels.panel.memory.independence(levels.panel.precision[:, early])
            found.append(float(of_days.mean()))
    return np.asarray(np.reshape(found, (-1, 2)).mean(axis=0))


def test_misses_are_as_independent_as_they_are_however_days_hang_together() -> None:
    of_durations, of_misses = np.mean([_independence(seed) for seed in range(8)], axis=0)
    assert of_durations < 0.6
    assert of_misses > 0.9
