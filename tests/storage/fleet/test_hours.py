"""Hours that were pruned are gone for readers, writers and comparisons; days stay."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from sqlalchemy import Connection, func, select

from ett_service.aggregation.fold_job import refresh
from ett_service.aggregation.verify import RollupDifference, repair, verify_rollups
from ett_service.core.intervals import DAY_US, HOUR_US, Interval
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import cohort_cap, hours, rollup_deltas, rollups
from ett_service.storage.fleet.cohort_cap import ProjectDay
from ett_service.storage.fleet.hours import HoursPruned
from ett_service.storage.fleet.rollups import CohortFilter
from ett_service.storage.fleet.sample import count_alive
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.regressions.cohort_facts import daily_time
from ett_service.storage.retention import delete_job
from ett_service.storage.schema import cohort_day, rollup_daily, rollup_hourly, tally_hourly
from ett_service.storage.schema import store as horizons
from ett_service.storage.schema.record import EVERY_HOUR, HOURLY_FROM
from tests.builders.clock import HOUR, MINUTE, NOON
from tests.builders.databases.engines import ON_SERVERS
from tests.builders.databases.statements import before_statement
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import progress
from tests.builders.rollups import check_rollups, stored_rollups
from tests.storage.test_retention import closed_job

FIRST_DAY = NOON - NOON % DAY_US
SECOND_DAY = FIRST_DAY + DAY_US
EVERYTHING = CohortFilter()
MIDDAY = (NOON, NOON + HOUR)


@pytest.fixture
def key(store: Store, project_id: int) -> JobKey:
    """A job that trained for some minutes of the first day at noon, and waited until the third."""
    key = JobKey(project_id, "closed")
    deliver(store, key, closed_job()[:-2], offsets={"p": 0})
    deliver(store, key, [progress(70, NOON + 50 * HOUR)])
    refreshed(store, key, NOON + 50 * HOUR)
    return key


def prune(store: Store, before_us: int, rows: int = 1_000) -> list[int]:
    """Prune hours in steps, and return how many rows each deleted."""
    store.write(lambda conn: hours.move_horizon(conn, before_us))
    steps = []
    while step := store.write(lambda conn: hours.prune(conn, rows)):
        steps.append(step)
    return steps


def starts(store: Store) -> set[int]:
    with store.reading() as conn:
        return {
            start_us
            for table in (rollup_hourly, tally_hourly)
            for start_us in conn.scalars(select(table.c.start_us))
        }


def e2e_us(conn: Connection, window: Interval, step: int | None = None) -> int:
    by_place = rollups.totals(conn, EVERYTHING, window, step=step)
    return sum(totals.e2e_us for totals in by_place.values())


def differences(store: Store) -> list[RollupDifference]:
    return [difference for day in verify_rollups(store) for difference in day.differences]


def beside(act: Callable[[], object]) -> None:
    """Act in a thread of its own, and wait for its end."""
    thread = threading.Thread(target=act)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.usefixtures("key")
def test_hours_of_the_days_before_go_in_steps_and_days_stay(store: Store) -> None:
    before = stored_rollups(store)
    gone = {cell for cell in before if cell[0] == "hourly" and cell[2] < SECOND_DAY}
    assert gone
    assert min(starts(store)) < SECOND_DAY

    steps = prune(store, SECOND_DAY + 7 * HOUR, rows=2)

    assert set(steps[:-1]) == {2}
    assert sum(steps) >= len(gone)
    assert stored_rollups(store) == {cell: before[cell] for cell in before.keys() - gone}
    assert min(starts(store)) >= SECOND_DAY
    check_rollups(store)


@pytest.mark.usefixtures("key")
def test_the_horizon_is_a_midnight_and_never_moves_back(store: Store) -> None:
    with store.reading() as conn:
        assert hours.kept_from(conn) == EVERY_HOUR
        assert conn.exec_driver_sql("SELECT * FROM ett_v_retention").one() == (None, None)
    for before_us in (SECOND_DAY + 5 * HOUR, FIRST_DAY, SECOND_DAY + 23 * HOUR):
        prune(store, before_us)
        with store.reading() as conn:
            assert hours.kept_from(conn) == SECOND_DAY


@pytest.mark.usefixtures("key")
def test_whole_days_are_read_and_hours_that_are_gone_are_refused(store: Store) -> None:
    whole = (FIRST_DAY, SECOND_DAY)
    later = (FIRST_DAY, SECOND_DAY + 5 * HOUR)
    with store.reading() as conn:
        expected = [e2e_us(conn, window) for window in (whole, later)]
        assert e2e_us(conn, MIDDAY)

    prune(store, SECOND_DAY)

    with store.reading() as conn:
        assert [e2e_us(conn, window) for window in (whole, later)] == expected
        assert e2e_us(conn, whole, DAY_US) == expected[0]
        assert e2e_us(conn, (SECOND_DAY, SECOND_DAY + 5 * HOUR), HOUR_US)
        for window, step in (
            (MIDDAY, None),
            (whole, HOUR_US),
            ((FIRST_DAY - DAY_US, NOON), DAY_US),
            ((NOON, SECOND_DAY + DAY_US), None),
            ((SECOND_DAY - HOUR, SECOND_DAY + DAY_US), DAY_US),
        ):
            for read in (
                rollups.totals,
                rollups.distributions,
                partial(rollups.places, most=9),
            ):
                with pytest.raises(HoursPruned):
                    read(conn, EVERYTHING, window, (), step)
        assert e2e_us(conn, (NOON, NOON)) == 0
        assert count_alive(conn, EVERYTHING, MIDDAY) == 1


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("hours_later", range(1, 24, 11))
def test_a_search_takes_whole_days_where_hours_are_gone(
    store: Store, project_id: int, hours_later: int
) -> None:
    def times(first_us: int) -> dict[int, float]:
        with store.reading() as conn:
            return {row.day: sum(row.us) for row in daily_time(conn, project_id, first_us, 4, ())}

    whole, later = times(FIRST_DAY - DAY_US), times(FIRST_DAY - DAY_US + hours_later * HOUR)
    assert set(whole) == {1, 2, 3}
    prune(store, SECOND_DAY)
    assert times(FIRST_DAY - DAY_US) == whole
    cut = times(FIRST_DAY - DAY_US + hours_later * HOUR)
    assert (cut[1], cut[2]) == (whole[1], later[2])


def test_a_refusal_says_what_to_ask_instead() -> None:
    day = "2026-03-0{}T00:00:00Z".format
    of_window = HoursPruned((NOON, NOON + 30 * HOUR), DAY_US, FIRST_DAY + 9 * DAY_US)
    assert str(of_window) == "Hours before 2026-03-10T00:00:00Z were pruned; whole days are kept."
    assert of_window.hint == (
        f"Instead of 2026-03-01T12:00:00Z to 2026-03-02T18:00:00Z ask for {day(1)} to {day(3)}, "
        "or for hours from 2026-03-10T00:00:00Z on."
    )
    into_the_kept = HoursPruned((NOON, NOON + 30 * HOUR), None, SECOND_DAY)
    assert f"ask for {day(1)} to 2026-03-02T18:00:00Z, or" in into_the_kept.hint
    assert HoursPruned(MIDDAY, HOUR_US, SECOND_DAY).hint == (
        f"Ask for steps of a day or a week, or for hours from {day(2)} on."
    )


@pytest.mark.parametrize(
    ("window", "wide", "narrow"),
    [
        ((12, 36), (0, 36), (24, 36)),
        ((0, 24), (0, 24), (0, 24)),
        ((12, 13), (0, 24), (24, 0)),
        ((-30, 12), (-48, 24), (-24, 0)),
        ((30, 31), (30, 31), (30, 31)),
        ((24, 25), (24, 25), (24, 25)),
    ],
)
def test_windows_gain_or_lose_days_of_which_they_have_only_some(
    window: Interval, wide: Interval, narrow: Interval
) -> None:
    def at(hours: Interval) -> Interval:
        return FIRST_DAY + hours[0] * HOUR_US, FIRST_DAY + hours[1] * HOUR_US

    assert hours.widened(at(window), SECOND_DAY) == at(wide)
    assert hours.narrowed(at(window), SECOND_DAY) == at(narrow)
    assert hours.widened(at(window), EVERY_HOUR) == at(window)
    assert hours.narrowed(at(window), EVERY_HOUR) == at(window)


def test_what_comes_late_or_goes_changes_days_and_brings_no_hour_back(
    store: Store, project_id: int, key: JobKey
) -> None:
    prune(store, SECOND_DAY)
    days = stored_rollups(store)

    deliver(store, key, [progress(71, NOON + 40 * MINUTE)])
    refreshed(store, key, NOON + 51 * HOUR)
    late = JobKey(project_id, "late")
    deliver(store, late, closed_job(), offsets={"p": 0})
    refreshed(store, late, NOON + 51 * HOUR)

    after = check_rollups(store)
    assert after != days
    assert min(starts(store)) >= SECOND_DAY

    store.write(lambda conn: delete_job(conn, late))
    check_rollups(store)
    store.write(lambda conn: delete_job(conn, key))
    assert stored_rollups(store) == {}
    assert starts(store) == set()


@pytest.mark.usefixtures("key")
def test_the_cap_moves_days_whose_hours_are_gone(store: Store, project_id: int) -> None:
    prune(store, SECOND_DAY)
    day = ProjectDay(project_id, FIRST_DAY)
    with store.reading() as conn:
        (cohort_id,) = conn.scalars(
            select(cohort_day.c.cohort_id).where(cohort_day.c.day_us == FIRST_DAY)
        ).all()
    for own in (False, True):
        move = partial(cohort_cap.move, day=day, cohort_ids=[cohort_id], own=own)
        assert store.write(move)
        check_rollups(store)
        assert min(starts(store)) >= SECOND_DAY


@pytest.mark.usefixtures("key")
def test_a_repair_corrects_days_and_brings_no_hour_back(store: Store) -> None:
    prune(store, SECOND_DAY)
    store.write(lambda conn: conn.execute(rollup_daily.delete()))
    store.write(lambda conn: conn.execute(rollup_hourly.delete()))
    assert differences(store)
    assert repair(store)
    check_rollups(store)
    assert min(starts(store)) >= SECOND_DAY


@pytest.mark.usefixtures("key")
def test_a_reader_sees_the_hours_of_its_snapshot_to_the_end(store: Store) -> None:
    with store.reading() as conn:
        before = e2e_us(conn, MIDDAY)
        beside(partial(prune, store, SECOND_DAY))
        assert e2e_us(conn, MIDDAY) == before > 0
    with store.reading() as conn, pytest.raises(HoursPruned):
        e2e_us(conn, MIDDAY)


@contextmanager
def pruned_at(conn: Connection, statement: int, store: Store) -> Iterator[list[int]]:
    """Let another prune the first day just before a statement; collect what it deleted."""
    deleted: list[int] = []

    def act() -> None:
        beside(lambda: deleted.append(sum(prune(store, SECOND_DAY))))

    with before_statement(conn, statement, act):
        yield deleted


@ON_SERVERS
@pytest.mark.usefixtures("key")
def test_a_merger_that_began_before_the_horizon_moved_brings_nothing_back(
    store: Store, project_id: int
) -> None:
    left_behind = 0
    for statement in range(1, 100):
        store.write(
            lambda conn: conn.execute(horizons.delete().where(horizons.c.name == HOURLY_FROM))
        )
        assert repair(store) or statement == 1
        late = JobKey(project_id, f"late {statement}")
        deliver(store, late, closed_job(), offsets={"p": 0})
        store.write(partial(refresh, key=late, now_us=NOON + 51 * HOUR))

        def merge(conn: Connection, at: int = statement) -> list[int]:
            with pruned_at(conn, at, store) as deleted:
                assert rollup_deltas.merge(conn) == 1
            return deleted

        deleted = store.write(merge)
        if not deleted:
            break

        left_behind += min(starts(store)) < SECOND_DAY
        with store.reading() as conn, pytest.raises(HoursPruned):
            e2e_us(conn, MIDDAY)
        assert differences(store) == []
        prune(store, SECOND_DAY)
        check_rollups(store)
        assert min(starts(store)) >= SECOND_DAY
    assert left_behind  # the race was met, and did no harm


@pytest.mark.usefixtures("key")
def test_rows_that_a_merger_left_before_the_horizon_are_seen_by_nobody(store: Store) -> None:
    store.write(lambda conn: hours.move_horizon(conn, SECOND_DAY))
    assert min(starts(store)) < SECOND_DAY
    with store.reading() as conn, pytest.raises(HoursPruned):
        e2e_us(conn, MIDDAY)
    with store.reading() as conn:
        first = conn.exec_driver_sql("SELECT min(start_us) FROM ett_v_rollup_hourly").scalar_one()
        since = conn.exec_driver_sql("SELECT hourly_from_us FROM ett_v_retention").scalar_one()
    assert first >= since == SECOND_DAY
    assert differences(store) == []
    assert sum(prune(store, SECOND_DAY))
    check_rollups(store)


@pytest.mark.usefixtures("key")
def test_what_would_go_is_a_share_of_the_days_of_cohorts(store: Store) -> None:
    with store.reading() as conn:
        days = conn.execute(select(func.count()).select_from(cohort_day)).scalar_one()
        assert hours.share_before(conn, SECOND_DAY + HOUR) == (1, days)
        assert hours.share_before(conn, FIRST_DAY) == (0, days)
    prune(store, SECOND_DAY)
    with store.reading() as conn:
        assert hours.share_before(conn, SECOND_DAY) == (0, days - 1)
