"""What is muted, for whom and until when: by people, and by maintenance."""

from functools import partial

import pytest

from ett_service.core.events import Marker, MarkerKind
from ett_service.core.intervals import HOUR_US
from ett_service.core.regressions.finding import Metric, Series, Subject
from ett_service.storage.engine.store import Store
from ett_service.storage.record import markers
from ett_service.storage.record.keys import create_project
from ett_service.storage.regressions import mutes
from ett_service.storage.regressions.mutes import Mute, Muted
from tests.builders.clock import NOON
from tests.builders.regressions.stored import COHORT, COMPILE

SERIES = Series(COMPILE, COHORT)
WHOLE = Series(COMPILE, ())
LATER = NOON + HOUR_US


def add(store: Store, project_id: int, muted: Muted) -> Mute:
    """Mute that."""
    return store.write(
        partial(mutes.add, project_id=project_id, muted=muted, by="ana", why="a test", now_us=NOON)
    )


def is_muted(store: Store, project_id: int, at_us: int, series: Series = SERIES) -> bool:
    """Return whether nobody is notified of it."""
    with store.reading() as conn:
        return any(each.covers(series, at_us) for each in mutes.muted(conn, project_id, at_us))


@pytest.mark.parametrize(
    ("cohort", "phase", "covers"),
    [
        ({}, "", (True, True)),
        ({"cluster": "a"}, "", (True, False)),
        ({"cluster": "a", "model": "llm-70b"}, "pt2_compile", (True, False)),
        ({"cluster": "b"}, "", (False, False)),
        ({"team": "nlp"}, "", (False, False)),
        ({}, "pt2_compile", (True, True)),
        ({}, "launcher_init", (False, False)),
    ],
)
def test_a_mute_covers_what_lies_in_its_cohort_and_phase(
    cohort: dict[str, str], phase: str, covers: tuple[bool, bool]
) -> None:
    muted = Muted(cohort, phase, NOON, LATER)
    assert (muted.covers(SERIES, NOON), muted.covers(WHOLE, NOON)) == covers


def test_a_mute_of_a_phase_covers_nothing_without_phases() -> None:
    whole_start = Series(Subject(Metric.TIME_TO_START_SECONDS), COHORT)
    assert not Muted({}, "pt2_compile", NOON, LATER).covers(whole_start, NOON)


def test_a_mute_ends_when_it_says_so(store: Store, project_id: int) -> None:
    add(store, project_id, Muted({"cluster": "a"}, "", NOON, LATER))
    when = (NOON - 1, NOON, LATER - 1, LATER)
    assert [is_muted(store, project_id, at_us) for at_us in when] == [False, True, True, False]


def test_a_mute_that_is_taken_back_ends_then_and_says_by_whom(
    store: Store, project_id: int
) -> None:
    mute = add(store, project_id, Muted({}, "", NOON, LATER))
    take_back = partial(mutes.take_back, project_id=project_id, mute_id=mute.id, by="bo")
    ended = store.write(partial(take_back, now_us=NOON + 1))

    assert ended is not None
    assert (ended.taken_back_by, ended.taken_back_us) == ("bo", NOON + 1)
    assert ended.muted.until_us == NOON + 1
    assert not is_muted(store, project_id, NOON + 1)
    assert store.write(partial(take_back, now_us=NOON + 2)) is None
    with store.reading() as conn:
        assert mutes.listing(conn, [project_id]) == [ended]
        assert mutes.listing(conn, None, at_us=NOON) == []


def test_mutes_are_of_one_project(store: Store, project_id: int) -> None:
    other = store.write(lambda conn: create_project(conn, "other", NOON))
    mute = add(store, project_id, Muted({}, "", NOON, LATER))
    take_back = partial(mutes.take_back, mute_id=mute.id, by="bo", now_us=NOON)

    assert not is_muted(store, other, NOON)
    assert store.write(partial(take_back, project_id=other)) is None
    with store.reading() as conn:
        assert mutes.listing(conn, [other]) == []
        assert [each.why for each in mutes.listing(conn, None)] == ["a test"]


def test_nobody_is_notified_of_machines_under_maintenance(store: Store, project_id: int) -> None:
    labels = {"cluster": "a", "ticket": "7"}
    for marker in (
        Marker("m", NOON, MarkerKind.MAINTENANCE, "Racks", LATER, labels),
        Marker("d", LATER, MarkerKind.DEPLOY, "Trainer", LATER + HOUR_US, labels),
        Marker("i", LATER, MarkerKind.MAINTENANCE, "In no time", None, labels),
    ):
        keep = partial(markers.add_marker, project_id=project_id, made=marker, made_by="")
        store.write(partial(keep, now_us=NOON))

    when = (NOON - 1, NOON, LATER - 1, LATER)
    assert [is_muted(store, project_id, at_us) for at_us in when] == [False, True, True, False]
    assert not is_muted(store, project_id, NOON, WHOLE)
