from dataclasses import replace
from functools import partial
from typing import Any

from ett_service.core.events import Marker, MarkerKind
from ett_service.storage.engine.store import Store
from ett_service.storage.record import markers
from ett_service.storage.record.keys import create_project
from ett_service.storage.record.markers import MarkerFilter
from tests.builders.clock import HOUR, MINUTE, NOON, RECEIVED_AT

DEPLOY = Marker("d", NOON, MarkerKind.DEPLOY, "Trainer 4.2", labels={"service": "trainer"})
WINDOW = Marker("m", NOON + HOUR, MarkerKind.MAINTENANCE, "Racks 5 to 9", NOON + 2 * HOUR)
LAUNCH = Marker("l", NOON + HOUR, MarkerKind.LAUNCH, "100%_new", labels={"a'b\"c": "it's {1}"})


def keep(store: Store, project_id: int, *chosen: Marker) -> list[bool]:
    """Store the markers and return which were new."""
    keep_one = partial(
        markers.add_marker, project_id=project_id, made_by="ett_00000000", now_us=RECEIVED_AT
    )
    return [store.write(partial(keep_one, made=marker))[1] for marker in chosen]


def ids_of(store: Store, project_id: int, **conditions: Any) -> list[str]:
    """Return the ids of the markers of one project, the latest first."""
    with store.reading() as conn:
        rows = markers.markers(conn, [project_id], MarkerFilter(**conditions), limit=10)
    return [row.marker.id for row in rows]


def test_a_marker_is_read_as_it_was_kept(store: Store, project_id: int) -> None:
    assert keep(store, project_id, LAUNCH, WINDOW) == [True, True]

    with store.reading() as conn:
        read = markers.markers(conn, None, MarkerFilter(), limit=10)

    assert [row.marker for row in read] == [WINDOW, LAUNCH]
    assert {(row.project, row.made_by, row.made_at) for row in read} == {
        ("research", "ett_00000000", RECEIVED_AT)
    }


def test_of_one_id_the_first_stays(store: Store, project_id: int) -> None:
    other = replace(DEPLOY, title="Trainer 4.3")

    assert keep(store, project_id, DEPLOY, DEPLOY, other) == [True, False, False]

    with store.reading() as conn:
        (row,) = markers.markers(conn, [project_id], MarkerFilter(), limit=10)
    assert row.marker == DEPLOY


def test_the_same_content_has_the_same_id_and_any_other_another() -> None:
    others = [
        replace(DEPLOY, at=NOON + 1),
        replace(DEPLOY, end=NOON + 1),
        replace(DEPLOY, kind=MarkerKind.OTHER),
        replace(DEPLOY, title="Trainer"),
        replace(DEPLOY, labels={}),
    ]
    ids = {markers.derived_id(marker) for marker in (DEPLOY, *others)}

    assert markers.derived_id(replace(DEPLOY, id="another")) in ids
    assert len(ids) == 1 + len(others)


QUERIES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["m", "l", "d"]),
    ({"from_us": NOON}, ["m", "l", "d"]),
    ({"from_us": NOON + 1}, ["m", "l"]),
    ({"from_us": NOON + 90 * MINUTE}, ["m"]),
    ({"to_us": NOON}, []),
    ({"to_us": NOON + HOUR}, ["d"]),
    ({"kind": MarkerKind.DEPLOY}, ["d"]),
    ({"contains": "TRAINER"}, ["d"]),
    ({"contains": "0%_"}, ["l"]),
    ({"labels": {"service": "trainer"}}, ["d"]),
    ({"labels": {"service": "train"}}, []),
    ({"labels": {"a'b\"c": "it's {1}"}}, ["l"]),
    ({"labels": {"service": "trainer", "a'b\"c": "it's {1}"}}, []),
]


def test_a_filter_finds_what_it_names(store: Store, project_id: int) -> None:
    keep(store, project_id, DEPLOY, WINDOW, LAUNCH)
    assert [
        (conditions, ids_of(store, project_id, **conditions)) for conditions, _ in QUERIES
    ] == QUERIES


def test_a_page_goes_on_where_the_last_one_ended(store: Store, project_id: int) -> None:
    keep(store, project_id, DEPLOY, WINDOW, LAUNCH)
    with store.reading() as conn:
        rest = markers.markers(
            conn, [project_id], MarkerFilter(), limit=1, after=(WINDOW.at, WINDOW.id)
        )
    assert [row.marker for row in rest] == [LAUNCH]


def test_a_deleted_marker_is_gone_and_those_of_others_stay(store: Store, project_id: int) -> None:
    other = store.write(lambda conn: create_project(conn, "other", RECEIVED_AT))
    keep(store, project_id, DEPLOY)
    keep(store, other, DEPLOY)

    assert store.write(lambda conn: markers.delete_marker(conn, project_id, "d"))
    assert not store.write(lambda conn: markers.delete_marker(conn, project_id, "d"))

    assert (ids_of(store, project_id), ids_of(store, other)) == ([], ["d"])
    assert keep(store, project_id, DEPLOY) == [True]
