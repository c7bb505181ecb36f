"""What keys send adds up, by windows, and old sums go."""

import pytest
from sqlalchemy import func, select

from ett_service.core.intervals import DAY_US
from ett_service.storage.engine.store import Store
from ett_service.storage.record import usage
from ett_service.storage.record.keys import create_key, get_key
from ett_service.storage.record.usage import USAGE_SLOT_US, USAGE_WINDOWS, Usage
from ett_service.storage.schema import key_usage
from tests.builders.clock import HOUR, NOON


def new_key(store: Store, project: str = "research") -> str:
    return store.write(
        lambda conn: create_key(
            conn, project=project, name="trainer", scopes=("write",), now_us=NOON
        )
    )[:12]


def add(store: Store, prefix: str, at_us: int, sent: Usage) -> None:
    slot_us = at_us - at_us % USAGE_SLOT_US
    store.write(
        lambda conn: usage.add_usage(conn, {(prefix, slot_us): sent}, {prefix: at_us}, at_us)
    )


def sums(store: Store, window: str, now_us: int) -> dict[str, Usage]:
    with store.reading() as conn:
        rows = usage.usage_by_key(conn, USAGE_WINDOWS[window], now_us, None)
    return {row.key.prefix: row.usage for row in rows}


def test_sums_add_up_and_the_largest_sender_comes_first(store: Store) -> None:
    quiet, loud = new_key(store), new_key(store)
    add(store, quiet, NOON, Usage(1, 0, 5, 100))
    for _ in range(3):
        add(store, loud, NOON, Usage(10, 1, 50, 1_000))

    found = sums(store, "hour", NOON + 1)
    assert list(found) == [loud, quiet]
    assert found == {loud: Usage(30, 3, 150, 3_000), quiet: Usage(1, 0, 5, 100)}


@pytest.mark.parametrize(("window", "count"), [("hour", 1), ("day", 2), ("week", 3)])
def test_a_window_holds_what_was_sent_in_it(store: Store, window: str, count: int) -> None:
    prefix = new_key(store)
    for age in (30 * 60 * 10**6, 3 * HOUR, 3 * DAY_US):
        add(store, prefix, NOON - age, Usage(requests=1))

    assert sums(store, window, NOON)[prefix].requests == count


def test_what_is_older_than_eight_days_goes(store: Store) -> None:
    prefix = new_key(store)
    add(store, prefix, NOON, Usage(requests=1))
    add(store, prefix, NOON + 9 * DAY_US, Usage(requests=1))
    with store.reading() as conn:
        assert conn.execute(select(func.count()).select_from(key_usage)).scalar_one() == 1


def test_a_key_says_when_it_was_used_last_whatever_comes_late(store: Store) -> None:
    prefix = new_key(store)
    for at_us in (NOON + 5, NOON + 9, NOON + 7):
        add(store, prefix, at_us, Usage(requests=1))
    with store.reading() as conn:
        key = get_key(conn, prefix)

    assert key is not None
    assert key.last_used_at == NOON + 9


def test_projects_are_kept_apart(store: Store) -> None:
    for project in ("research", "other"):
        add(store, new_key(store, project), NOON, Usage(requests=1))
    with store.reading() as conn:
        everything = usage.usage_by_key(conn, HOUR, NOON, None)
        own = usage.usage_by_key(conn, HOUR, NOON, (everything[0].key.project_id,))

    assert [len(everything), len(own)] == [2, 1]
