"""Why ETT% changed: from stored totals, with the jobs behind each part."""

from dataclasses import replace
from functools import partial

import pytest

from ett_service.core.events import SpanOver
from ett_service.core.fleet.decomposition import UNITS
from ett_service.core.words import Category, Owner, Period, Phase
from ett_service.fleet.explain import Cause, Comparison, Explanation, explain
from ett_service.fleet.scope import Scope, Window
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import cohort_cap
from ett_service.storage.fleet.job_sums import JobWeight
from ett_service.storage.fleet.rollups import CohortFilter, totals
from tests.builders.clock import HOUR, MINUTE, NOON
from tests.builders.fleet import calm_job, failing_job, store_job
from tests.builders.record import event

DAY = 24 * HOUR
FIRST, SECOND = Window(NOON, NOON + DAY), Window(NOON + DAY, NOON + 2 * DAY)
BY_MODEL = Comparison(Scope(group_by=("model",)), FIRST, SECOND)


@pytest.fixture
def fleet(store: Store, project_id: int) -> Store:
    """A model whose compile takes 20 minutes longer on the second day, and one that is as it was.

    Both have as much time on both days: two hours on eight accelerators, in all.
    """
    for name, at, model, compiling, training in (
        ("a-1", NOON, "a", 12, 48),
        ("b-1", NOON, "b", 30, 30),
        ("a-2", NOON + DAY, "a", 32, 28),
        ("b-2", NOON + DAY + HOUR, "b", 30, 30),
    ):
        job = calm_job(at, compiling=compiling, training=training, model=model, team=name)
        store_job(store, project_id, name, job)
    return store


def _explained(store: Store, comparison: Comparison = BY_MODEL, **limits: int) -> Explanation:
    with store.reading() as conn:
        return explain(conn, comparison, **limits)


def test_the_part_that_changed_is_named_with_the_jobs_that_weigh_most_in_it(fleet: Store) -> None:
    explanation = _explained(fleet)

    # From 78 of 120 minutes to 58: all of it compile of a, which is half of the fleet.
    assert (explanation.base.units, explanation.current.units) == (
        65 * UNITS // 100,
        483_333_333_333,
    )
    assert explanation.causes == (
        Cause(
            {"model": "a"},
            False,
            Category.PT2_COMPILE,
            explanation.current.units - explanation.base.units,
            12 / 60,
            32 / 60,
            (
                JobWeight("research", "a-2", 0, 8 * 32 * MINUTE),
                JobWeight("research", "a-1", 8 * 12 * MINUTE, 0),
            ),
        ),
    )
    assert (explanation.mix_units, dict(explanation.within_units), explanation.rest) == (
        0,
        {Category.PT2_COMPILE: explanation.causes[0].units},
        0,
    )
    assert (explanation.base.jobs, explanation.base.us) == (2, 8 * 2 * HOUR)


def test_a_cohort_that_came_is_mix_and_all_of_its_time_counts_for_its_jobs(
    fleet: Store, project_id: int
) -> None:
    store_job(fleet, project_id, "c-2", calm_job(NOON + DAY, compiling=60, training=60, model="c"))

    explanation = _explained(fleet)

    [came] = [cause for cause in explanation.causes if cause.group == {"model": "c"}]
    assert (came.word, came.base, came.current) == (None, 0.0, 0.5)
    assert came.jobs == (JobWeight("research", "c-2", 0, 8 * 2 * HOUR),)


@pytest.mark.parametrize("group_by", [(), ("team",), ("team", "model"), ("project", "size")])
@pytest.mark.parametrize("weighting", ["accelerators", "wall"])
def test_what_is_reported_adds_up_to_the_change_of_what_the_rollups_say(
    fleet: Store, project_id: int, group_by: tuple[str, ...], weighting: str
) -> None:
    store_job(fleet, project_id, "x", calm_job(NOON + 20 * HOUR, training=700, gpus=3, model="x"))
    store_job(fleet, project_id, "y", calm_job(NOON, initialising=17, training=1, gpus=None))
    comparison = Comparison(
        Scope(group_by=group_by), FIRST, SECOND, "wall" if weighting == "wall" else "accelerators"
    )

    explanation = _explained(fleet, comparison, most_parts=2)

    assert (
        explanation.mix_units + sum(explanation.within_units.values())
        == explanation.current.units - explanation.base.units
    )
    assert (
        sum(cause.units for cause in explanation.causes) + explanation.rest_units
        == explanation.current.units - explanation.base.units
    )
    for side in (explanation.base, explanation.current):
        with fleet.reading() as conn:
            [rolled_up] = totals(conn, CohortFilter(), side.window).values()
        ratio = rolled_up.ett_ratio_wall if weighting == "wall" else rolled_up.ett_ratio
        assert side.units / UNITS == pytest.approx(ratio, abs=1e-12)
        assert side.us == (rolled_up.e2e_us if weighting == "wall" else rolled_up.weighted_us)


def test_only_the_cohorts_that_are_asked_for_are_explained(fleet: Store) -> None:
    where = {"model": frozenset({"b"})}

    explanation = _explained(fleet, Comparison(Scope(where=where), FIRST, SECOND))

    assert (explanation.base.units, explanation.current.units, explanation.causes) == (
        UNITS // 2,
        UNITS // 2,
        (),
    )


def test_what_the_cap_left_over_is_one_cohort_whose_jobs_are_not_told_apart(
    store: Store, project_id: int
) -> None:
    for model, training in (("large", 600), ("small", 50), (None, 40)):
        job = calm_job(NOON, compiling=10, training=training, model=model)
        store_job(store, project_id, f"{model}-1", job)
        job = calm_job(NOON + DAY, compiling=training, training=10, model=model)
        store_job(store, project_id, f"{model}-2", job)
    for at in (NOON, NOON + DAY):
        day = cohort_cap.ProjectDay(project_id, at - at % DAY)
        with store.reading() as conn:
            moves = cohort_cap.plan(conn, day, 1)
        store.write(partial(cohort_cap.move, day=day, cohort_ids=moves.out, own=False))

    explanation = _explained(store)

    compiles = {
        (cause.group["model"], cause.other): len(cause.jobs)
        for cause in explanation.causes
        if cause.word is Category.PT2_COMPILE
    }
    assert compiles == {("large", False): 2, ("", True): 0}


def test_windows_without_time_have_no_parts(store: Store) -> None:
    explanation = _explained(store)

    assert explanation.causes == ()
    assert (explanation.base.units, explanation.base.jobs, explanation.current.us) == (0, 0, 0)


def test_fewer_jobs_or_parts_are_reported_where_fewer_are_asked_for(fleet: Store) -> None:
    by_team = Comparison(Scope(group_by=("team",)), FIRST, SECOND)

    explanation = _explained(fleet, by_team, most_parts=1, most_jobs=0)

    assert (len(explanation.causes), explanation.causes[0].jobs, explanation.rest) == (1, (), 3)


def test_a_change_splits_by_whose_wait_it_was(store: Store, project_id: int) -> None:
    """Of an hour the image takes 10 minutes on the first day, and 30 on the second."""
    for name, at, pulling in (("a", NOON, 10), ("b", NOON + DAY, 30)):
        job = calm_job(at + pulling * MINUTE, compiling=5, training=55 - pulling)
        until = at + pulling * MINUTE
        setup = event(SpanOver, until, start=at, phase=Phase.HARDWARE_SETUP)
        store_job(
            store, project_id, name, [*job, setup, replace(setup, id=name, stage="image_pull")]
        )

    explanation = _explained(store, Comparison(Scope(), FIRST, SECOND, split="owner"))

    assert [(cause.word, cause.base, cause.current) for cause in explanation.causes] == [
        (Owner.IMAGE, 10 / 60, 30 / 60)
    ]
    assert sum(explanation.within_units.values()) == (
        explanation.current.units - explanation.base.units
    )
    assert [job.job for job in explanation.causes[0].jobs] == ["b", "a"]


def test_what_is_lost_in_training_is_a_part_beside_the_owners(
    store: Store, project_id: int
) -> None:
    store_job(store, project_id, "calm", calm_job(NOON, compiling=10, training=110))
    store_job(store, project_id, "fails", failing_job(NOON + DAY))

    for weighting in ("accelerators", "wall"):
        explanation = _explained(store, Comparison(Scope(), FIRST, SECOND, weighting, "owner"))

        change = explanation.current.units - explanation.base.units
        assert {Period.TRAINING, Owner.SCHEDULER, Owner.FRAMEWORK} == set(explanation.within_units)
        assert sum(explanation.within_units.values()) + explanation.mix_units == change
        [training] = [cause for cause in explanation.causes if cause.word is Period.TRAINING]
        assert [job.job for job in training.jobs] == ["fails"]
