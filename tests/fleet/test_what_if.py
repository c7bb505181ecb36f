"""What a scenario would have gained: recomputed from the ledgers of a window's jobs."""

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from ett_service.core.events import Exclusion
from ett_service.core.intervals import HOUR_US
from ett_service.core.planning.scenario import parse
from ett_service.core.words import Category, Origin
from ett_service.fleet.economy import Economy, Price
from ett_service.fleet.scope import Scope, Window
from ett_service.fleet.what_if import ScenarioGain, WhatIf, what_if
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import hours
from ett_service.storage.fleet.hours import HoursPruned
from ett_service.storage.fleet.rollups import totals
from ett_service.storage.record import corrections
from ett_service.storage.record.dirty_marks import JobKey
from tests.builders.clock import HOUR, MINUTE, NOON, RECEIVED_AT
from tests.builders.drawn.story import drawn_story as story
from tests.builders.fleet import LATER, calm_job, failing_job, store_job
from tests.builders.ledgers import refreshed

WEEK = Window(NOON - 2 * HOUR, NOON + 7 * 24 * HOUR)
EVERYTHING = Scope()
FREE = Economy()
PRICED = Economy(prices=(Price("h200", NOON - 24 * HOUR, Fraction(3)),))


def _answer(
    store: Store,
    *scenarios: str,
    window: Window = WEEK,
    scope: Scope = EVERYTHING,
    economy: Economy = FREE,
    most_jobs: int = 100,
) -> WhatIf:
    with store.reading() as conn:
        return what_if(conn, scope, window, [parse(text) for text in scenarios], economy, most_jobs)


def _minutes(gain: ScenarioGain, answer: WhatIf) -> float:
    """Return what goes, in minutes of eight accelerators."""
    return (answer.before.us - gain.after.us) / (8 * MINUTE)


@pytest.fixture
def fleet(store: Store, project_id: int) -> Store:
    """Two jobs that fail once, of 115 minutes each, and one of 100 that compiles for 40."""
    store_job(store, project_id, "infra", failing_job(NOON, model="a", hardware="h200"))
    store_job(store, project_id, "user", failing_job(NOON + HOUR, Origin.USER, model="b"))
    calm = calm_job(NOON, compiling=40, training=50, publishing=10, model="a", hardware="h200")
    store_job(store, project_id, "calm", calm)
    return store


def test_what_was_before_is_what_the_rollups_say(fleet: Store) -> None:
    answer = _answer(fleet, "halve evaluation")

    with fleet.reading() as conn:
        [rolled_up] = totals(conn, EVERYTHING.cohorts, WEEK).values()
    assert answer.before.us == rolled_up.weighted_us == 8 * 330 * MINUTE
    assert answer.before.gpu_us == rolled_up.gpu_us == 8 * 320 * MINUTE
    assert answer.before.ett_ratio == rolled_up.ett_ratio == (70 + 70 + 50) / 330
    assert (answer.jobs, answer.read, answer.jobs_without_accelerators) == (3, 3, 0)


def test_a_cut_takes_the_like_part_of_what_the_rollups_have_of_the_category(
    store: Store, project_id: int
) -> None:
    for seed in range(25):
        store_job(store, project_id, f"story-{seed}", story(NOON, random.Random(seed)))
    categories = [each for each in Category if each is not Category.EFFECTIVE_TRAINING]
    window = Window(NOON + HOUR, NOON + 3 * HOUR)

    answer = _answer(store, *(f"cut {each} by 100%" for each in categories), window=window)

    with store.reading() as conn:
        [rolled_up] = totals(conn, EVERYTHING.cohorts, window).values()
    assert answer.before.us == rolled_up.weighted_us > 0
    assert answer.before.effective_us == rolled_up.effective_weighted_us > 0
    gone = {gain.scenarios[0].text: answer.before.us - gain.after.us for gain in answer.gains}
    assert gone == {
        f"cut {each} by 100%": rolled_up.category_weighted_us(each) for each in categories
    }
    assert answer.together.after.us == rolled_up.effective_weighted_us


def test_a_failure_that_does_not_happen_takes_its_recovery_and_its_replay_along(
    fleet: Store,
) -> None:
    answer = _answer(fleet, "cut infra failures by 100%")
    [gain] = answer.gains

    # 15 minutes of recovery, of which 5 held no accelerator, and 20 of repeated training.
    assert _minutes(gain, answer) == 35
    assert gain.gpu_us == 8 * 30 * MINUTE
    assert gain.ratio_gained(answer.before) == pytest.approx(190 / 295 - 190 / 330)
    assert (gain.failures, gain.jobs) == (1, 1)


def test_half_of_the_failures_is_half_of_what_each_takes(fleet: Store) -> None:
    answer = _answer(fleet, "halve all failures")

    assert _minutes(answer.gains[0], answer) == 35
    assert (answer.gains[0].failures, answer.gains[0].jobs) == (2, 2)


def test_scenarios_are_ranked_by_what_they_gain_and_do_not_add_up(fleet: Store) -> None:
    texts = ["publish off the GPUs", "cut launcher_init by 50%", "cut all failures by 100%"]

    answer = _answer(fleet, *texts)

    assert [gain.scenarios[0].text for gain in answer.gains] == [
        "cut all failures by 100%",
        "cut launcher_init by 50%",
        "cut stage shutdown/model_publish by 100%",
    ]
    assert [_minutes(gain, answer) for gain in answer.gains] == [70, 20, 10]
    # The initialisations of both recoveries are gone already.
    assert _minutes(answer.together, answer) == 70 + 10 + 10
    assert sum(gain.ratio_gained(answer.before) for gain in answer.gains) != pytest.approx(
        answer.together.ratio_gained(answer.before)
    )


def test_beside_what_takes_nothing_from_a_job_all_together_take_what_the_other_takes(
    fleet: Store,
) -> None:
    # One job failed of infra, another of its user: each is taken from by one of these alone.
    texts = ["cut infra failures by 100%", "cut user failures by 100%"]

    both = _answer(fleet, *texts)

    alone = [_answer(fleet, text).gains[0] for text in texts]
    assert [(gain.failures, gain.jobs) for gain in alone] == [(1, 1), (1, 1)]
    assert both.together.gpu_us == sum(gain.gpu_us for gain in alone)
    assert (both.together.failures, both.together.jobs) == (2, 2)


def test_only_time_inside_the_window_goes(fleet: Store) -> None:
    # The first job recovers from 13:00 to 13:15 and repeats until 13:35.
    window = Window(NOON + HOUR, NOON + 2 * HOUR)
    answer = _answer(fleet, "cut infra failures by 100%", window=window)
    assert (_minutes(answer.gains[0], answer), answer.gains[0].failures) == (35, 1)

    answer = _answer(fleet, "cut infra failures by 100%", window=Window(NOON, NOON + HOUR))
    assert (_minutes(answer.gains[0], answer), answer.gains[0].failures) == (0, 0)


def test_what_goes_has_the_price_of_its_hour(fleet: Store) -> None:
    later = Price("h200", NOON + HOUR + 12 * HOUR_US, Fraction(100))
    scope = Scope(where={"model": frozenset({"a"})})
    both = replace(PRICED, prices=(*PRICED.prices, later))

    answer = _answer(fleet, "cut infra failures by 100%", scope=scope, economy=both)

    assert answer.gains[0].money == pytest.approx(3 * 8 * 30 / 60)


def test_without_a_price_there_is_no_money(fleet: Store) -> None:
    assert _answer(fleet, "halve infra failures").gains[0].money is None
    # The other job's hardware is unknown.
    assert _answer(fleet, "halve all failures", economy=PRICED).gains[0].money is None
    assert _answer(fleet, "halve infra failures", economy=PRICED).gains[0].money is not None


def test_only_the_cohorts_that_are_asked_for_change(fleet: Store) -> None:
    answer = _answer(fleet, "halve all failures", scope=Scope(where={"model": frozenset({"b"})}))

    assert (answer.jobs, answer.before.us, answer.gains[0].failures) == (1, 8 * 115 * MINUTE, 1)


def test_excluded_time_is_left_out_unless_it_is_asked_for(fleet: Store, project_id: int) -> None:
    key = JobKey(project_id, "infra")
    window = [Exclusion(NOON + HOUR, NOON + 2 * HOUR)]
    fleet.write(
        lambda conn: corrections.put_exclusion(
            conn, key, window, why="test", made_by="ett_0", now_us=RECEIVED_AT
        )
    )
    refreshed(fleet, key, LATER)

    answer = _answer(fleet, "cut infra failures by 100%")
    assert (_minutes(answer.gains[0], answer), answer.before.us) == (0, 8 * (330 - 55) * MINUTE)

    answer = _answer(fleet, "cut infra failures by 100%", scope=Scope(exclusions="included"))
    assert (_minutes(answer.gains[0], answer), answer.before.us) == (35, 8 * 330 * MINUTE)


def test_an_interval_covers_the_gain_and_is_the_same_every_time(
    store: Store, project_id: int
) -> None:
    for place in range(12):
        at = NOON + place * HOUR
        job = failing_job(at) if place % 3 else calm_job(at, initialising=20, training=100)
        store_job(store, project_id, f"job-{place}", job)

    answer = _answer(store, "halve infra failures")

    [gain] = answer.gains
    assert gain.ratio_interval is not None
    assert gain.gpu_us_interval is not None
    low, high = gain.ratio_interval
    assert 0 < low < gain.ratio_gained(answer.before) < high
    assert gain.gpu_us_interval.low < gain.gpu_us < gain.gpu_us_interval.high
    assert _answer(store, "halve infra failures") == answer


def test_one_job_has_no_interval(store: Store, project_id: int) -> None:
    store_job(store, project_id, "only", failing_job(NOON))

    assert _answer(store, "halve infra failures").gains[0].ratio_interval is None


def test_of_too_many_jobs_a_sample_stands_for_the_rest(store: Store, project_id: int) -> None:
    for place in range(9):
        store_job(store, project_id, f"job-{place}", failing_job(NOON))

    answer = _answer(store, "cut all failures by 100%", most_jobs=4)

    assert (answer.jobs, answer.read) == (9, 4)
    assert answer.before.us == 9 * 8 * 115 * MINUTE
    assert _minutes(answer.gains[0], answer) == 9 * 35
    assert answer.gains[0].gpu_us == 9 * 8 * 30 * MINUTE


def test_a_window_without_jobs_gains_nothing(store: Store) -> None:
    answer = _answer(store, "halve infra failures", economy=PRICED)

    [gain] = answer.gains
    assert (answer.jobs, answer.before.ett_ratio, gain.ratio_gained(answer.before)) == (0, 0.0, 0.0)
    assert (gain.gpu_us, gain.money, gain.ratio_interval) == (0, 0.0, None)


def test_a_job_of_unknown_accelerators_is_reported_and_weighs_nothing(
    store: Store, project_id: int
) -> None:
    store_job(store, project_id, "unknown", calm_job(NOON, compiling=10, gpus=None))

    answer = _answer(store, "halve pt2_compile")

    assert (answer.jobs_without_accelerators, answer.before.us, answer.gains[0].jobs) == (1, 0, 1)


def test_of_jobs_that_were_drawn_nothing_is_said_of_hours_that_are_gone(fleet: Store) -> None:
    midnight = NOON + 12 * HOUR
    window, day = Window(NOON, NOON + 5 * HOUR), Window(NOON - 12 * HOUR, midnight)
    every = _answer(fleet, "halve evaluation", window=window)
    drawn = _answer(fleet, "halve evaluation", window=day, most_jobs=2)
    fleet.write(lambda conn: hours.move_horizon(conn, midnight))
    fleet.write(lambda conn: hours.prune(conn, 1_000))
    assert _answer(fleet, "halve evaluation", window=window) == every
    assert _answer(fleet, "halve evaluation", window=day, most_jobs=2) == drawn
    with pytest.raises(HoursPruned):
        _answer(fleet, "halve evaluation", window=window, most_jobs=2)
