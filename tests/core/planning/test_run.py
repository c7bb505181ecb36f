import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.core.planning.run import Run, Spot, on_demand_cost, spot_cost, spot_gpu_hours

HOUR = 3600.0
CLIMATE = Run(flops=5.04e21, peak_teraflops=312.0, mfu_ratio=0.42, accelerators=64)


def test_hours_are_the_operations_over_the_rate_at_which_they_are_done() -> None:
    assert CLIMATE.gpu_hours == pytest.approx(10_683.76, rel=1e-6)
    assert CLIMATE.wall_hours == pytest.approx(166.934, rel=1e-5)
    assert on_demand_cost(CLIMATE, 3.5) == pytest.approx(37_393.16, rel=1e-6)


def test_time_that_does_not_train_is_paid_too() -> None:
    half = Run(flops=5.04e21, peak_teraflops=312.0, mfu_ratio=0.42, accelerators=64, ett_ratio=0.5)

    assert half.gpu_hours == 2 * CLIMATE.gpu_hours
    assert half.training_gpu_hours == CLIMATE.training_gpu_hours


def test_spot_machines_that_are_never_taken_away_cost_the_discount_less() -> None:
    spot = Spot(discount_ratio=0.65, interval_seconds=1800.0)

    assert spot_cost(CLIMATE, spot, 3.5) == pytest.approx(13_087.61, rel=1e-6)
    assert spot_gpu_hours(CLIMATE, spot) == CLIMATE.gpu_hours


def test_interruptions_take_time_and_money() -> None:
    spot = Spot(0.65, 1800.0, mtbi_seconds=6 * HOUR, restart_seconds=600.0, save_seconds=30.0)

    # A save costs 30 s in 1830; an interruption a restart of 600 s and about half of 1830 s.
    assert spot.kept_ratio == pytest.approx((1 - 30 / 1830) * (1 - 1515 / 21_600), abs=0.005)
    assert spot_gpu_hours(CLIMATE, spot) == pytest.approx(CLIMATE.gpu_hours / spot.kept_ratio)


def test_a_run_that_never_gets_from_save_to_save_never_ends() -> None:
    spot = Spot(0.65, 1e6, mtbi_seconds=1.0)

    assert spot_gpu_hours(CLIMATE, spot) == spot_cost(CLIMATE, spot, 3.5) == math.inf


@given(
    discount=st.floats(0.01, 0.99),
    interval=st.floats(60.0, 86_400.0),
    restart=st.floats(0.0, 7200.0),
    save=st.floats(0.0, 120.0),
)
def test_at_the_break_even_rate_both_cost_the_same(
    discount: float, interval: float, restart: float, save: float
) -> None:
    spot = Spot(discount, interval, restart_seconds=restart, save_seconds=save)
    rate = spot.break_even_rate
    if rate == 0:
        assert interval / (interval + save) <= 1 - discount
        return
    there = Spot(discount, interval, 1 / rate, restart, save)

    assert spot_cost(CLIMATE, there, 3.5) == pytest.approx(on_demand_cost(CLIMATE, 3.5), rel=1e-6)


def test_without_an_interval_each_rate_has_its_best() -> None:
    spot = Spot(0.65, mtbi_seconds=28_800.0, restart_seconds=600.0, save_seconds=15.0)
    fixed = Spot(0.65, spot.interval, 28_800.0, 600.0, 15.0)

    assert spot.interval == pytest.approx(919.543, abs=1e-3)
    assert spot.kept_ratio == fixed.kept_ratio
    assert spot.break_even_rate > fixed.break_even_rate


def test_a_run_that_is_never_interrupted_need_not_save() -> None:
    spot = Spot(0.65, restart_seconds=600.0, save_seconds=15.0)

    assert (spot.interval, spot.kept_ratio) == (math.inf, 1.0)
    assert 0 < spot.break_even_rate < math.inf


def test_interruptions_that_cost_nothing_never_break_even() -> None:
    assert Spot(0.65).break_even_rate == math.inf


def test_free_machines_are_worth_any_interruption() -> None:
    assert Spot(1.0, 1800.0).break_even_rate == math.inf
    assert spot_cost(CLIMATE, Spot(1.0, 1e6, mtbi_seconds=1.0), 3.5) == 0.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("flops", 0.0),
        ("peak_teraflops", -1.0),
        ("mfu_ratio", 1.01),
        ("mfu_ratio", 0.0),
        ("accelerators", 0),
        ("ett_ratio", math.nan),
    ],
)
def test_a_run_that_cannot_be_is_refused_by_name(name: str, value: float) -> None:
    members: dict[str, float] = {
        "flops": 1e21, "peak_teraflops": 312.0, "mfu_ratio": 0.4, "accelerators": 8, name: value
    }  # fmt: skip
    with pytest.raises(ValueError, match=name):
        Run(**members)  # type: ignore[arg-type]  # accelerators stand among floats


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("discount_ratio", 1.5),
        ("discount_ratio", -0.1),
        ("interval_seconds", 0.0),
        ("mtbi_seconds", 0.0),
        ("restart_seconds", -1.0),
        ("save_seconds", math.nan),
    ],
)
def test_spot_machines_that_cannot_be_are_refused_by_name(name: str, value: float) -> None:
    members = {"discount_ratio": 0.5, "interval_seconds": 1800.0, name: value}
    with pytest.raises(ValueError, match=name):
        Spot(**members)


@pytest.mark.parametrize("price", [-1.0, math.nan])
def test_a_negative_price_is_refused(price: float) -> None:
    with pytest.raises(ValueError, match="price"):
        on_demand_cost(CLIMATE, price)
    with pytest.raises(ValueError, match="price"):
        spot_cost(CLIMATE, Spot(0.5, 1800.0), price)
