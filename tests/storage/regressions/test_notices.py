"""Whom receivers are still to be notified of: changes, reminders, and nothing of noise."""

from functools import partial

import pytest

from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.regressions.finding import Finding, Triage
from ett_service.storage.engine.store import Store
from ett_service.storage.record.keys import create_project
from ett_service.storage.regressions import notices, regressions
from ett_service.storage.regressions.regressions import Act
from tests.builders.clock import NOON
from tests.builders.regressions.stored import finding, fires, searched

COMPILE = finding()
ACT = Act("ana", "seen", NOON + HOUR_US)


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
    fires(store, project_id, COMPILE)
    assert owed(store) == [(1, False)]
    notify(store)
    assert owed(store) == []


def test_noise_is_over_for_receivers_and_stays_so(store: Store, project_id: int) -> None:
    (regression_id,) = fires(store, project_id, COMPILE)
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
    (regression_id,) = fires(store, project_id, COMPILE)
    triage(store, project_id, regression_id, Triage.NOISE)
    assert owed(store) == []


def test_what_turns_out_to_be_real_is_sent_again(store: Store, project_id: int) -> None:
    (regression_id,) = fires(store, project_id, COMPILE)
    notify(store)
    triage(store, project_id, regression_id, Triage.NOISE)
    notify(store)
    triage(store, project_id, regression_id, Triage.REAL)
    assert owed(store) == [(1, False)]


def test_what_nobody_acknowledges_is_notified_again_after_a_day(
    store: Store, project_id: int
) -> None:
    fires(store, project_id, COMPILE)
    assert reminded(store, NOON + 2 * DAY_US) == 0, "nobody was told yet"
    notify(store, NOON)
    assert reminded(store, NOON + DAY_US - 1) == 0
    assert reminded(store, NOON + DAY_US) == 1


def test_nobody_is_reminded_of_what_somebody_looks_at(store: Store, project_id: int) -> None:
    first, second = fires(store, project_id, COMPILE, finding(cohort=(("cluster", "b"),)))
    notify(store, NOON)
    of_project = partial(regressions.acknowledge, project_id=project_id, act=ACT)
    store.write(partial(of_project, regression_id=first))
    triage(store, project_id, second, Triage.EXPECTED)
    assert reminded(store, NOON + 30 * DAY_US) == 0
