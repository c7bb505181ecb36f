"""The search for regressions over sixty days of the fleet, against the generator's truth."""

from collections.abc import Sequence
from contextlib import closing

import pytest
from sqlalchemy import select

from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.regressions.finding import Attribution, Metric, SeriesCohort, State, Verdict
from ett_service.core.regressions.state import LASTING, StateRules
from ett_service.demo.fleet import IMPACT_FLOOR, MODELS
from ett_service.detection.observed.inputs import observe
from ett_service.detection.run import Course, attributed, backtest
from ett_service.detection.sample import Observed, Options, Plan
from ett_service.storage.engine.store import open_for_reading, open_store
from ett_service.storage.regressions import findings
from ett_service.storage.schema import regression
from ett_service.worker.regressions import DetectionOptions, DetectionThread
from tests.demo.conftest import END_US, Judged
from tests.demo.stored import stored

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("fleet of sixty days")]

PLAN = Plan(options=Options(impact_floor=IMPACT_FLOOR))
LAST_US = END_US // DAY_US * DAY_US
PROJECT = 1
RUNS = (37, 36, 35, 25, 24, 17, 16, 15, 12, 11, 10, 8, 7, 6, 5, 2, 1)
"""So many days before the end: some after the launch, the outage, each regression and the mix."""


@pytest.fixture(scope="module")
def database_url(judged: Judged, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the address of the fleet."""
    return stored(judged, tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def observed(database_url: str) -> Observed:
    """Return all of its sixty days."""
    with closing(open_for_reading(database_url)) as store, store.reading() as conn:
        return observe(conn, PROJECT, LAST_US, 59, PLAN)


@pytest.fixture(scope="module")
def courses(observed: Observed) -> Sequence[Course]:
    """Return the courses of all findings over the runs."""
    runs_at = [LAST_US - day * DAY_US for day in RUNS]
    return backtest(observed, runs_at, PLAN, StateRules()).courses


def _cohort(model: str) -> SeriesCohort:
    [cluster] = [spec.cluster for spec in MODELS if spec.name == model]
    return (("cluster", cluster), ("model", model))


def _fired(courses: Sequence[Course], verdict: Verdict) -> list[Course]:
    return [
        course
        for course in courses
        if course.standing.verdict is verdict and course.fired is not None
    ]


def _phase(course: Course) -> str:
    return course.standing.finding.series.subject.phase


def test_the_launch_that_helped_is_recorded_as_an_improvement(
    courses: Sequence[Course], judged: Judged
) -> None:
    effect = judged.effect("train_module_creation")
    [improvement] = [
        course
        for course in _fired(courses, Verdict.IMPROVEMENT)
        if _phase(course) == effect["phase"]
    ]
    assert improvement.standing.finding.series.cohort == ()
    assert abs(improvement.standing.onset_us - effect["from"]) <= 2 * DAY_US
    assert not improvement.standing.alerts


def test_saves_that_became_slow_are_found_on_their_cluster_within_days(
    courses: Sequence[Course], judged: Judged
) -> None:
    effect = judged.effect("slow_storage")
    fired = [
        course
        for course in _fired(courses, Verdict.REGRESSION)
        if _phase(course) == effect["phase"]
    ]
    assert fired
    [cluster] = effect["where"]["cluster"]
    for course in fired:
        assert dict(course.standing.finding.series.cohort)["cluster"] == cluster
        assert abs(course.standing.onset_us - effect["from"]) <= 3 * DAY_US
        assert course.standing.state is State.FIRING
    first = min(course.standing.firing_us or 0 for course in fired)
    assert first - effect["from"] <= 7 * DAY_US
    assert fired[0].latest.finding.ratio == pytest.approx(effect["factor"], rel=0.2)


def test_compiles_that_became_slow_are_found_for_each_model_and_for_no_other(
    courses: Sequence[Course], judged: Judged
) -> None:
    effect = judged.effect("slow_compile")
    fired = {
        course.standing.finding.series.cohort: course
        for course in _fired(courses, Verdict.REGRESSION)
        if _phase(course) == effect["phase"]
    }
    assert set(fired) == {_cohort(model) for model in effect["where"]["model"]}
    firing = sorted(course.standing.firing_us or 0 for course in fired.values())
    assert firing[0] - effect["from"] <= 4 * DAY_US
    assert firing[-1] - effect["from"] <= 12 * DAY_US
    for course in fired.values():
        assert course.latest.finding.low < effect["factor"] < course.latest.finding.high


def test_the_slow_compile_goes_with_its_release(
    courses: Sequence[Course], judged: Judged, observed: Observed, database_url: str
) -> None:
    effect = judged.effect("slow_compile")
    fired = [
        course
        for course in _fired(courses, Verdict.REGRESSION)
        if _phase(course) == effect["phase"]
    ]
    with closing(open_for_reading(database_url)) as store, store.reading() as conn:
        attributions = [
            attributed(conn, PROJECT, course.fired, observed).attribution
            for course in fired
            if course.fired is not None
        ]
    first = [
        (attribution.suspects[0].dimension, attribution.suspects[0].value)
        for attribution in attributions
        if attribution.suspects
    ]
    assert set(first) == {("code_version", effect["code_version"])}
    assert _releases(attributions) >= {effect["code_version"]}


def _releases(attributions: Sequence[Attribution]) -> set[str]:
    """Return the releases whose markers are named as near."""
    return {
        marker.title.removeprefix("Release ")
        for attribution in attributions
        for marker in attribution.markers
        if marker.kind == "deploy"
    }


def test_neither_the_outage_nor_another_mix_of_jobs_alerts(
    courses: Sequence[Course], judged: Judged
) -> None:
    planted = {judged.effect(name)["phase"] for name in ("slow_storage", "slow_compile")}
    others = [
        course.standing.finding.series
        for course in _fired(courses, Verdict.REGRESSION)
        if _phase(course) not in planted
    ]
    slow = {_cohort(model) for model in judged.effect("slow_compile")["where"]["model"]}
    # A slow compile is part of the time to start, too.
    beside = {Metric.TIME_TO_START_SECONDS, Metric.TIME_TO_RECOVER_SECONDS}
    assert [
        series
        for series in others
        if series.subject.metric not in beside or series.cohort not in slow
    ] == []


def test_everything_that_lasts_has_its_impact(courses: Sequence[Course]) -> None:
    lasting = [course for course in courses if course.fired and course.standing.verdict in LASTING]
    for course in lasting:
        impact = course.latest.finding.impact
        assert impact.gpu_hours_per_week is not None
        assert impact.ett_points is not None
        is_worse = course.standing.verdict is Verdict.REGRESSION
        assert (impact.gpu_hours_per_week > 0, impact.ett_points < 0) == (is_worse, is_worse)


def test_the_first_search_lists_what_was_planted_last_as_it_would_have_fired(
    database_url: str, judged: Judged
) -> None:
    options = DetectionOptions(plan=PLAN, clock=lambda _conn: END_US + HOUR_US)
    with closing(open_store(database_url)) as store:
        thread = DetectionThread(store, options)
        thread.lease.renew()
        assert thread.lease.epoch is not None
        thread.run_once(thread.lease.epoch)
        thread.lease.resign()
        with store.reading() as conn:
            rows = conn.execute(
                select(regression).where(
                    regression.c.state == State.FIRING,
                    regression.c.verdict == Verdict.REGRESSION,
                )
            ).all()
    planted = [judged.effect(name) for name in ("slow_storage", "slow_compile")]
    began = {effect["phase"]: effect["from"] for effect in planted}
    assert {row.phase for row in rows} == set(began)
    for row in rows:
        assert abs(row.onset_us - began[row.phase]) <= 7 * DAY_US
        assert row.onset_us < row.firing_us < LAST_US
    attributions = [findings.attribution_from_json(row.attribution) for row in rows]
    assert _releases(attributions) >= {judged.effect("slow_compile")["code_version"]}
