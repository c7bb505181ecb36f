from fractions import Fraction

import pytest

from ett_service.metrics.rules.rule import BadObjective, Burn, Objective, decimal, percent


def _objective(target: str, fast: str = "3", slow: str = "1.3") -> Objective:
    return Objective(Fraction(target), Fraction(fast), Fraction(slow))


@pytest.mark.parametrize(
    ("target", "fast", "slow"),
    [("0.9", "0.3", "0.13"), ("0.85", "0.45", "0.195"), ("0.95", "0.15", "0.065")],
)
def test_alerts_fire_at_the_factor_times_the_budget_to_the_last_digit(
    target: str, fast: str, slow: str
) -> None:
    objective = _objective(target)
    assert [decimal(objective.fires_at(burn)) for burn in objective.burns] == [fast, slow]


def test_what_is_gone_when_an_alert_fires_is_its_part_of_the_thirty_days() -> None:
    fast, slow = Objective().burns
    assert fast.budget_share == Fraction(3 * 6, 720)
    assert percent(slow.budget_share) == "13%"
    assert Burn("", "", Fraction(24), "30m", "5m", "").budget_share == Fraction(1, 60)


def test_a_factor_that_asks_for_more_than_all_time_is_refused_with_what_would_do() -> None:
    with pytest.raises(
        BadObjective, match="3 times a budget of 40% is 120% of all time"
    ) as refused:
        _objective("0.6")
    assert "must be below 2.5; at this factor the target must be above 66.67%" in refused.value.hint


def test_a_factor_that_asks_for_all_time_exactly_is_refused_and_the_next_smaller_one_is_not() -> (
    None
):
    with pytest.raises(BadObjective, match="could never fire"):
        _objective("0.9", fast="10")
    nearly = _objective("0.9", fast="9.99")
    assert percent(nearly.fires_at(nearly.burns[0])) == "99.9%"


@pytest.mark.parametrize("target", ["0", "1", "-0.9", "90"])
def test_a_target_that_leaves_no_budget_or_no_time_is_refused(target: str) -> None:
    with pytest.raises(BadObjective, match=f"a target of {target} "):
        _objective(target)


def test_a_factor_that_fires_on_target_is_refused() -> None:
    with pytest.raises(BadObjective, match="1 times the budget, which is where a fleet on target"):
        _objective("0.9", slow="1")


def test_a_slow_factor_at_or_above_the_fast_one_is_refused() -> None:
    with pytest.raises(BadObjective, match="the slow factor, 3, is not below the fast one, 3"):
        _objective("0.9", slow="3")
