from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Metric, Series, Subject, Verdict
from ett_service.detection.sample import Durations, FrozenBaseline, Memory, Options, Sample
from ett_service.detection.scan import Scan, scan
from tests.detection.samples import (
    AS_OF_US,
    COHORTS,
    COMPILE,
    DAYS,
    LAUNCHER,
    OPTIONS,
    PHASES,
    SCHEDULING,
    Seconds,
    at_end_of,
    day_of,
    fleet,
    regressions,
    rows,
    sample,
    scan_of,
    slower,
)

Days = np.typing.NDArray[np.int32]


def test_a_step_is_found_once_with_its_phase_cohort_onset_and_size() -> None:
    findings = scan_of(fleet(slower(COMPILE, 1.6, 48))).findings
    assert [finding.series for finding in findings] == [Series(COMPILE, COHORTS[0])]
    (step,) = findings
    assert step.verdict is Verdict.REGRESSION
    assert abs(day_of(step) - 48) <= 1
    assert step.low < 1.6 < step.high
    assert step.ratio == pytest.approx(1.6, rel=0.1)
    assert all(gate.passed for gate in step.gates)


def test_its_gates_show_every_condition() -> None:
    (step,) = scan_of(fleet(slower(COMPILE, 1.6, 48))).findings
    assert [gate.name for gate in step.gates] == [
        "recent_values",
        "baseline_values",
        "recent_days",
        "p",
        "q",
        "effect",
        "impact",
        "without_any_day",
        "still_there",
    ]


def test_nothing_is_found_where_nothing_changed() -> None:
    findings_by_seed = [scan_of(fleet(seed=seed)).findings for seed in range(8)]
    assert sum(len(findings) for findings in findings_by_seed) == 0


def test_a_ramp_is_found() -> None:
    def ramp(day: Days, cohort: Days, seconds: Seconds) -> None:
        late = (cohort == 0) & (day >= 44)
        seconds[COMPILE][late] *= 1 + 0.08 * (day[late] - 43)

    assert [finding.series for finding in regressions(fleet(ramp))] == [Series(COMPILE, COHORTS[0])]


@pytest.mark.parametrize("length", [1, 3])
def test_some_bad_days_are_an_incident(length: int) -> None:
    whole = fleet(slower(COMPILE, 4.0, 49, until=49 + length), a_day=(24, 12, 12, 12))
    findings = scan_of(at_end_of(50 + length, whole)).findings
    incidents = [finding for finding in findings if finding.series.subject == COMPILE]
    assert [(each.verdict, day_of(each)) for each in incidents] == [(Verdict.INCIDENT, 49)]
    assert incidents[0].after.days == length


def test_a_change_everywhere_is_one_of_the_whole_project() -> None:
    def everywhere(day: Days, cohort: Days, seconds: Seconds) -> None:
        seconds[COMPILE][(day >= 48) & (cohort >= 0)] *= 1.3

    assert [finding.series for finding in regressions(fleet(everywhere))] == [Series(COMPILE, ())]


def test_a_change_of_a_cluster_is_one_of_the_cluster() -> None:
    def cluster(day: Days, cohort: Days, seconds: Seconds) -> None:
        seconds[COMPILE][(day >= 46) & (cohort < 2)] *= 1.5

    findings = regressions(fleet(cluster))
    assert [finding.series for finding in findings] == [Series(COMPILE, (("cluster", "a"),))]


def test_a_change_that_several_cohorts_share_too_little_for_each_is_still_found() -> None:
    def everywhere(day: Days, cohort: Days, seconds: Seconds) -> None:
        seconds[COMPILE][(day >= 44) & (cohort >= 0)] *= 1.35

    thin = fleet(everywhere, a_day=(0.9, 0.9, 0.9, 0.9), seed=5)
    assert [finding.series.cohort for finding in regressions(thin)] == [()]


def test_more_jobs_of_a_slow_cohort_are_no_regression() -> None:
    def slow(day: Days, cohort: Days, seconds: Seconds) -> None:
        for subject in PHASES:
            seconds[subject][(cohort == 3) & (day >= 0)] *= 3.0

    usual = fleet(slow)
    grown = fleet(slow, seed=2, a_day=(2, 2, 2, 18))
    mixed = sample(
        {
            subject: _joined(usual.durations[subject], grown.durations[subject], 46)
            for subject in usual.durations
        }
    )
    assert {finding.verdict for finding in scan_of(mixed).findings} == {Verdict.MIX}


def _joined(before: Durations, after: Durations, since: int) -> Durations:
    early, late = before.day < since, after.day >= since
    us, day, cohort = (
        np.concatenate([getattr(before, name)[early], getattr(after, name)[late]])
        for name in ("us", "day", "cohort")
    )
    return rows(us / 1e6, day, cohort)


def test_time_that_moved_between_two_phases_is_relabelled() -> None:
    def relabelled(day: Days, cohort: Days, seconds: Seconds) -> None:
        late = (cohort == 0) & (day >= 47)
        moved = 0.5 * seconds[LAUNCHER][late]
        seconds[LAUNCHER][late] -= moved
        seconds[COMPILE][late] += moved

    findings = scan_of(fleet(relabelled)).findings
    assert {finding.verdict for finding in findings} == {Verdict.RELABELLING}
    assert {finding.series.subject for finding in findings} == {LAUNCHER, COMPILE}


def test_an_improvement_is_found_with_the_same_certainty() -> None:
    findings = scan_of(fleet(slower(COMPILE, 1 / 1.6, 47))).findings
    assert [(finding.series, finding.verdict) for finding in findings] == [
        (Series(COMPILE, COHORTS[0]), Verdict.IMPROVEMENT)
    ]


def test_what_everything_of_a_cohort_does_for_three_days_waits_for_more() -> None:
    def slow(day: Days, cohort: Days, seconds: Seconds) -> None:
        for subject in PHASES:
            seconds[subject][(cohort == 0) & (day >= 45)] *= 2.0

    whole = fleet(slow)
    assert [len(regressions(at_end_of(day, whole))) for day in (47, 48)] == [0, 0]
    series = [finding.series for finding in regressions(at_end_of(50, whole))]
    assert {Series(phase, COHORTS[0]) for phase in PHASES} <= set(series)


def test_a_cohort_that_goes_silent_is_no_finding() -> None:
    whole = fleet()
    durations = {
        subject: rows.chosen(np.flatnonzero((rows.cohort != 0) | (rows.day < 42)))
        for subject, rows in whole.durations.items()
    }
    scanned = scan_of(sample(durations))
    assert scanned.findings == ()
    silent = [each for each in scanned.power if each.cohort == COHORTS[0]]
    assert {(each.recent, each.smallest) for each in silent} == {(0, None)}


def _open(whole: Sample, since: int) -> Memory:
    first_us = AS_OF_US - DAYS * DAY_US
    since_us = first_us + since * DAY_US
    frozen = FrozenBaseline(first_us, since_us, since_us, Verdict.REGRESSION)
    assert whole.days == DAYS
    return Memory(open={Series(COMPILE, COHORTS[0]): frozen})


def test_what_is_open_holds_against_its_frozen_baseline() -> None:
    whole = fleet(slower(COMPILE, 1.6, 6))
    (still,) = scan_of(whole, _open(whole, 6)).findings
    assert (still.verdict, still.holds) == (Verdict.REGRESSION, True)
    assert still.ratio == pytest.approx(1.6, rel=0.1)
    assert still.before.to_us == AS_OF_US - (DAYS - 6) * DAY_US  # not up to the recent days
    assert scan_of(whole).findings == ()  # without the memory it is the normal by now


def test_what_was_rolled_back_holds_no_more() -> None:
    whole = fleet(slower(COMPILE, 1.6, 35, until=48))
    (gone,) = scan_of(whole, _open(whole, 35)).findings
    assert gone.holds is False


@pytest.mark.parametrize(("until", "holds"), [(DAYS, True), (48, False)])
def test_more_misses_of_a_cache_hold_until_they_are_mended(until: int, holds: bool) -> None:
    """Hits take as long as before, and misses, too; what is paid for is 1.9 times as much."""

    def misses(day: Days, cohort: Days, seconds: Seconds) -> None:
        is_worse = (cohort == 0) & (day >= 35) & (day < until)
        drawn = np.random.default_rng(5).random(len(day))
        seconds[COMPILE] *= np.where(drawn < np.where(is_worse, 0.6, 0.25), 8.0, 1.0)

    whole = fleet(misses, a_day=(30, 30, 30, 30))
    (followed,) = scan_of(whole, _open(whole, 35)).findings
    assert followed.holds is holds
    if holds:
        assert followed.ratio == pytest.approx((1 + 0.6 * 7) / (1 + 0.25 * 7), rel=0.2)


def test_a_later_change_of_a_neighbour_does_not_end_what_is_open() -> None:
    """Days are much alike in cluster ``a``, so the one cohort says what the other's days are."""
    of_day = np.random.default_rng(3).normal(0, 0.25, (2, DAYS))

    def changes(day: Days, cohort: Days, seconds: Seconds) -> None:
        seconds[COMPILE] *= np.exp(of_day[cohort // 2, day])
        slower(COMPILE, 1.6, 35)(day, cohort, seconds)
        slower(COMPILE, 2.2, 45, cohort=1)(day, cohort, seconds)

    whole = fleet(changes, a_day=(30, 30, 30, 30))
    memory = _open(whole, 35)
    first = _open(whole, 45).open[Series(COMPILE, COHORTS[0])]
    both = replace(memory, open={**memory.open, Series(COMPILE, COHORTS[1]): first})
    held = {each.series: each for each in scan_of(whole, both).findings}
    assert held[Series(COMPILE, COHORTS[0])].holds
    assert held[Series(COMPILE, COHORTS[0])].ratio == pytest.approx(1.6, rel=0.2)


def test_of_what_is_open_and_has_no_values_nothing_is_reported() -> None:
    whole = fleet(a_day=(0, 6, 6, 6))
    assert scan_of(whole, _open(whole, 35)).findings == ()


def test_an_accepted_baseline_is_what_values_are_held_against() -> None:
    whole = fleet(slower(COMPILE, 1.6, 20))
    since_us = AS_OF_US - (DAYS - 20) * DAY_US
    early = at_end_of(30, whole)
    memory = Memory(accepted={Series(COMPILE, COHORTS[0]): since_us})
    assert regressions(early)
    assert scan(early, OPTIONS, memory).findings == ()


def test_days_of_maintenance_are_left_out() -> None:
    whole = fleet(slower(COMPILE, 4.0, 50, until=52))
    left_out = frozenset({(50, 0), (51, -1)})
    cleared = Sample(
        whole.as_of_us, whole.days, whole.cohorts, whole.durations, whole.rates, None, left_out
    )
    assert scan_of(whole).findings
    assert scan_of(cleared).findings == ()


def test_what_costs_too_little_is_small() -> None:
    whole = fleet(slower(SCHEDULING, 1.6, 46))
    assert regressions(whole)
    findings = scan(whole, Options(impact_floor=0.05), Memory()).findings
    assert {finding.verdict for finding in findings} == {Verdict.SMALL}
    assert {finding.series for finding in findings} <= {each.series for each in regressions(whole)}


def test_verdicts_move_the_smallest_change_that_counts() -> None:
    whole = fleet(slower(SCHEDULING, 1.6, 46))
    for factor, is_found in ((1.0, True), (2.0, False)):
        options = Options(effect_floor=1.4, tuned={Metric.PHASE_SECONDS: factor})
        findings = scan(whole, options, Memory()).findings
        assert any(each.series.subject == SCHEDULING for each in findings) is is_found
    steps = Options(effect_floor=1.4, tuned={Metric.STEP_SECONDS: 2.0})
    assert scan(whole, steps, Memory()).findings


@pytest.mark.parametrize("factor", [0.001, 7.0])
def test_other_units_change_nothing_but_the_sizes(factor: float) -> None:
    whole = fleet(slower(COMPILE, 1.6, 47))
    scaled = sample(
        {
            subject: rows(values.us / 1e6 * factor, values.day, values.cohort)
            for subject, values in whole.durations.items()
        }
    )
    assert _summary(scan_of(scaled)) == _summary(scan_of(whole))


@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_of_rows_and_cohorts_changes_nothing(seed: int) -> None:
    whole = fleet(slower(COMPILE, 1.6, 47))
    draws = np.random.default_rng(seed)
    order = draws.permutation(len(COHORTS))
    place = np.argsort(order).astype(np.int32)
    shuffled = {}
    for subject, values in whole.durations.items():
        rows_at = draws.permutation(len(values.us))
        shuffled[subject] = rows(
            values.us[rows_at] / 1e6, values.day[rows_at], place[values.cohort[rows_at]]
        )
    other = sample(shuffled, [COHORTS[each] for each in order])
    assert _summary(scan_of(other)) == _summary(scan_of(whole))


def _summary(scan: Scan) -> list[tuple[Series, Verdict, float, int]]:
    return [
        (finding.series, finding.verdict, round(finding.ratio, 3), finding.onset_us)
        for finding in scan.findings
    ]


SUBJECTS = [
    COMPILE,
    Subject(Metric.UNSAVED_SECONDS),
    Subject(Metric.STAGE_SECONDS, "p", "s"),
    Subject(Metric.STEP_SECONDS),
]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, 5_000_000, 5_000_001, 2**62]),
            st.integers(0, 9),
            st.integers(0, 1),
            st.sampled_from([1.0, float("nan"), 0.0]),
        ),
        max_size=40,
    ),
    st.integers(0, 70),
    st.sampled_from(SUBJECTS),
)
def test_whatever_there_is_is_looked_at(
    drawn: list[tuple[int, int, int, float]], days: int, subject: Subject
) -> None:
    us, back, cohort, gpus = zip(*drawn, strict=True) if drawn else ((), (), (), ())
    day = np.array([days - 1 - each for each in back], dtype=np.int32)
    spent_us = np.array(us, dtype=np.int64)
    durations = Durations(
        us=spent_us,
        day=day,
        cohort=np.array(cohort, dtype=np.int32),
        stratum=np.zeros(len(us), dtype=np.int32),
        unit=np.zeros(len(us), dtype=np.int32),
        gpus=np.array(gpus, dtype=np.float64),
        spent_us=spent_us,
    )
    odd = Sample(AS_OF_US, days, COHORTS[:2], {subject: durations}, {})
    few = Options(recent_days=3, baseline_days=6, fewest_recent=1, fewest_baseline=1)
    first = scan(odd, few, Memory())
    assert first == scan(odd, few, Memory())


def test_what_is_pending_stands_until_its_latest_days_are_well() -> None:
    whole = fleet(slower(COMPILE, 1.6, 48))
    (found,) = regressions(at_end_of(52, whole))
    frozen = FrozenBaseline(
        found.before.from_us, found.before.to_us, found.onset_us, verdict=Verdict.REGRESSION
    )
    memory = Memory(pending={found.series: frozen})

    strict = replace(OPTIONS, q=1e-30)
    assert scan(whole, strict, memory).standing == (found.series,)
    assert scan(whole, OPTIONS, memory).standing == ()  # it is found
    well = fleet(slower(COMPILE, 1.6, 46, until=48))
    assert scan(well, strict, memory).standing == ()
    old = Memory(pending={found.series: replace(frozen, onset_us=found.onset_us - 14 * DAY_US)})
    assert scan(whole, strict, old).standing == ()
