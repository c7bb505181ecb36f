"""Verdicts move the smallest change that counts, within bounds."""

import pytest

from ett_service.core.regressions.finding import LEAST, MOST, Verdicts


def test_without_verdicts_and_with_as_many_of_both_nothing_moves() -> None:
    assert Verdicts(0, 0).factor == 1
    assert Verdicts(7, 7).factor == 1


def test_noise_makes_it_larger_and_real_ones_smaller() -> None:
    assert Verdicts(1, 0).factor < 1 < Verdicts(0, 1).factor
    factors = [Verdicts(2, noise).factor for noise in range(10)]
    assert factors == sorted(factors)


def test_one_verdict_moves_little() -> None:
    assert Verdicts(0, 1).factor == pytest.approx(1.15, abs=0.01)


@pytest.mark.parametrize(
    ("verdicts", "bound"), [(Verdicts(500, 0), LEAST), (Verdicts(0, 10**6), MOST)]
)
def test_it_stays_within_bounds(verdicts: Verdicts, bound: float) -> None:
    assert verdicts.factor == pytest.approx(bound, abs=1e-4)
