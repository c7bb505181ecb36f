"""Totals: they add up, and are divided once."""

from hypothesis import given
from hypothesis import strategies as st

from ett_service.core.fleet.measures import MEASURES, PLAIN, WEIGHTED
from ett_service.core.fleet.totals import JOB_ETT, Tally, Totals, ratio
from ett_service.core.intervals import HOUR_US
from ett_service.core.words import Category, Period

_totals = st.builds(
    Totals,
    st.dictionaries(st.sampled_from(MEASURES), st.integers(1, 2**62)),
    st.dictionaries(
        st.sampled_from(["time_to_start", JOB_ETT]),
        st.builds(
            Tally,
            st.dictionaries(st.integers(0, 9), st.integers(1, 9), min_size=1),
            st.integers(0, 99),
        ),
    ),
)


@given(_totals, _totals, _totals)
def test_the_order_of_adding_does_not_matter(first: Totals, second: Totals, third: Totals) -> None:
    assert (first + second) + third == third + (second + first)


@given(_totals)
def test_nothing_changes_nothing(totals: Totals) -> None:
    assert totals + Totals.ZERO == totals


@given(_totals, _totals)
def test_what_was_added_can_be_taken_out(first: Totals, second: Totals) -> None:
    left = first + second - second

    assert left.sums == first.sums
    assert all(left.tally(name) == first.tally(name) for name in left.tallies)


def test_the_headline_weighs_by_accelerators_and_the_other_does_not() -> None:
    totals = Totals(
        {
            "effective_training_us": 30,
            "effective_training_weighted_us": 60,
            "scheduling_us": 10,
            "scheduling_weighted_us": 40,
        }
    )

    assert (totals.ett_ratio, totals.ett_ratio_wall) == (0.6, 0.75)


def test_accelerators_are_not_held_while_scheduling_and_in_most_waits() -> None:
    totals = Totals(
        {
            "scheduling_weighted_us": 5,
            "restart_wait_weighted_us": 50,
            "restart_wait_gpu_us": 20,
            "stalled_weighted_us": 7,
        }
    )

    assert totals.gpu_us == 27


def test_wasted_is_divided_by_the_period_training() -> None:
    totals = Totals({"wasted_us": 5, PLAIN.periods[Period.TRAINING]: 50})

    assert totals.wasted_ratio == 0.1


def test_the_median_job_is_the_middle_of_its_thousandth() -> None:
    totals = Totals({}, {JOB_ETT: Tally({100: 1, 905: 1, 1000: 1}, 0)})

    assert totals.ett_ratio_median_job == 0.9055


def test_a_perfect_median_job_is_not_more_than_perfect() -> None:
    assert Totals({}, {JOB_ETT: Tally({1000: 3}, 0)}).ett_ratio_median_job == 1.0


def test_empty_totals_divide_to_nothing_and_never_fail() -> None:
    zero = Totals.ZERO

    assert (zero.ett_ratio, zero.ett_ratio_wall, zero.wasted_ratio) == (0.0, 0.0, 0.0)
    assert zero.ett_ratio_median_job is None
    assert ratio(0, 0) == 0.0


def test_every_category_and_period_has_its_measures() -> None:
    assert {*PLAIN.categories, *PLAIN.periods} == {*Category, *Period}
    assert {*WEIGHTED.categories.values(), *PLAIN.periods.values()} <= {*MEASURES}
    assert len(set(MEASURES)) == len(MEASURES)


def test_failures_are_counted_against_held_time() -> None:
    held = {WEIGHTED.categories[Category.EFFECTIVE_TRAINING]: 16 * 24 * HOUR_US}
    totals = Totals({"failures": 3, "attempts": 6, "preemptions": 1, **held})

    assert totals.failures_per_1000_gpu_hours == 1000 * 3 / (16 * 24)
    assert totals.failures_per_1000_node_days(8) == 1000 * 3 / 2
    assert totals.preemption_ratio == 1 / 6


def test_without_held_time_there_is_no_rate() -> None:
    assert Totals({"failures": 3}).failures_per_1000_gpu_hours is None
    assert Totals({"failures": 3}).failures_per_1000_node_days(8) is None
    assert Totals.ZERO.preemption_ratio is None
