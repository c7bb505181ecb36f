import numpy as np
import pytest

from ett_service.detection.day_memory import DayMemory, day_memory

SERIES, DAYS, NOISE = 60, 42, 0.5


def _levels(memory: float, seed: int = 1) -> np.typing.NDArray[np.float64]:
    draws = np.random.default_rng(seed)
    conditions = draws.normal(0, 1, (SERIES, DAYS))
    for day in range(1, DAYS):
        fresh = np.sqrt(1 - memory**2) * conditions[:, day]
        conditions[:, day] = memory * conditions[:, day - 1] + fresh
    return conditions + draws.normal(0, NOISE, (SERIES, DAYS))


def _memory(level: np.typing.NDArray[np.float64]) -> DayMemory:
    precision = np.full_like(level, 1 / (1 + NOISE**2))
    return day_memory(level, precision, np.ones(SERIES, dtype=np.bool_))


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
    known = DayMemory(np.array([0.6]), np.array([0.6]))
    expected = (1 + NOISE**2) / 10 + known.variance(weights)[0, 0]
    assert (level[:, -10:].mean(axis=1) ** 2).mean() == pytest.approx(expected, rel=0.1)


def test_a_short_series_has_no_memory() -> None:
    assert not _memory(_levels(0.6)[:, :20]).covariance.any()
