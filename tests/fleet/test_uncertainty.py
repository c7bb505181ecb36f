import math

import pytest

from ett_service.fleet.summary import poisson_interval, time_between


def _poisson_below(count: int, mean: float) -> float:
    """Probability of *count* events or fewer, term by term."""
    return sum(math.exp(-mean + k * math.log(mean) - math.lgamma(k + 1)) for k in range(count + 1))


@pytest.mark.parametrize("count", [1, 2, 7, 30, 419])
def test_at_either_end_of_the_interval_what_was_seen_is_as_unlikely_as_it_says(count: int) -> None:
    low, high = poisson_interval(count)
    assert 1 - _poisson_below(count - 1, low) == pytest.approx(0.025, rel=1e-9)
    assert _poisson_below(count, high) == pytest.approx(0.025, rel=1e-9)


def test_the_interval_is_the_one_of_the_tables() -> None:
    assert poisson_interval(10) == pytest.approx((4.795, 18.390), abs=5e-4)
    assert poisson_interval(0) == pytest.approx((0.0, 3.6889), abs=5e-5)


@pytest.mark.parametrize(("count", "confidence"), [(-1, 0.95), (1, 0.0), (1, 1.0)])
def test_what_has_no_interval_is_refused(count: int, confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence"):
        poisson_interval(count, confidence)


def test_time_between_failures_lies_inside_its_interval() -> None:
    between = time_between(4, 4_000_000)
    assert between.us == 1_000_000
    assert between.low_us is not None
    assert between.high_us is not None
    assert between.low_us < between.us < between.high_us


def test_without_a_failure_there_is_only_a_lower_bound() -> None:
    between = time_between(0, 3_688_879)
    assert between.us is None
    assert between.high_us is None
    assert between.low_us == pytest.approx(1_000_000, rel=1e-6)


def test_without_time_nothing_is_known() -> None:
    between = time_between(0, 0)
    assert (between.us, between.low_us, between.high_us) == (None, None, None)
