"""One cause is one finding, and is counted once."""

from dataclasses import replace

import pytest

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.causes import causes_of, counted_once
from ett_service.core.regressions.finding import (
    Attribution,
    Metric,
    NearMarker,
    Series,
    SeriesCohort,
    Subject,
    Suspect,
    Verdict,
    absorbers,
    absorbs,
    comparable,
    explains,
)
from tests.builders.regressions.stored import ATTRIBUTION, COHORT, COMPILE, ONSET, finding

OTHER: SeriesCohort = (("cluster", "b"), ("model", "llm-70b"))
CLUSTER: SeriesCohort = (("cluster", "a"),)
INDUCTOR = Subject(Metric.STAGE_SECONDS, "pt2_compile", "inductor")
WAIT = Subject(Metric.STAGE_SECONDS, "pt2_compile", "async_compile_wait")
RESTORE = Subject(Metric.STAGE_SECONDS, "launcher_init", "checkpoint_restore")
START = Subject(Metric.TIME_TO_START_SECONDS)
ETT = Subject(Metric.ETT_RATIO)


def test_a_cohort_is_comparable_with_what_holds_it() -> None:
    assert comparable((), COHORT)
    assert comparable(COHORT, CLUSTER)
    assert not comparable(COHORT, (("cluster", "b"),))


@pytest.mark.parametrize(
    ("cause", "effect", "expected"),
    [
        (COMPILE, INDUCTOR, True),
        (INDUCTOR, COMPILE, False),
        (INDUCTOR, WAIT, True),
        (WAIT, INDUCTOR, True),
        (INDUCTOR, INDUCTOR, False),
        (INDUCTOR, RESTORE, False),
        (COMPILE, RESTORE, False),
        (INDUCTOR, START, True),
        (START, INDUCTOR, False),
    ],
)
def test_stages_explain_each_other_and_what_they_are_part_of(
    cause: Subject, effect: Subject, *, expected: bool
) -> None:
    assert explains((Series(cause, COHORT), 0), (Series(effect, COHORT), 0)) is expected


def test_what_began_long_before_or_elsewhere_explains_nothing() -> None:
    phase = (Series(COMPILE, COHORT), ONSET)
    assert explains(phase, (Series(INDUCTOR, CLUSTER), ONSET + 5 * DAY_US))
    assert not explains(phase, (Series(INDUCTOR, COHORT), ONSET + 6 * DAY_US))
    assert not explains(phase, (Series(INDUCTOR, OTHER), ONSET))


@pytest.mark.parametrize("verdict", [Verdict.INCIDENT, Verdict.SMALL])
def test_a_regression_absorbs_the_incident_of_its_own_series(verdict: Verdict) -> None:
    less = finding(verdict=verdict)
    assert absorbs(finding(), less)
    assert not absorbs(less, finding())
    assert not absorbs(finding(cohort=OTHER), less)


def test_an_improvement_absorbs_no_regression() -> None:
    better = finding(verdict=Verdict.IMPROVEMENT)
    assert not absorbs(better, finding(INDUCTOR))
    assert not absorbs(finding(), finding(INDUCTOR, verdict=Verdict.IMPROVEMENT))


def test_all_of_one_cause_go_to_the_one_that_nothing_explains() -> None:
    findings = [finding(INDUCTOR), finding(WAIT), finding(START), finding(), finding(cohort=OTHER)]
    assert absorbers(findings) == {0: 3, 1: 3, 2: 3}


def test_of_two_stages_the_earlier_one_stays() -> None:
    assert absorbers([finding(WAIT), finding(INDUCTOR)]) == {1: 0}


def test_costs_of_one_cause_are_counted_once() -> None:
    phase, elsewhere = finding(), finding(cohort=OTHER)
    assert counted_once(
        [finding(INDUCTOR), finding(START), elsewhere, finding(ETT, ()), phase]
    ) == [
        phase,
        elsewhere,
    ]


def test_a_cohort_counts_as_part_of_a_wider_one() -> None:
    wide = finding(cohort=CLUSTER)
    assert counted_once([finding(), wide, finding(INDUCTOR)]) == [wide]


def test_of_a_wider_effect_only_what_its_counted_parts_cost_is_left_out() -> None:
    phase, start = finding(gpu_hours=50.0), finding(START, (), gpu_hours=1_000.0)
    ett = finding(ETT, (), gpu_hours=1_000.0)

    counted = counted_once([ett, start, phase])
    assert [each.series for each in counted] == [phase.series, start.series]
    assert [each.impact.gpu_hours_per_week for each in counted] == [50.0, 950.0]
    assert counted[1].impact.cost_per_week == pytest.approx(742.0 * 0.95)


def test_what_only_an_uncounted_one_holds_is_counted() -> None:
    start = finding(START, OTHER)
    assert counted_once([finding(), finding(START, ()), start]) == [finding(), start]


def _suspects(*values: tuple[str, str, float]) -> Attribution:
    return Attribution({}, {}, tuple(Suspect(*value, attempts=9) for value in values))


IMAGE, VERSION = ("image", "trainer:2.14", 1.0), ("code_version", "2.14", 0.95)


def test_findings_share_a_cause_by_a_likely_suspect() -> None:
    pairs = [
        (finding(), _suspects(IMAGE, VERSION)),
        (finding(RESTORE, OTHER), _suspects(VERSION)),
        (finding(WAIT, OTHER), _suspects(("host", "h1", 1.0), ("code_version", "2.14", 0.3))),
        (finding(cohort=OTHER), _suspects(VERSION)),
    ]
    causes = causes_of(pairs)
    assert causes[0] == causes[1] == causes[3]
    assert causes[0][:2] == VERSION[:2]
    assert causes[2][:2] == ("host", "h1")


@pytest.mark.parametrize(("score", "shared"), [(0.9, True), (0.4, False)])
def test_findings_at_one_marker_that_names_their_suspects_share_a_cause(
    score: float, *, shared: bool
) -> None:
    deploy = NearMarker("d1", "deploy", "Trainer 2.14", ONSET, score)
    both = [
        (finding(cohort=cohort), replace(_suspects(suspect), markers=(deploy,)))
        for cohort, suspect in ((COHORT, IMAGE), (OTHER, VERSION))
    ]
    ours, theirs = causes_of(both)
    assert (ours == theirs) is shared


def test_a_finding_without_suspects_is_a_cause_of_its_own() -> None:
    alone = replace(ATTRIBUTION, suspects=())
    ours, theirs = causes_of([(finding(), alone), (finding(cohort=OTHER), alone)])
    assert ours != theirs


def test_a_wider_cohort_reports_the_change_of_a_narrower_one() -> None:
    wide = finding(cohort=CLUSTER)
    for less in Verdict.REGRESSION, Verdict.INCIDENT, Verdict.SMALL:
        assert absorbs(wide, finding(verdict=less))
    assert not absorbs(finding(), wide)
    assert absorbers([finding(), wide]) == {0: 1}


def test_a_narrower_cohort_with_a_larger_or_later_change_is_reported_beside_a_wider_one() -> None:
    wide = replace(finding(cohort=CLUSTER), ratio=1.2)
    assert not absorbs(wide, replace(finding(), ratio=1.8))
    assert not absorbs(wide, replace(finding(), ratio=0.9))
    assert not absorbs(wide, replace(finding(onset_us=ONSET + 3 * DAY_US), ratio=1.2))
    assert absorbs(wide, replace(finding(onset_us=ONSET + 2 * DAY_US), ratio=1.2))


def test_a_regression_absorbs_the_incidents_of_what_it_is_part_of() -> None:
    assert absorbs(finding(), finding(ETT, (), verdict=Verdict.INCIDENT))
    assert not absorbs(finding(), finding(RESTORE, verdict=Verdict.INCIDENT))
