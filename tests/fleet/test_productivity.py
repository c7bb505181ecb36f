from dataclasses import asdict
from fractions import Fraction

import pytest

from ett_service.core.fleet.totals import Totals
from ett_service.fleet.economy import Economy, Part, PeakRate, Price, productivity

SECOND = 1_000_000
HOUR = 3600 * SECOND

ECONOMY = Economy(
    prices=(Price("x1", 0, Fraction("2.50")), Price("x1", 10 * HOUR, Fraction(2))),
    peak_rates=(PeakRate("x1", "bf16", 100.0), PeakRate("x2", "bf16", 400.0)),
)


def part(hardware: str = "x1", at_us: int = 0, **sums: int) -> Part:
    """An hour of 8 accelerators, half of it effective, that reports tokens and operations."""
    work = {
        "effective_training_us": HOUR // 2,
        "effective_training_weighted_us": 4 * HOUR,
        "shutdown_weighted_us": 4 * HOUR,
        "samples": 36_000,
        "samples_known": 36_000,
        "samples_us": HOUR // 2,
        "samples_weighted_us": 4 * HOUR,
        "tokens": 18_000_000,
        "tokens_known": 18_000_000,
        "tokens_us": HOUR // 2,
        "tokens_weighted_us": 4 * HOUR,
        "tokens_gpu_us": 8 * HOUR,
        "teraflops": 576_000,
        "teraflops_weighted_us": 4 * HOUR,
    }
    return Part(hardware, "bf16", at_us, Totals(work | sums))


def test_rates_are_over_effective_training_and_mfu_over_the_peak() -> None:
    assert asdict(productivity([part()], ECONOMY)) == {
        "samples": 36_000,
        "tokens": 18_000_000,
        "samples_per_second": 20.0,
        "samples_per_second_per_accelerator": 2.5,
        "tokens_per_second": 10_000.0,
        "tokens_per_second_per_accelerator": 1250.0,
        "mfu_ratio": 0.4,
        "useful_ratio": 0.2,
        "cost_per_million_tokens": pytest.approx(8 * 2.5 / 18),
    }


def test_mfu_over_several_kinds_of_hardware_is_over_the_sum_of_what_they_could_do() -> None:
    both = productivity([part(), part("x2")], ECONOMY)

    assert both.mfu_ratio == pytest.approx(2 * 576_000 / (4 * 3600 * (100 + 400)))


def test_tokens_cost_what_their_hours_did() -> None:
    both = productivity([part(), part(at_us=10 * HOUR)], ECONOMY)

    assert both.cost_per_million_tokens == pytest.approx(8 * (2.5 + 2) / 36)


def test_without_a_peak_rate_there_is_no_mfu() -> None:
    measured = productivity([part(), part("x3")], ECONOMY)

    assert (measured.mfu_ratio, measured.useful_ratio, measured.cost_per_million_tokens) == (
        None,
    ) * 3
    assert measured.tokens_per_second == 10_000.0


def test_hardware_that_reports_no_work_needs_no_peak_rate() -> None:
    idle = Part("x3", "", 0, Totals({"shutdown_weighted_us": 8 * HOUR}))
    measured = productivity([part(), idle], ECONOMY)

    assert measured.mfu_ratio == 0.4
    assert measured.useful_ratio == pytest.approx(0.1)


def test_jobs_of_unknown_accelerators_count_in_rates_in_all_only() -> None:
    unknown = Part("x1", "bf16", 0, Totals({
        "effective_training_us": HOUR // 2, "unweighted_us": HOUR, "tokens": 36_000_000,
        "tokens_us": HOUR // 2, "samples": 36_000, "samples_us": HOUR // 2,
    }))  # fmt: skip
    measured = productivity([part(), unknown], ECONOMY)

    assert (measured.tokens, measured.tokens_per_second) == (54_000_000, 15_000.0)
    assert measured.tokens_per_second_per_accelerator == 1250.0
    assert measured.samples_per_second_per_accelerator == 2.5
    assert measured.cost_per_million_tokens == pytest.approx(8 * 2.5 / 18)
    assert (measured.mfu_ratio, measured.useful_ratio) == (0.4, 0.2)


def test_where_nobody_reports_anything_there_are_zeros_and_no_rates() -> None:
    members = asdict(productivity([], ECONOMY))

    assert (members.pop("samples"), members.pop("tokens")) == (0, 0)
    assert set(members.values()) == {None}


def test_tokens_without_time_have_no_rate() -> None:
    measured = productivity([part(tokens_us=0, tokens_weighted_us=0)], ECONOMY)

    assert (measured.tokens_per_second, measured.tokens_per_second_per_accelerator) == (None, None)
