"""The search for regressions over sixty days of the fleet, held against the generator's truth."""

from collections.abc import Sequence
from contextlib import closing

import pytest
from sqlalchemy import select

from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.regressions.finding import Attribution, Cohort, Metric, State, Verdict
from ett_service.core.regressions.state import LASTING, StateRules
from ett_service.demo.fleet import IMPACT_FLOOR, MODELS
from ett_service.detection.backtest import Course, backtest
from ett_service.detection.inputs import observe
from ett_service.detection.options import Options, Plan
from ett_service.detection.run import attributed
from ett_service.detection.sample import Observed
from ett_service.storage.engine.store import open_for_reading, open_store
from ett_service.storage.regressions import findings
from ett_service.storage.schema import regression
from ett_service.worker.regressions import DetectionOptions, DetectionThread
from tests.demo.conftest import END_US, Judged
from tests.demo.stored import stored

pytestmark = pytest.mark.xdist_group("fleet of sixty days")

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
    """Return what the runs find, each knowing those before it."""
    runs_at = [LAST_US - day * DAY_US for day in RUNS]
    return backtest(observed, runs_at, PLAN, StateRules()).courses


def _cohort(model: str) -> Cohort:
    [cluster] = [one.cluster for one in MODELS if one.name == model]
    return (("cluster", cluster), ("model", model))


def _fired(courses: Sequence[Course], verdict: Verdict) -> list[Course]:
    return [one for one in courses if one.standing.verdict is verdict and one.fired is not None]


def _phase(course: Course) -> str:
    return course.standing.finding.series.subject.phase


def test_the_launch_that_helped_is_recorded_as_an_improvement(
    courses: Sequence[Course], judged: Judged
) -> None:
    effect = judged.effect("train_module_creation")
    [found] = [
        one for one in _fired(courses, Verdict.IMPROVEMENT) if _phase(one) == effect["phase"]
    ]
    assert found.standing.finding.series.cohort == ()
    assert abs(found.standing.onset_us - effect["from"]) <= 2 * DAY_US
    assert not found.standing.alerts


def test_saves_that_became_slow_are_found_on_their_cluster_within_days(
    courses: Sequence[Course], judged: Judged
) -> None:
    effect = judged.effect("slow_storage")
    found = [one for one in _fired(courses, Verdict.REGRESSION) if _phase(one) == effect["phase"]]
    assert found
    [cluster] = effect["where"]["cluster"]
    for one in found:
        assert dict(one.standing.finding.series.cohort)["cluster"] == cluster
        assert abs(one.standing.onset_us - effect["from"]) <= 3 * DAY_US
        assert one.standing.state is State.FIRING
    first = min(one.standing.firing_us or 0 for one in found)
    assert first - effect["from"] <= 7 * DAY_US
    assert found[0].latest.finding.ratio == pytest.approx(effect["factor"], rel=0.2)


def test_compiles_that_became_slow_are_found_for_each_model_and_for_no_other(
    courses: Sequence[Course], judged: Judged
) -> None:
    effect = judged.effect("slow_compile")
    found = {
        one.standing.finding.series.cohort: one
        for one in _fired(courses, Verdict.REGRESSION)
        if _phase(one) == effect["phase"]
    }
    assert set(found) == {_cohort(model) for model in effect["where"]["model"]}
    firing = sorted(one.standing.firing_us or 0 for one in found.values())
    assert firing[0] - effect["from"] <= 4 * DAY_US
    assert firing[-1] - effect["from"] <= 12 * DAY_US
    for one in found.values():
        assert one.latest.finding.low < effect["factor"] < one.latest.finding.high


def test_the_slow_compile_goes_with_its_release(
    courses: Sequence[Course], judged: Judged, observed: Observed, database_url: str
) -> None:
    effect = judged.effect("slow_compile")
    found = [one for one in _fired(courses, Verdict.REGRESSION) if _phase(one) == effect["phase"]]
    with closing(open_for_reading(database_url)) as store, store.reading() as conn:
        told = [
            attributed(conn, PROJECT, one.fired, observed).attribution
            for one in found
            if one.fired is not None
        ]
    first = [(one.suspects[0].dimension, one.suspects[0].value) for one in told if one.suspects]
    assert set(first) == {("code_version", effect["code_version"])}
    assert _releases(told) >= {effect["code_version"]}


def _releases(told: Sequence[Attribution]) -> set[str]:
    """Return the releases whose markers are named as near."""
    return {
        marker.title.removeprefix("Release ")
        for one in told
        for marker in one.markers
        if marker.kind == "deploy"
    }


def test_neither_the_outage_nor_another_mix_of_jobs_alerts(
    courses: Sequence[Course], judged: Judged
) -> None:
    planted = {judged.effect(name)["phase"] for name in ("slow_storage", "slow_compile")}
    others = [
        one.standing.finding.series
        for one in _fired(courses, Verdict.REGRESSION)
        if _phase(one) not in planted
    ]
    slow = {_cohort(model) for model in judged.effect("slow_compile")["where"]["model"]}
    # A slow compile is part of the time to start, too.
    beside = {Metric.TIME_TO_START_SECONDS, Metric.TIME_TO_RECOVER_SECONDS}
    assert [
        one for one in others if one.subject.metric not in beside or one.cohort not in slow
    ] == []


def test_everything_that_lasts_is_told_with_what_it_costs(courses: Sequence[Course]) -> None:
    lasting = [one for one in courses if one.fired and one.standing.verdict in LASTING]
    for one in lasting:
        impact = one.latest.finding.impact
        assert impact.gpu_hours_per_week is not None
        assert impact.ett_points is not None
        is_worse = one.standing.verdict is Verdict.REGRESSION
        assert (impact.gpu_hours_per_week > 0, impact.ett_points < 0) == (is_worse, is_worse)


def test_the_first_search_lists_what_was_planted_last_as_it_would_have_fired(
    database_url: str, judged: Judged
) -> None:
    asked = DetectionOptions(plan=PLAN, clock=lambda _conn: END_US + HOUR_US)
    with closing(open_store(database_url)) as store:
        thread = DetectionThread(store, asked)
        thread.lease.renew()
        assert thread.lease.epoch is not None
        thread.run_once(thread.lease.epoch)
        thread.lease.resign()
        with store.reading() as conn:
            found = conn.execute(
                select(regression).where(
                    regression.c.state == State.FIRING,
                    regression.c.verdict == Verdict.REGRESSION,
                )
            ).all()
    planted = [judged.effect(name) for name in ("slow_storage", "slow_compile")]
    began = {effect["phase"]: effect["from"] for effect in planted}
    assert {one.phase for one in found} == set(began)
    for one in found:
        assert abs(one.onset_us - began[one.phase]) <= 7 * DAY_US
        assert one.onset_us < one.firing_us < LAST_US
    told = [findings.attribution_from_json(one.attribution) for one in found]
    assert _releases(told) >= {judged.effect("slow_compile")["code_version"]}
