"""What other cohorts and the day of the week predict of a level."""

import numpy as np

from ett_service.detection.background import Background, background
from ett_service.detection.cells import Cells, Pooled, centred
from ett_service.detection.panel import panel
from ett_service.detection.sample import Floats
from ett_service.detection.window import groups
from tests.detection.samples import COHORTS

DAYS, RECENT = 42, 14
WEEKDAYS = np.arange(DAYS) % 7


def _cells(level: Floats, rows: Floats) -> Cells:
    """Rows have a variance of 1."""
    ones = np.ones(len(level))
    count = rows.astype(np.int64)
    return centred(Cells(level, rows, rows, count, ones, ones, DAYS - RECENT, WEEKDAYS))


def _of_clusters(seed: int, spread: float) -> Cells:
    """Return levels that cohorts of one cluster share as far as *spread* says, beside their own."""
    draws = np.random.default_rng(seed)
    shared = np.repeat(draws.normal(0, spread, (2, DAYS)), 2, axis=0)
    return _cells(shared + draws.normal(0, 0.2, shared.shape), np.full(shared.shape, 25.0))


def test_what_the_other_cohorts_of_a_cluster_show_on_a_day_is_taken_off_one() -> None:
    cells = _of_clusters(5, 0.8)
    left = panel(cells, groups(COHORTS)).level[:4]
    assert (left.std(axis=1) < 0.5 * cells.level.std(axis=1)).all()


def test_cohorts_that_share_nothing_say_nothing_of_each_other() -> None:
    taken = [
        float(panel(_of_clusters(seed, 0.0), groups(COHORTS)).background[:4].std())
        for seed in range(20)
    ]
    assert np.mean(taken) < 0.3 * 0.2


def test_a_change_of_one_cohort_of_a_cluster_is_still_its_own() -> None:
    cells = _of_clusters(6, 0.8)
    cells.level[0, -8:] += 1.0
    level = panel(cells, groups(COHORTS)).level
    change = level[:4, -8:].mean(axis=1) - level[:4, :-8].mean(axis=1)
    assert change[0] > 0.8
    assert int(change.argmax()) == 0


def test_a_cohort_that_is_new_says_little_of_its_neighbours() -> None:
    """Its level is measured from two values, so it seems off on all the days after them."""
    cells = _of_clusters(7, 0.3)
    rows = cells.weight.copy()
    rows[1, : DAYS - RECENT - 2] = 0.0
    rows[1, DAYS - RECENT - 2 : DAYS - RECENT] = 1.0
    off = cells.level.copy()
    off[1, DAYS - RECENT :] += 1.5
    late = slice(DAYS - RECENT, DAYS)
    new = panel(_cells(off, rows), groups(COHORTS)).background[0, late]
    usual = panel(_cells(off, cells.weight), groups(COHORTS)).background[0, late]
    assert abs(new.mean()) < 0.3 * abs(usual.mean())


def _of_weekdays(seed: int, effect: float) -> Background:
    """Weekends are quiet, so that their levels are mostly noise; Mondays are slower by *effect*."""
    draws = np.random.default_rng(seed)
    rows = np.tile(np.where(WEEKDAYS >= 5, 2.0, 100.0), (len(COHORTS), 1))
    conditions = draws.normal(0, 0.1, rows.shape)
    level = conditions + draws.normal(0, 1, rows.shape) / np.sqrt(rows) + effect * (WEEKDAYS == 0)
    cells, of = _cells(level, rows), groups(COHORTS)
    return background(Pooled.of(of.members, cells), cells, of)


def test_the_noise_of_quiet_weekends_is_no_effect_of_the_weekday() -> None:
    taken = [_of_weekdays(seed, 0.0).level[:4, 0].std() for seed in range(30)]
    assert np.mean(taken) < 0.02


def test_the_effect_of_a_weekday_is_taken_off_and_what_that_takes_of_the_noise_is_told() -> None:
    of_day = _of_weekdays(1, 0.5)
    mondays, others = WEEKDAYS == 0, (WEEKDAYS > 0) & (WEEKDAYS < 5)
    taken = of_day.level[:4, mondays].mean(axis=1) - of_day.level[:4, others].mean(axis=1)
    assert np.allclose(taken, 0.5, atol=0.12)
    assert of_day.widening.mean() > 1.2
    assert (_of_weekdays(1, 0.0).widening < 1.1).all()
