"""Days hang together as far as they are seen to, and subjects and series differ as far."""

import numpy as np
import pytest

from ett_service.detection.day_memory import DayMemory, day_memory, kinds, usual_memory
from tests.detection.samples import conditions

SERIES, DAYS, NOISE = 60, 42, 0.5


def _levels(memory: float, seed: int = 1) -> np.typing.NDArray[np.float64]:
    draws = np.random.default_rng(seed)
    return conditions(draws, SERIES, DAYS, memory) + draws.normal(0, NOISE, (SERIES, DAYS))


def _memory(level: np.typing.NDArray[np.float64]) -> DayMemory:
    precision = np.full_like(level, 1 / (1 + NOISE**2))
    return day_memory(level, precision, np.ones(len(level), dtype=np.intp)).memory


def test_days_that_are_like_the_day_before_have_a_memory() -> None:
    memory = _memory(_levels(0.6))
    assert memory.covariance.mean() == pytest.approx(0.6, abs=0.12)
    assert memory.decay.mean() == pytest.approx(0.6, abs=0.12)


def test_independent_days_have_next_to_none() -> None:
    assert _memory(_levels(0.0)).covariance.mean() < 0.08


def test_the_variance_of_a_mean_of_days_is_that_of_its_draws() -> None:
    level = np.concatenate([_levels(0.6, seed) for seed in range(40)])
    weights = np.zeros((1, 1, DAYS))
    weights[0, 0, -10:] = 0.1
    memory = DayMemory(np.array([0.6]), np.array([0.6]))
    expected = (1 + NOISE**2) / 10 + memory.variance(weights)[0, 0]
    assert (level[:, -10:].mean(axis=1) ** 2).mean() == pytest.approx(expected, rel=0.1)


def test_a_short_series_has_no_memory() -> None:
    assert not _memory(_levels(0.6)[:, :20]).covariance.any()


def _few(memory: float, seed: int) -> np.typing.NDArray[np.float64]:
    return _levels(memory, seed)[:4]


@pytest.mark.parametrize(("memory", "part"), [(0.0, 0.5), (0.6, 0.85)])
def test_few_series_remember_as_other_subjects_do(memory: float, part: float) -> None:
    precision, kind = np.full((4, DAYS), 1 / (1 + NOISE**2)), np.ones(4, dtype=np.intp)
    levels = [_few(memory, seed) for seed in range(30)]
    alone = [day_memory(level, precision, kind) for level in levels]
    usual = usual_memory(each.evidence for each in alone)
    together = [day_memory(level, precision, kind, usual) for level in levels]

    spreads = [
        np.std([each.memory.covariance.mean() for each in part]) for part in (alone, together)
    ]
    assert spreads[1] < spreads[0] * part
    mean = np.mean([each.memory.covariance.mean() for each in together])
    assert mean == pytest.approx(memory, abs=0.12)


@pytest.mark.parametrize(("memory", "most"), [(0.0, 0.005), (0.6, 0.01)])
def test_series_of_a_subject_that_differ_by_chance_have_one_memory(
    memory: float, most: float
) -> None:
    precision, kind = np.full((4, DAYS), 1 / (1 + NOISE**2)), np.ones(4, dtype=np.intp)
    levels = [_few(memory, seed) for seed in range(30)]
    usual = usual_memory(day_memory(level, precision, kind).evidence for level in levels)
    found = [day_memory(level, precision, kind, usual).memory.covariance for level in levels]
    assert np.mean([covariance.std() for covariance in found]) < most
    assert float(np.mean(found)) == pytest.approx(memory, abs=max(most, 0.05 * memory))


def test_one_series_of_each_subject_whose_days_hang_together_stands_apart() -> None:
    precision, kind = np.full((4, DAYS), 1 / (1 + NOISE**2)), np.ones(4, dtype=np.intp)
    levels = [
        np.concatenate([_few(0.0, seed)[:3], _few(0.8, seed + 100)[:1]]) for seed in range(30)
    ]
    usual = usual_memory(day_memory(level, precision, kind).evidence for level in levels)
    found = [day_memory(level, precision, kind, usual).memory.covariance for level in levels]
    *others, own = np.mean(found, axis=0)
    assert own > max(others) + 0.2


def test_a_subject_whose_days_hang_together_stands_apart_from_many_whose_do_not() -> None:
    precision, kind = np.full((SERIES, DAYS), 1 / (1 + NOISE**2)), np.ones(SERIES, dtype=np.intp)
    levels = [*(_levels(0.0, seed) for seed in range(9)), _levels(0.6, 9)]
    usual = usual_memory(day_memory(level, precision, kind).evidence for level in levels)

    *_, last = (day_memory(level, precision, kind, usual).memory for level in levels)
    assert last.covariance.mean() > 0.45


def test_subjects_of_more_noise_share_no_more_of_their_days() -> None:
    """All have the same conditions; where days are noisy their correlation is a fourth."""
    draws, kind = np.random.default_rng(5), np.ones(4, dtype=np.intp)
    noise = [0.0] * 15 + [2.0] * 15
    levels = [
        level + draws.normal(0, more, level.shape)
        for level, more in zip([_few(0.6, seed) for seed in range(30)], noise, strict=True)
    ]
    precision = [np.full((4, DAYS), 1 / (1 + NOISE**2 + more**2)) for more in noise]
    pairs = list(zip(levels, precision, strict=True))
    usual = usual_memory(day_memory(*pair, kind).evidence for pair in pairs)
    found = [day_memory(*pair, kind, usual).memory.covariance.mean() for pair in pairs]
    assert np.mean(found[:15]) == pytest.approx(0.6, abs=0.1)
    assert np.mean(found[15:]) == pytest.approx(0.6, abs=0.15)
    assert max(found[15:]) < 0.9


def test_the_kind_of_a_cohort_is_its_size() -> None:
    values, single = np.array([0.3, 1.0, 3.9, 4.0, 90.0]), np.array([True] * 4 + [False])
    assert kinds(values, single).tolist() == [0, 1, 1, 2, 3]


def test_small_cohorts_whose_days_hang_together_say_nothing_of_large_ones() -> None:
    level = np.concatenate([_levels(0.6), _levels(0.0, 2)])
    precision = np.full_like(level, 1 / (1 + NOISE**2))
    memory = day_memory(level, precision, np.repeat([0, 2], SERIES)).memory
    small, large = np.split(memory.covariance, 2)
    assert small.mean() == pytest.approx(0.6, abs=0.12)
    assert large.mean() < 0.08
