"""Time by category, cohort and block of 24 hours."""

import pytest

from ett_service.core.ledger.results import Exclusion
from ett_service.core.words import Category
from ett_service.storage.engine.store import Store
from ett_service.storage.record import corrections
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.regressions.daily_time import DailyTime, daily_time
from tests.builders.clock import HOUR, MINUTE, NOON, RECEIVED_AT
from tests.builders.fleet import LATER, calm_job, store_job
from tests.builders.ledgers import refreshed

DAY = 24 * HOUR
MIDNIGHT = NOON - 12 * HOUR
PLACES = {category: place for place, category in enumerate(Category)}


def _daily_times(store: Store, project_id: int, first_us: int, days: int) -> list[DailyTime]:
    with store.reading() as conn:
        return list(daily_time(conn, project_id, first_us, days, ("cluster", "model")))


@pytest.mark.parametrize("first_us", [MIDNIGHT - DAY, NOON - DAY])
def test_time_is_summed_by_cohort_and_day_from_any_full_hour_on(
    store: Store, project_id: int, first_us: int
) -> None:
    calm = calm_job(NOON, compiling=10, training=20, cluster="c", model="m")
    store_job(store, project_id, "a", calm)
    other = calm_job(NOON, training=30, code_version="2", cluster="c", model="m")
    store_job(store, project_id, "b", other)
    store_job(store, project_id, "c", calm_job(NOON + DAY, training=40, cluster="c", model="n"))

    [first, next_one] = _daily_times(store, project_id, first_us, 3)
    assert (first.day, first.labels, first.other) == (1, ("c", "m"), False)
    assert first.us[PLACES[Category.EFFECTIVE_TRAINING]] == 8 * 50 * MINUTE
    assert first.us[PLACES[Category.PT2_COMPILE]] == 8 * 10 * MINUTE
    assert sum(first.us) == 8 * 60 * MINUTE
    assert (next_one.day, next_one.labels) == (2, ("c", "n"))
    assert _daily_times(store, project_id, first_us, 1) == []


def test_excluded_time_is_left_out(store: Store, project_id: int) -> None:
    key = store_job(store, project_id, "a", calm_job(NOON, training=60))
    _exclude(store, key, Exclusion(NOON, NOON + 15 * MINUTE))
    [phase] = _daily_times(store, project_id, MIDNIGHT, 1)
    assert sum(phase.us) == 8 * 45 * MINUTE


def _exclude(store: Store, key: JobKey, window: Exclusion) -> None:
    store.write(
        lambda conn: corrections.put_exclusion(
            conn, key, [window], why="bench", made_by="ett_x", now_us=RECEIVED_AT
        )
    )
    refreshed(store, key, LATER)
