"""Markers near an onset, the highest score first."""

from functools import partial

from sqlalchemy import Connection

from ett_service.core.events import Marker, MarkerKind
from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.regressions.finding import Suspect
from ett_service.detection.attribution.attribute import MOST_MARKERS, markers_near, ranked_markers
from ett_service.storage.engine.store import Store
from ett_service.storage.record.markers import add_marker
from tests.builders.clock import NOON

VERSION = Suspect("code_version", "4.2", 0.97, 40)
COHORT = (("cluster", "a"), ("model", "llm-70b"))


def marker(name: str, hours: float, **labels: str) -> Marker:
    at = NOON + round(hours * HOUR_US)
    return Marker(id=name, at=at, kind=MarkerKind.DEPLOY, title=name, labels=labels)


def names(*markers: Marker, suspects: tuple[Suspect, ...] = (VERSION,)) -> list[str]:
    return [each.id for each in ranked_markers(markers, NOON, COHORT, suspects)]


def _add(conn: Connection, project_id: int, added: Marker) -> None:
    add_marker(conn, project_id, added, made_by="k", now_us=NOON)


def test_the_nearest_comes_first() -> None:
    assert names(marker("far", 30), marker("near", -2), marker("nearer", 1)) == [
        "nearer", "near", "far",
    ]  # fmt: skip


def test_the_deploy_of_the_suspect_comes_before_what_is_nearer() -> None:
    assert names(
        marker("another", 0, code_version="4.1"),
        marker("whatever", 1),
        marker("this", -20, code_version="4.2"),
    ) == ["this", "whatever", "another"]


def test_what_was_done_to_another_cluster_comes_last() -> None:
    assert names(marker("there", 0, cluster="b"), marker("here", 20, cluster="a")) == [
        "here", "there",
    ]  # fmt: skip


def test_a_marker_of_the_suspect_at_the_onset_scores_one_and_half_of_it_a_day_later() -> None:
    at, later = marker("at", 0, code_version="4.2"), marker("later", 24, code_version="4.2")

    assert [each.score for each in ranked_markers([at, later], NOON, COHORT, [VERSION])] == [
        1.0,
        0.5,
    ]


def test_what_takes_time_is_as_near_as_its_nearest_instant() -> None:
    long = Marker(
        id="long",
        at=NOON - 9 * DAY_US,
        end=NOON + DAY_US,
        kind=MarkerKind.MAINTENANCE,
        title="long",
    )

    (marker,) = ranked_markers([long], NOON, (), ())
    assert marker.score == 0.5


def test_markers_within_three_days_are_read(store: Store, project_id: int) -> None:
    for place, hours in enumerate((-100, -70, -1, 0, 1, 2, 3, 71, 73)):
        added = marker(f"m{place}", hours)
        store.write(partial(_add, project_id=project_id, added=added))
    with store.reading() as conn:
        markers = markers_near(conn, project_id, NOON, COHORT, ())
        nothing = markers_near(conn, project_id + 1, NOON, COHORT, ())

    assert [each.id for each in markers] == ["m3", "m2", "m4", "m5", "m6"]
    assert len(markers) == MOST_MARKERS
    assert nothing == ()
