"""A cohort has one id, whoever asks first and whatever is rolled back."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Connection, func, select

from ett_service.core.dimensions import Cohort
from ett_service.storage import schema
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import rollup_deltas
from ett_service.storage.record.keys import create_project
from tests.builders.clock import RECEIVED_AT

SMALL, LARGE = Cohort(team="nlp", size="8-15"), Cohort(team="nlp", size="64-127")


def ids_of(store: Store, project_id: int, cohorts: Iterable[Cohort]) -> dict[Cohort, int]:
    return store.write(lambda conn: rollup_deltas.ids(conn, project_id, cohorts))


def count(store: Store) -> int:
    with store.reading() as conn:
        return conn.execute(select(func.count()).select_from(schema.cohort)).scalar_one()


def test_the_same_dimensions_have_the_same_id(store: Store, project_id: int) -> None:
    first = ids_of(store, project_id, [SMALL, LARGE])
    assert ids_of(store, project_id, [LARGE, SMALL]) == first
    assert len(set(first.values())) == 2


def test_excluded_time_is_a_cohort_of_its_own(store: Store, project_id: int) -> None:
    out = SMALL._replace(excluded=True)
    ids = ids_of(store, project_id, [SMALL, out])
    assert ids[SMALL] != ids[out]


def test_every_project_has_its_own(store: Store, project_id: int) -> None:
    elsewhere = store.write(lambda conn: create_project(conn, "other", RECEIVED_AT))
    ours, other = ids_of(store, project_id, [SMALL]), ids_of(store, elsewhere, [SMALL])
    assert ours[SMALL] != other[SMALL]


def test_what_is_over_the_cap_is_no_cohort_of_unknown_dimensions(
    store: Store, project_id: int
) -> None:
    unknown = ids_of(store, project_id, [Cohort()])[Cohort()]

    def others(conn: Connection) -> list[int]:
        return [rollup_deltas.other(conn, project_id, excluded=out) for out in (False, True)]

    first, again = store.write(others), store.write(others)
    assert first == again
    assert len({unknown, *first}) == 3
    assert count(store) == 3


def test_an_id_that_was_rolled_back_is_not_used_again(store: Store, project_id: int) -> None:
    class Failed(Exception):
        """The transaction ends here."""

    def fail(conn: Connection) -> None:
        rollup_deltas.ids(conn, project_id, [SMALL])
        raise Failed

    with pytest.raises(Failed):
        store.write(fail)
    assert count(store) == 0

    ids = ids_of(store, project_id, [LARGE, SMALL])
    assert count(store) == 2
    assert ids_of(store, project_id, [SMALL])[SMALL] == ids[SMALL]


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_writers_that_need_the_same_new_cohorts_do_not_block_each_other(
    store: Store, project_id: int
) -> None:
    cohorts = [Cohort(team=str(number)) for number in range(40)]
    with ThreadPoolExecutor(4) as threads:
        turns = [cohorts, cohorts[::-1], cohorts[20:] + cohorts[:20], cohorts[10:]]
        ids = list(threads.map(lambda turn: ids_of(store, project_id, turn), turns))

    assert count(store) == 40
    assert all(found_ids.items() <= ids[0].items() for found_ids in ids)
