"""Whom receivers are still to be notified of: changes, reminders, and nothing of noise."""

from functools import partial

import pytest

from ett_service.core.events import Marker, MarkerKind
from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.regressions.finding import Finding, Metric, Series, Subject, Triage
from ett_service.storage.engine.store import Store
from ett_service.storage.record import markers
from ett_service.storage.record.keys import create_project
from ett_service.storage.regressions import notices, regressions
from ett_service.storage.regressions.findings import Act
from ett_service.storage.regressions.notices import Mute, Muted
from tests.builders.clock import NOON
from tests.builders.regressions.stored import COHORT, COMPILE, finding, fires, searched

COMPILE_FINDING = finding()
ACT = Act("ana", "seen", NOON + HOUR_US)

SERIES = Series(COMPILE, COHORT)
WHOLE = Series(COMPILE, ())
LATER = NOON + HOUR_US


@pytest.fixture
def project_id(store: Store) -> int:
    new_id: int = store.write(partial(create_project, name="research", now_us=NOON))
    return new_id


def owed(store: Store) -> list[tuple[int, bool]]:
    """Return the next version of each regression to notify of, and whether it is quiet."""
    with store.reading() as conn:
        rows = notices.unnotified(conn)
    return [(notices.version_to_notify(row), row.is_quiet) for row in rows]


def notify(store: Store, at_us: int = NOON) -> None:
    with store.reading() as conn:
        rows = notices.unnotified(conn)
    for row in rows:
        store.write(partial(notices.mark_notified, stored=row, at_us=at_us))


def triage(store: Store, project_id: int, regression_id: str, called: Triage) -> None:
    store.write(
        partial(
            regressions.triage,
            project_id=project_id,
            regression_id=regression_id,
            called=called,
            act=ACT,
        )
    )


def reminded(store: Store, at_us: int) -> int:
    with store.reading() as conn:
        return len(notices.unacknowledged(conn, at_us - DAY_US))


def test_receivers_hear_once_that_it_fires(store: Store, project_id: int) -> None:
    fires(store, project_id, COMPILE_FINDING)
    assert owed(store) == [(1, False)]
    notify(store)
    assert owed(store) == []


def test_noise_is_over_for_receivers_and_stays_so(store: Store, project_id: int) -> None:
    (regression_id,) = fires(store, project_id, COMPILE_FINDING)
    notify(store)
    triage(store, project_id, regression_id, Triage.NOISE)
    assert owed(store) == [(2, True)]
    notify(store)
    assert owed(store) == []

    quiet: Finding = finding(gpu_hours=1.0)
    searched(store, project_id, NOON + DAY_US, quiet)
    assert owed(store) == []
    assert reminded(store, NOON + 30 * DAY_US) == 0


def test_noise_that_nobody_heard_of_is_never_sent(store: Store, project_id: int) -> None:
    (regression_id,) = fires(store, project_id, COMPILE_FINDING)
    triage(store, project_id, regression_id, Triage.NOISE)
    assert owed(store) == []


def test_what_turns_out_to_be_real_is_sent_again(store: Store, project_id: int) -> None:
    (regression_id,) = fires(store, project_id, COMPILE_FINDING)
    notify(store)
    triage(store, project_id, regression_id, Triage.NOISE)
    notify(store)
    triage(store, project_id, regression_id, Triage.REAL)
    assert owed(store) == [(1, False)]


def test_what_nobody_acknowledges_is_notified_again_after_a_day(
    store: Store, project_id: int
) -> None:
    fires(store, project_id, COMPILE_FINDING)
    assert reminded(store, NOON + 2 * DAY_US) == 0, "nobody was told yet"
    notify(store, NOON)
    assert reminded(store, NOON + DAY_US - 1) == 0
    assert reminded(store, NOON + DAY_US) == 1


def test_nobody_is_reminded_of_what_somebody_looks_at(store: Store, project_id: int) -> None:
    first, second = fires(store, project_id, COMPILE_FINDING, finding(cohort=(("cluster", "b"),)))
    notify(store, NOON)
    of_project = partial(regressions.acknowledge, project_id=project_id, act=ACT)
    store.write(partial(of_project, regression_id=first))
    triage(store, project_id, second, Triage.EXPECTED)
    assert reminded(store, NOON + 30 * DAY_US) == 0


def add(store: Store, project_id: int, muted: Muted) -> Mute:
    """Mute that."""
    return store.write(
        partial(
            notices.add_mute,
            project_id=project_id,
            muted=muted,
            by="ana",
            why="a test",
            now_us=NOON,
        )
    )


def is_muted(store: Store, project_id: int, at_us: int, series: Series = SERIES) -> bool:
    """Return whether nobody is notified of it."""
    with store.reading() as conn:
        return any(each.covers(series, at_us) for each in notices.muted(conn, project_id, at_us))


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
    take_back = partial(notices.take_back_mute, project_id=project_id, mute_id=mute.id, by="bo")
    ended = store.write(partial(take_back, now_us=NOON + 1))

    assert ended is not None
    assert (ended.taken_back_by, ended.taken_back_us) == ("bo", NOON + 1)
    assert ended.muted.until_us == NOON + 1
    assert not is_muted(store, project_id, NOON + 1)
    assert store.write(partial(take_back, now_us=NOON + 2)) is None
    with store.reading() as conn:
        assert notices.list_mutes(conn, [project_id]) == [ended]
        assert notices.list_mutes(conn, None, at_us=NOON) == []


def test_mutes_are_of_one_project(store: Store, project_id: int) -> None:
    other = store.write(lambda conn: create_project(conn, "other", NOON))
    mute = add(store, project_id, Muted({}, "", NOON, LATER))
    take_back = partial(notices.take_back_mute, mute_id=mute.id, by="bo", now_us=NOON)

    assert not is_muted(store, other, NOON)
    assert store.write(partial(take_back, project_id=other)) is None
    with store.reading() as conn:
        assert notices.list_mutes(conn, [other]) == []
        assert [each.why for each in notices.list_mutes(conn, None)] == ["a test"]


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
