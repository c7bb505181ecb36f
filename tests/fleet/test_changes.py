"""The change ledger: what was before a marker and what after it, and how sure one may be."""

from functools import partial
from typing import Any

import pytest

from ett_service.core.events import Marker, MarkerKind
from ett_service.core.words import Origin
from ett_service.fleet.changes import Change, changes, drawn, sides, waterfall
from ett_service.fleet.scope import Scope, Window
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet.occurrences import Kind
from ett_service.storage.record import markers
from ett_service.storage.record.keys import create_project
from ett_service.storage.record.markers import KeptMarker, MarkerFilter
from tests.builders.clock import HOUR, MINUTE, NOON, RECEIVED_AT
from tests.builders.fleet import LATER, calm_job, failing_job, store_job

DAY = 24 * HOUR
EVERYTHING = Scope()


def marked(store: Store, project_id: int, *chosen: Marker) -> list[KeptMarker]:
    """Store markers, and read them back, the latest first."""
    for marker in chosen:
        keep_one = partial(
            markers.add_marker,
            project_id=project_id,
            made=marker,
            made_by="ett_0",
            now_us=RECEIVED_AT,
        )
        store.write(keep_one)
    with store.reading() as conn:
        return markers.markers(conn, None, MarkerFilter(), limit=100)


def deploy(name: str, at: int, **members: Any) -> Marker:
    """Return a deploy marker."""
    return Marker(name, at, MarkerKind.DEPLOY, f"Deploy {name}", **members)


def associated(
    store: Store, chosen: list[KeptMarker], scope: Scope = EVERYTHING, now_us: int = LATER
) -> list[Change]:
    """Return the changes that the markers are associated with."""
    with store.reading() as conn:
        return list(changes(conn, scope, chosen, chosen, now_us))


@pytest.fixture
def deployed(store: Store, project_id: int) -> list[KeptMarker]:
    """Ten days of jobs that compile for 10 to 19 minutes, then ten of half of that."""
    for day in range(20):
        minutes = (10 + day % 10) * (2 if day < 10 else 1)
        job = calm_job(
            NOON + day * DAY, initialising=5, compiling=minutes, training=60, model="ab"[day % 2]
        )
        store_job(store, project_id, f"job-{day:02}", job)
    return marked(store, project_id, deploy("cache", NOON + 10 * DAY - HOUR))


def test_what_began_before_a_marker_is_compared_with_what_began_after_it(
    store: Store, deployed: list[KeptMarker]
) -> None:
    [change] = associated(store, deployed)

    compiles = next(effect for effect in change.effects if effect.kind is Kind.PT2_COMPILE)
    assert (compiles.before.n, compiles.before.jobs, compiles.before.mean_us) == (
        10,
        10,
        29 * MINUTE,
    )
    assert (compiles.after.mean_us, compiles.after.median_us) == (14.5 * MINUTE, 14.5 * MINUTE)
    assert compiles.mean_us == -14.5 * MINUTE
    assert compiles.mean_us_interval is not None
    low, high = compiles.mean_us_interval
    # The standard error of the difference is 2.04 minutes.
    assert low == pytest.approx(-18.5 * MINUTE, rel=0.05)
    assert high == pytest.approx(-10.5 * MINUTE, rel=0.05)
    assert compiles.median_us == -14.5 * MINUTE
    assert compiles.median_us_interval is not None
    low, high = compiles.median_us_interval
    assert -24 * MINUTE < low < -14.5 * MINUTE < high < -6 * MINUTE
    starts = next(effect for effect in change.effects if effect.kind is Kind.TIME_TO_START)
    assert (starts.before.mean_us, starts.after.mean_us) == (34 * MINUTE, 19.5 * MINUTE)
    recoveries = next(effect for effect in change.effects if effect.kind is Kind.TIME_TO_RECOVER)
    assert (recoveries.before.n, recoveries.mean_us, recoveries.mean_us_interval) == (0, None, None)
    assert change.ett.before_us == (8 * 600 * MINUTE, 8 * (600 + 340) * MINUTE)
    difference = 600 / (600 + 195) - 600 / 940
    assert change.ett.ratio == pytest.approx(difference)
    assert change.ett.ratio_interval is not None
    assert change.ett.ratio_interval.low < difference < change.ett.ratio_interval.high
    assert associated(store, deployed) == [change]


def test_recoveries_and_stops_for_saves_are_compared_too(store: Store, project_id: int) -> None:
    store_job(store, project_id, "fails", failing_job(NOON, Origin.USER))
    [change] = associated(store, marked(store, project_id, deploy("x", NOON - MINUTE)))

    recoveries = next(effect for effect in change.effects if effect.kind is Kind.TIME_TO_RECOVER)
    assert (recoveries.after.n, recoveries.after.mean_us) == (1, 15 * MINUTE)
    assert recoveries.after.median_us == 15 * MINUTE


def test_labels_that_are_dimensions_and_the_project_narrow_the_jobs(
    store: Store, project_id: int, deployed: list[KeptMarker]
) -> None:
    other = store.write(lambda conn: create_project(conn, "other", RECEIVED_AT))
    store_job(
        store, other, "job-00", calm_job(NOON + 9 * DAY, compiling=500, training=1, model="a")
    )
    at = deployed[0].marker.at
    marked(
        store, project_id, deploy("a", at, labels={"model": "a", "by": "bot", "code_version": "2"})
    )
    everyones = marked(store, other, deploy("foreign", at))
    [of_a] = [each for each in everyones if each.marker.id == "a"]

    [change] = associated(store, [of_a])
    assert change.effects[0].before.n == 5

    narrowed = Scope(where={"model": frozenset({"b"})})
    assert associated(store, [of_a], narrowed) == []
    in_research = Scope(where={"project": frozenset({"research"})})
    associations = associated(store, everyones, in_research)
    assert {each.marker.marker.id for each in associations} == {"a", "cache"}


def test_a_marker_says_the_same_alone_and_beside_those_of_other_cohorts(
    store: Store, project_id: int, deployed: list[KeptMarker]
) -> None:
    at = deployed[0].marker.at
    of_a = deploy("a", at - DAY, labels={"model": "a"})
    of_b = deploy("b", at + DAY + MINUTE, labels={"model": "b", "size": "8-15"})
    of_none = deploy("c", at, labels={"model": "c"})
    chosen = marked(store, project_id, of_a, of_b, of_none)
    alone = [change for each in chosen for change in associated(store, [each])]

    assert associated(store, chosen) == alone
    jobs = {change.marker.marker.id: change.effects[0].before.jobs for change in alone}
    assert jobs == {"a": 5, "b": 5, "c": 0, "cache": 10}


def test_time_is_cut_at_the_next_marker_of_its_kind_and_labels_and_now(
    store: Store, project_id: int
) -> None:
    stored = {
        each.marker.id: each
        for each in marked(
            store,
            project_id,
            deploy("one", NOON, labels={"code_version": "1"}),
            deploy("two", NOON + 3 * DAY, labels={"code_version": "2"}),
            deploy("of a team", NOON + 2 * DAY, labels={"team": "a"}),
            Marker("planned", NOON + DAY, MarkerKind.MAINTENANCE, "Racks", NOON + DAY + HOUR),
            deploy("long", NOON - 5 * DAY, end=NOON - 2 * DAY),
        )
    }
    among = list(stored.values())

    def around(name: str, now_us: int = LATER) -> tuple[Window, Window]:
        return sides(stored[name], among, now_us)

    assert around("one") == (Window(NOON - 2 * DAY, NOON), Window(NOON, NOON + 3 * DAY))
    assert around("two") == (
        Window(NOON, NOON + 3 * DAY),
        Window(NOON + 3 * DAY, NOON + 17 * DAY),
    )
    assert around("planned") == (
        Window(NOON - 13 * DAY, NOON + DAY),
        Window(NOON + DAY + HOUR, NOON + 15 * DAY + HOUR),
    )
    assert around("two", NOON + 4 * DAY)[1] == Window(NOON + 3 * DAY, NOON + 4 * DAY)
    assert around("two", NOON)[1] == Window(NOON + 3 * DAY, NOON + 3 * DAY)


def test_the_steps_of_the_mean_time_to_start_sum_to_its_whole_change(
    store: Store, project_id: int
) -> None:
    for place, minutes in enumerate((30, 31, 31, 12, 12, 8, 9)):
        at = NOON + place * DAY
        store_job(store, project_id, f"job-{place}", calm_job(at, compiling=minutes, training=9))
    stored = marked(
        store,
        project_id,
        deploy("cache", NOON + 2 * DAY + HOUR),
        deploy("nothing", NOON + 2 * DAY + 2 * HOUR),
        deploy("faster", NOON + 5 * DAY - HOUR),
        deploy("outside", NOON + 90 * DAY),
    )

    with store.reading() as conn:
        steps = waterfall(conn, EVERYTHING, Window(NOON, NOON + 7 * DAY), stored)

    names = [step.marker and step.marker.marker.id for step in steps]
    assert names == [None, "cache", "nothing", "faster"]
    assert [step.n for step in steps] == [3, 0, 2, 2]
    first = round(92 * MINUTE / 3)
    assert [step.mean_us for step in steps] == [first, None, 12 * MINUTE, round(8.5 * MINUTE)]
    assert [step.step_us for step in steps] == [0, 0, 12 * MINUTE - first, round(-3.5 * MINUTE)]
    assert sum(step.step_us for step in steps) == round(8.5 * MINUTE) - first


def test_without_jobs_or_markers_there_is_nothing_to_show(store: Store, project_id: int) -> None:
    with store.reading() as conn:
        [step] = waterfall(conn, EVERYTHING, Window(NOON, NOON + DAY), [])
    assert (step.n, step.mean_us, step.step_us) == (0, None, 0)

    [change] = associated(store, marked(store, project_id, deploy("x", NOON)))
    assert all(effect.mean_us is None for effect in change.effects)
    assert (change.ett.ratio, change.ett.ratio_interval) == (None, None)


def test_of_a_large_fleet_a_sample_is_compared_and_etts_are_of_all(
    store: Store, deployed: list[KeptMarker]
) -> None:
    window = Window(NOON, NOON + 21 * DAY)
    with store.reading() as conn:
        around = [window, *sides(deployed[0], deployed, LATER)]
        assert drawn(conn, EVERYTHING, around) is None
        sample = drawn(conn, EVERYTHING, around, most=12)
        assert sample is not None
        asked = (conn, EVERYTHING, deployed, deployed, LATER)
        (of_all,), (of_some,) = changes(*asked), changes(*asked, sample=sample)
        steps = waterfall(conn, EVERYTHING, window, deployed, sample)

    assert (len(sample.keys), sample.drawn_from) == (12, 20)
    assert (of_some.ett.before_us, of_some.ett.after_us) == (
        of_all.ett.before_us,
        of_all.ett.after_us,
    )
    assert sum(step.n for step in steps) == 12
    for some, every in zip(of_some.effects, of_all.effects, strict=True):
        assert some.before.n <= every.before.n
        assert some.after.n <= every.after.n
    (starts,) = (each for each in of_some.effects if each.kind is Kind.TIME_TO_START)
    assert starts.before.n + starts.after.n == 12
    assert of_some.ett.ratio_interval is not None
    assert sum(of_some.ett.ratio_interval) / 2 == pytest.approx(of_some.ett.ratio, abs=0.004)
