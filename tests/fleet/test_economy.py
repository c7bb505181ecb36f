from fractions import Fraction

import pytest

from ett_service.core.fleet.totals import Totals
from ett_service.core.intervals import DAY_US
from ett_service.core.words import Category
from ett_service.fleet.economy import Economy, Part, PeakRate, Price, Target
from tests.builders.clock import NOON

MIDNIGHT = NOON - DAY_US // 2
HOUR = 3_600_000_000
ECONOMY = Economy(
    prices=(
        Price("H100", MIDNIGHT, Fraction("2.5")),
        Price("H100", MIDNIGHT + DAY_US, Fraction("2.1")),
        Price("a100", MIDNIGHT - DAY_US, Fraction(1)),
    )
)


def test_a_price_holds_from_its_day_until_the_next_begins() -> None:
    assert ECONOMY.price("H100", MIDNIGHT - 1) is None
    assert ECONOMY.price("H100", MIDNIGHT) == Fraction("2.5")
    assert ECONOMY.price("H100", MIDNIGHT + DAY_US - 1) == Fraction("2.5")
    assert ECONOMY.price("H100", MIDNIGHT + 9 * DAY_US) == Fraction("2.1")


def test_hardware_is_matched_in_any_case_and_otherwise_exactly() -> None:
    assert ECONOMY.price("h100", MIDNIGHT) == ECONOMY.price("H100", MIDNIGHT)
    assert ECONOMY.price("A100", MIDNIGHT) == 1
    assert ECONOMY.price("H100 ", MIDNIGHT) is None
    assert ECONOMY.price("", MIDNIGHT) is None


def test_only_prices_that_begin_inside_a_window_cut_it() -> None:
    assert ECONOMY.cuts(MIDNIGHT, MIDNIGHT + DAY_US) == []
    assert ECONOMY.cuts(MIDNIGHT - 1, MIDNIGHT + DAY_US + 1) == [MIDNIGHT, MIDNIGHT + DAY_US]


def test_only_time_in_which_accelerators_were_held_is_paid_for() -> None:
    sums = {
        "scheduling_weighted_us": 8 * HOUR,
        "restart_wait_weighted_us": 8 * HOUR,
        "restart_wait_gpu_us": 2 * HOUR,
        "effective_training_weighted_us": 16 * HOUR,
    }
    cost = ECONOMY.cost([Part("H100", "", MIDNIGHT, Totals(sums))])
    assert cost.total == 45.0
    assert cost.by_category[Category.SCHEDULING] == 0.0
    assert cost.by_category[Category.RESTART_WAIT] == 5.0
    assert cost.by_category[Category.EFFECTIVE_TRAINING] == 40.0


def test_time_without_a_price_makes_the_whole_unknown_and_never_free() -> None:
    priced = Part("H100", "", MIDNIGHT, Totals({"effective_training_weighted_us": HOUR}))
    unpriced = Part("B200", "", MIDNIGHT, Totals({"evaluation_weighted_us": 3 * HOUR}))
    cost = ECONOMY.cost([priced, unpriced])
    assert cost.total is None
    assert cost.unpriced_gpu_us == 3 * HOUR
    assert cost.by_category[Category.EVALUATION] is None
    assert cost.by_category[Category.EFFECTIVE_TRAINING] == 2.5


def test_no_time_costs_nothing_where_there_are_prices_and_is_unknown_where_there_are_none() -> None:
    assert ECONOMY.cost([]).total == 0.0
    assert Economy().cost([]).total is None
    assert Economy().cost([]).by_category[Category.SHUTDOWN] is None


def test_prices_of_two_periods_are_each_taken_for_their_own_time() -> None:
    hour = Totals({"stalled_weighted_us": HOUR})
    parts = [Part("H100", "", MIDNIGHT + days * DAY_US, hour) for days in (0, 1, 2)]
    assert ECONOMY.cost(parts).total == pytest.approx(2.5 + 2.1 + 2.1)


def test_the_target_that_names_most_of_a_cohort_is_its_own() -> None:
    economy = Economy(
        targets=(
            Target({}, 0.9),
            Target({"team": "a"}, 0.8),
            Target({"team": "a", "cluster": "x"}, 0.7),
            Target({"cluster": "x"}, 0.6),
        )
    )
    assert economy.target({"team": "a", "cluster": "x", "model": "m"}) == 0.7
    assert economy.target({"team": "a", "cluster": "y"}) == 0.8
    assert economy.target({"team": "b"}) == 0.9
    assert economy.target({}) == 0.9
    assert Economy(targets=(Target({"team": "a"}, 0.8),)).target({"team": "b"}) is None
    assert Economy().target({}) is None


def test_peak_rates_of_the_data_sheets_are_known_and_dense() -> None:
    economy = Economy()
    assert economy.peak_teraflops("a100", "BF16") == 312
    assert economy.peak_teraflops("H100", "bf16") == 989.5
    assert economy.peak_teraflops("B200", "fp8") == 4500
    assert economy.peak_teraflops("H100", "") is None


def test_a_peak_rate_of_the_settings_goes_before_the_data_sheet() -> None:
    economy = Economy(peak_rates=(PeakRate("h100", "BF16", 800.0), PeakRate("x1", "bf16", 5.0)))
    assert economy.peak_teraflops("H100", "bf16") == 800.0
    assert economy.peak_teraflops("X1", "bf16") == 5.0
    assert economy.peak_teraflops("H100", "fp16") == 989.5
