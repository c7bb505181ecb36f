import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ett_service.core.fleet.totals import Tally, Totals, place
from ett_service.fleet.advice import CountedFailures, MeasuredCosts, advise

SECOND = 1_000_000
DAY = 86_400 * SECOND


def tally(lengths_us: Sequence[int]) -> Tally:
    return Tally(Counter(map(place, lengths_us)), sum(lengths_us))


#: The write-up's setting for 30 days: 15 s a save, 3 failures a day, a save an hour.
MEASURED = MeasuredCosts(
    window_us=60 * DAY,
    training_us=30 * DAY,
    training_weighted_us=64 * 30 * DAY,
    failures=90,
    infra_failures=60,
    saves=tally([15 * SECOND] * 720),
    gaps_us=[3600 * SECOND] * 700,
)


def test_the_best_interval_of_the_published_setting() -> None:
    advice = advise(MEASURED)

    assert advice.reason is None
    assert advice.save.value == 15.0
    assert advice.mtbf.value == 28_800.0
    assert advice.best.value == pytest.approx(929.516, abs=5e-4)
    assert advice.least is not None
    assert advice.current is not None
    assert advice.least.wasted_ratio == pytest.approx(0.032275, abs=5e-7)
    assert advice.current.wasted_ratio == pytest.approx(0.06667, abs=5e-6)
    assert advice.flat_band == pytest.approx((678.4, 1273.6), abs=0.05)
    assert advice.renewal_interval == pytest.approx(919.54, abs=0.01)
    assert advice.verdict == "save_more_often"


def test_what_there_is_to_gain_in_the_window_and_in_a_year() -> None:
    gain = advise(MEASURED).gain

    assert gain is not None
    assert gain.wasted_ratio == pytest.approx(0.066667 - 0.032275, abs=1e-6)
    assert gain.gpu_hours == pytest.approx(0.0343918 * 64 * 30 * 24, rel=1e-5)
    assert gain.gpu_hours is not None
    assert gain.gpu_hours_a_year == pytest.approx(gain.gpu_hours * 365 / 60)


def test_the_curve_has_its_lowest_point_at_the_best_interval() -> None:
    advice = advise(MEASURED)
    lowest = min(advice.curve, key=lambda point: point.wasted_ratio)

    assert lowest.interval_seconds == advice.best.value
    assert lowest.unsaved_ratio == pytest.approx(lowest.blocking_ratio)
    assert len(advice.curve) == 25


@pytest.mark.parametrize(
    ("counted", "failures", "best"), [("all", 90, 929.516), ("infra", 60, 1138.420)]
)
def test_failures_may_be_those_of_infrastructure_alone(
    counted: CountedFailures, failures: int, best: float
) -> None:
    advice = advise(MEASURED, counted)

    assert advice.mtbf.value == 30 * 86_400 / failures
    assert advice.best.value == pytest.approx(best, abs=5e-4)


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [
        (60, "save_less_often"),
        (690, "keep"),
        (929, "keep"),
        (1270, "keep"),
        (1400, "save_more_often"),
    ],
)
def test_an_interval_in_the_flat_band_may_stay(seconds: int, verdict: str) -> None:
    at = replace(MEASURED, failures=9000, training_us=3000 * DAY, gaps_us=[seconds * SECOND])

    assert advise(at).verdict == verdict


def test_few_failures_leave_more_intervals_as_they_are() -> None:
    few = replace(MEASURED, failures=3, training_us=DAY, gaps_us=[1900 * SECOND])
    best = advise(few).best

    assert best.low == pytest.approx(543.6, rel=1e-3)
    assert best.high == pytest.approx(2047, rel=1e-3)
    assert advise(few).verdict == "keep"


def test_few_saves_of_unlike_length_widen_the_bounds() -> None:
    unlike = replace(
        MEASURED, failures=10**6, training_us=10**6 * 28_800 * SECOND,
        saves=tally([10 * SECOND, 20 * SECOND]),
    )  # fmt: skip
    best = advise(unlike).best

    # Student's factor for two is 12.7, the error of their mean 5 of 15 s; halved on the logarithm.
    assert best.value is not None
    assert best.low == pytest.approx(best.value * math.exp(-12.706 / 3 / 2), rel=0.03)
    assert best.high == pytest.approx(best.value * math.exp(12.706 / 3 / 2), rel=0.03)


def test_the_bounds_hold_the_true_interval_as_often_as_they_say() -> None:
    draw = np.random.default_rng(11)
    true = math.sqrt(2 * 15 * 28_800)
    trials = 400
    held = 0
    for _ in range(trials):
        saves = draw.lognormal(math.log(15) - 0.18, 0.6, 30) * SECOND
        measured = replace(
            MEASURED,
            training_us=4 * DAY,
            failures=int(draw.poisson(12)),
            saves=tally([int(us) for us in saves]),
        )
        best = advise(measured).best
        assert best.low is not None
        assert best.high is not None
        held += best.low <= true <= best.high
    assert 0.93 <= held / trials <= 1


def test_without_a_failure_the_best_interval_is_known_from_below_only() -> None:
    advice = advise(replace(MEASURED, failures=0))

    assert (advice.best.value, advice.best.high) == (None, None)
    # At most 3.69 failures are likely where none was seen.
    assert advice.best.low == pytest.approx(math.sqrt(2 * 15 * 30 * 86_400 / 3.6889), rel=1e-3)
    assert advice.reason == "Nothing failed: the best interval is known from below only."
    assert (advice.gain, advice.flat_band, advice.verdict, advice.curve) == (None, None, None, ())
    assert advice.current == (3600.0, 0.0, 15 / 3600)


def test_without_a_save_there_is_no_advice_but_the_reason() -> None:
    advice = advise(replace(MEASURED, saves=Tally()))

    assert (advice.best.value, advice.best.low, advice.save.value) == (None, None, None)
    assert advice.reason == "No save stopped the loop: what a save costs is not measured."


def test_saves_that_stop_nothing_give_no_advice() -> None:
    assert advise(replace(MEASURED, saves=tally([0, 0]))).best.value is None


def test_one_save_has_no_spread_and_gives_no_bounds() -> None:
    advice = advise(replace(MEASURED, saves=tally([15 * SECOND])))

    assert advice.best.value == pytest.approx(929.516, abs=5e-4)
    assert (advice.best.low, advice.best.high) == (None, None)


def test_without_two_checkpoints_of_one_attempt_there_is_no_present_interval() -> None:
    advice = advise(replace(MEASURED, gaps_us=[]))

    assert advice.best.value is not None
    assert (advice.current, advice.verdict, advice.gain) == (None, None, None)


def test_where_all_accelerators_are_unknown_the_gain_has_no_gpu_hours() -> None:
    gain = advise(replace(MEASURED, training_weighted_us=0)).gain

    assert gain is not None
    assert gain.wasted_ratio > 0
    assert (gain.gpu_hours, gain.gpu_hours_a_year) == (None, None)


def test_where_nothing_trained_there_is_nothing_to_say() -> None:
    advice = advise(MeasuredCosts.of(Totals.ZERO, DAY, []))

    assert advice.reason == "Nothing trained."
    assert (advice.best.value, advice.mtbf.value) == (None, None)


def test_the_assumption_says_how_far_it_reaches() -> None:
    assert "(here 3.2% of it)" in advise(MEASURED).assumption
