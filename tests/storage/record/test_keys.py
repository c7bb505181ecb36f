"""Keys are shown once, mistyped ones are refused without a look-up, and what each sends adds up."""

import asyncio
import string
from dataclasses import replace

import pytest
from sqlalchemy import func, select

from ett_service.core.intervals import DAY_US
from ett_service.storage.engine.store import Store
from ett_service.storage.record.keys import (
    SCOPES,
    USAGE_SLOT_US,
    USAGE_WINDOWS,
    AlreadyReplaced,
    BadKey,
    RecentKeys,
    Usage,
    add_usage,
    create_key,
    create_project,
    find_key,
    get_key,
    is_well_formed,
    list_keys,
    new_key_text,
    revoke_key,
    rotate_key,
    standing_key,
    usage_by_key,
)
from ett_service.storage.schema import api_key, key_usage
from tests.builders.clock import HOUR, NOON

BASE62 = string.digits + string.ascii_letters


def new_key(store: Store, *scopes: str, project: str = "research", at: int = NOON) -> str:
    return store.write(
        lambda conn: create_key(
            conn, project=project, name="trainer", scopes=scopes or ("write",), now_us=at
        )
    )


def test_a_key_is_found_by_its_text_and_speaks_for_its_project(store: Store) -> None:
    text = new_key(store, "read", "write")
    with store.reading() as conn:
        key = find_key(conn, text, NOON)

    assert key is not None
    assert key.prefix == text[:12]
    assert (key.project, key.name, key.scopes) == (
        "research",
        "trainer",
        frozenset({"read", "write"}),
    )
    assert (key.created_at, key.revoked_at) == (NOON, None)


def test_two_keys_of_one_project_speak_for_the_same(store: Store) -> None:
    texts = [new_key(store), new_key(store), new_key(store, project="other")]
    with store.reading() as conn:
        projects = [key.project_id for text in texts if (key := find_key(conn, text, NOON))]

    assert projects[0] == projects[1] != projects[2]


def test_the_text_of_a_key_is_kept_nowhere(store: Store) -> None:
    text = new_key(store)
    with store.reading() as conn:
        stored = [str(value) for row in conn.execute(select(api_key)) for value in row]

    assert text[:12] in stored
    assert not any(text[12:] in value for value in stored)


def test_an_unknown_key_of_the_right_form_is_nobodys(store: Store) -> None:
    text = new_key(store)
    with store.reading() as conn:
        assert find_key(conn, new_key_text(), NOON) is None
        assert find_key(conn, text.swapcase(), NOON) is None


def test_every_mistyped_character_is_reported_without_a_look_up() -> None:
    text = new_key_text()
    for place in range(len(text)):
        wrong = [text[:place] + each + text[place + 1 :] for each in BASE62 if each != text[place]]
        assert not any(is_well_formed(each) for each in wrong)
    assert is_well_formed(text)


@pytest.mark.parametrize("text", ["", "ett_", "ett_" + "é" * 36, "x" * 40, "ett_" + "0" * 40])
def test_what_cannot_be_a_key_is_not_looked_up(text: str) -> None:
    assert not is_well_formed(text)


def test_keys_do_not_repeat_and_cannot_be_guessed_from_their_form() -> None:
    keys = {new_key_text() for _ in range(2000)}

    assert len({key[:12] for key in keys}) == 2000
    assert all(len(key) == 40 and key.startswith("ett_") for key in keys)


def test_a_revoked_key_is_nobodys_and_stays_listed_with_its_end(store: Store) -> None:
    text = new_key(store)
    assert store.write(lambda conn: revoke_key(conn, text[:12], NOON + 5))
    assert not store.write(lambda conn: revoke_key(conn, text[:12], NOON + 9))
    with store.reading() as conn:
        assert find_key(conn, text, NOON) is None
        assert [key.revoked_at for key in list_keys(conn)] == [NOON + 5]


def test_keys_are_listed_oldest_first(store: Store) -> None:
    texts = [new_key(store, at=NOON + number) for number in (3, 1, 2)]
    with store.reading() as conn:
        listed = [key.prefix for key in list_keys(conn)]

    assert listed == [texts[number][:12] for number in (1, 2, 0)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"scopes": ()},
        {"scopes": ("write", "root")},
        {"project": ""},
        {"project": "a/b"},
        {"name": "bell\a"},
        {"name": "x" * 101},
    ],
)
def test_a_key_that_cannot_be_made_is_refused(store: Store, wrong: dict[str, str]) -> None:
    members = {"project": "p", "name": "n", "scopes": ("write",), **wrong}

    with pytest.raises(BadKey):
        store.write(lambda conn: create_key(conn, now_us=NOON, **members))  # type: ignore[arg-type]


def test_a_project_is_made_once(store: Store) -> None:
    projects = [store.write(lambda conn: create_project(conn, "again", NOON)) for _ in range(2)]

    assert projects[0] == projects[1]


def test_a_key_is_unknown_from_the_instant_on_at_which_it_expires(store: Store) -> None:
    text = store.write(
        lambda conn: create_key(
            conn, project="p", name="n", scopes=SCOPES, now_us=NOON, expires_us=NOON + 10
        )
    )
    with store.reading() as conn:
        assert find_key(conn, text, NOON + 9) is not None
        assert find_key(conn, text, NOON + 10) is None
        assert standing_key(conn, text[:12], NOON + 9) is not None
        assert standing_key(conn, text[:12], NOON + 10) is None


def test_a_key_that_has_expired_already_is_not_made(store: Store) -> None:
    with pytest.raises(BadKey):
        store.write(
            lambda conn: create_key(
                conn, project="p", name="n", scopes=SCOPES, now_us=NOON, expires_us=NOON
            )
        )


def test_a_recent_key_is_looked_up_again_after_a_second_and_when_it_has_expired(
    store: Store,
) -> None:
    text = new_key(store)
    with store.reading() as conn:
        key = find_key(conn, text, NOON)
    assert key is not None
    clock = iter([0.0, 0.999, 0.999, 1.0, 5.0, 5.0]).__next__
    recent = RecentKeys(clock)
    recent.keep(text, replace(key, expires_at=NOON + 1))

    assert recent.get(text, NOON) is not None
    assert recent.get(text, NOON + 1) is None
    assert recent.get(text, NOON) is None
    assert recent.get(new_key_text(), NOON) is None

    recent.keep(text, key)
    assert recent.get(text, NOON) == key
    recent.forget()
    assert recent.get(text, NOON) is None


def test_one_request_at_a_time_looks_a_key_up() -> None:
    recent, key, other = RecentKeys(), new_key_text(), new_key_text()
    n_looking = n_most = 0

    async def look_up(text: str) -> None:
        nonlocal n_looking, n_most
        async with recent.turn(text):
            n_looking += 1
            n_most = max(n_most, n_looking)
            await asyncio.sleep(0)
            n_looking -= 1

    async def look_up_together(*texts: str) -> None:
        await asyncio.gather(*map(look_up, texts))

    asyncio.run(look_up_together(*[key] * 20))
    assert n_most == 1
    asyncio.run(look_up_together(key, other))
    assert n_most == 2


def test_a_successor_has_the_length_of_life_of_the_key_before(store: Store) -> None:
    old = store.write(
        lambda conn: create_key(
            conn,
            project="research",
            name="trainer",
            scopes=("write", "read"),
            now_us=NOON,
            expires_us=NOON + 90 * DAY_US,
        )
    )
    later = NOON + 89 * DAY_US
    new = store.write(lambda conn: rotate_key(conn, old[:12], overlap_us=7 * DAY_US, now_us=later))
    assert new is not None
    with store.reading() as conn:
        former, successor = get_key(conn, old[:12]), get_key(conn, new[:12])
        assert find_key(conn, old, later) == former
        assert find_key(conn, new, later) == successor

    assert former is not None
    assert successor is not None
    assert (former.expires_at, former.replaced_by) == (NOON + 90 * DAY_US, new[:12])
    assert (successor.expires_at, successor.scopes) == (later + 90 * DAY_US, former.scopes)
    with pytest.raises(AlreadyReplaced):
        store.write(lambda conn: rotate_key(conn, old[:12], overlap_us=0, now_us=later))


def test_a_key_rotated_without_an_overlap_is_refused_at_once(store: Store) -> None:
    old = new_key(store)
    store.write(lambda conn: rotate_key(conn, old[:12], overlap_us=0, now_us=NOON + 1))
    with store.reading() as conn:
        assert find_key(conn, old, NOON + 1) is None


def prefix_of_a_key(store: Store, project: str = "research") -> str:
    return store.write(
        lambda conn: create_key(
            conn, project=project, name="trainer", scopes=("write",), now_us=NOON
        )
    )[:12]


def add_up(store: Store, prefix: str, at_us: int, sent: Usage) -> None:
    slot_us = at_us - at_us % USAGE_SLOT_US
    store.write(lambda conn: add_usage(conn, {(prefix, slot_us): sent}, {prefix: at_us}, at_us))


def sums(store: Store, window: str, now_us: int) -> dict[str, Usage]:
    with store.reading() as conn:
        rows = usage_by_key(conn, USAGE_WINDOWS[window], now_us, None)
    return {row.key.prefix: row.usage for row in rows}


def test_sums_add_up_and_the_largest_sender_comes_first(store: Store) -> None:
    quiet, loud = prefix_of_a_key(store), prefix_of_a_key(store)
    add_up(store, quiet, NOON, Usage(1, 0, 5, 100))
    for _ in range(3):
        add_up(store, loud, NOON, Usage(10, 1, 50, 1_000))

    usage = sums(store, "hour", NOON + 1)
    assert list(usage) == [loud, quiet]
    assert usage == {loud: Usage(30, 3, 150, 3_000), quiet: Usage(1, 0, 5, 100)}


@pytest.mark.parametrize(("window", "count"), [("hour", 1), ("day", 2), ("week", 3)])
def test_a_window_holds_what_was_sent_in_it(store: Store, window: str, count: int) -> None:
    prefix = prefix_of_a_key(store)
    for age in (30 * 60 * 10**6, 3 * HOUR, 3 * DAY_US):
        add_up(store, prefix, NOON - age, Usage(requests=1))

    assert sums(store, window, NOON)[prefix].requests == count


def test_what_is_older_than_eight_days_goes(store: Store) -> None:
    prefix = prefix_of_a_key(store)
    add_up(store, prefix, NOON, Usage(requests=1))
    add_up(store, prefix, NOON + 9 * DAY_US, Usage(requests=1))
    with store.reading() as conn:
        assert conn.execute(select(func.count()).select_from(key_usage)).scalar_one() == 1


def test_a_key_says_when_it_was_used_last_whatever_comes_late(store: Store) -> None:
    prefix = prefix_of_a_key(store)
    for at_us in (NOON + 5, NOON + 9, NOON + 7):
        add_up(store, prefix, at_us, Usage(requests=1))
    with store.reading() as conn:
        key = get_key(conn, prefix)

    assert key is not None
    assert key.last_used_at == NOON + 9


def test_projects_are_kept_apart(store: Store) -> None:
    for project in ("research", "other"):
        add_up(store, prefix_of_a_key(store, project), NOON, Usage(requests=1))
    with store.reading() as conn:
        everything = usage_by_key(conn, HOUR, NOON, None)
        own = usage_by_key(conn, HOUR, NOON, (everything[0].key.project_id,))

    assert [len(everything), len(own)] == [2, 1]
