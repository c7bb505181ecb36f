"""Which job made room for which: sent as events and folded into ledgers."""

from typing import Any

import pytest
from sqlalchemy import Connection
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.event import listen

from ett_service.core.fleet.totals import Loss, PreemptionOrder
from ett_service.fleet.economy import Economy
from ett_service.fleet.scope import Scope, Window
from ett_service.fleet.summary import Preemption, preemptions, summary
from tests.builders.clock import HOUR, MINUTE, NOON
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import wire_event, wire_span
from tests.builders.servers.application import Service

WINDOW = Window(NOON, NOON + 2 * HOUR)


def _preempted(
    job: str, by: str | None, gpus: int | None = 4, team: str = "a"
) -> list[dict[str, Any]]:
    """Train from 10 on, save at 15, make room at 20, and train again from 27 on."""
    members = {} if by is None else {"preempted_by": by}
    sized = {} if gpus is None else {"gpus": gpus}
    return [
        wire_event("job", 5, job=job, team=team, precision="bf16", **sized),
        wire_event("attempt_started", 5, job=job, **sized),
        wire_event("phase_started", 10, job=job, phase="train_loop"),
        wire_event("checkpoint_saved", 15, job=job, step=10),
        wire_event("attempt_ended", 20, job=job, outcome="preempted", **members),
        wire_event("attempt_started", 25, job=job, attempt=1, **sized),
        wire_span("train_loop", 27, 40, job=job, attempt=1),
        wire_event("attempt_ended", 40, job=job, attempt=1, outcome="completed"),
        wire_event("job_ended", 40, job=job, outcome="completed"),
    ]


def _favoured(job: str, *lives: tuple[float, float, str]) -> list[dict[str, Any]]:
    """Return the events of a job's attempts: begin, end and outcome of each."""
    events = [wire_event("job", lives[0][0], job=job, gpus=8)]
    for attempt, (start, end, outcome) in enumerate(lives):
        named: dict[str, Any] = {"job": job, "attempt": attempt}
        events += [
            wire_event("attempt_started", start, **named),
            wire_event("attempt_ended", end, outcome=outcome, **named),
        ]
    return [*events, wire_event("job_ended", lives[-1][1], job=job, outcome="completed")]


def _preemption(service: Service, **scope: Any) -> Preemption:
    with service.store.reading() as conn:
        return summary(conn, Scope(**scope), WINDOW, Economy()).total.preemption


#: Five minutes since the save and seven until it trains again, on four accelerators.
LOSS = Loss(1, 4 * 5 * MINUTE, 4 * 7 * MINUTE, 0)


@pytest.fixture
def fleet(service: Service) -> Service:
    service.clock.now_us += HOUR
    return service


#: Lives of a job in whose favour another is preempted at 20, and of which order that makes it.
FAVOURED: dict[str, tuple[list[tuple[float, float, str]], PreemptionOrder]] = {
    "its first attempt": ([(19, 50, "completed")], PreemptionOrder.FIRST),
    "after one that completed": (
        [(2, 18, "completed"), (19, 50, "completed")],
        PreemptionOrder.FIRST,
    ),
    "after one that failed": ([(2, 18, "failed"), (19, 50, "completed")], PreemptionOrder.SECOND),
    "waits after one that failed": (
        [(2, 18, "failed"), (22, 50, "completed")],
        PreemptionOrder.SECOND,
    ),
    "before it failed": ([(2, 21, "failed"), (22, 50, "completed")], PreemptionOrder.FIRST),
    "after one that was cancelled": (
        [(2, 18, "cancelled"), (20, 50, "completed")],
        PreemptionOrder.FIRST,
    ),
    "not begun by then": ([(21, 50, "completed")], PreemptionOrder.UNKNOWN),
}


def test_a_preemption_has_the_order_that_the_favoured_job_gives_it(fleet: Service) -> None:
    for team, (lives, _) in FAVOURED.items():
        fleet.ingest(_preempted(f"{team}: made room", team, team=team))
        fleet.ingest(_favoured(team, *lives))
    with fleet.store.reading() as conn:
        groups = summary(conn, Scope(group_by=("team",)), WINDOW, Economy()).groups
    by_team = {group.labels["team"]: group.preemption for group in groups if group.labels["team"]}
    assert by_team == {team: Preemption({order: LOSS}) for team, (_, order) in FAVOURED.items()}


def test_who_names_nobody_or_nobody_known_is_counted_as_unknown(fleet: Service) -> None:
    fleet.ingest(_preempted("one", None))
    fleet.ingest(_preempted("two", "somebody"))
    assert _preemption(fleet) == Preemption({PreemptionOrder.UNKNOWN: LOSS.plus(LOSS)})


def test_a_job_of_another_project_favours_nobody_here(fleet: Service) -> None:
    fleet.ingest(_preempted("one", "only elsewhere"))
    fleet.ingest(_preempted("two", "here too"))
    fleet.ingest(_favoured("here too", (2, 18, "completed"), (19, 50, "completed")))
    other = fleet.key({"write"}, project="elsewhere")
    fleet.client.headers["Authorization"] = f"Bearer {other}"
    for job in ("only elsewhere", "here too"):
        fleet.ingest(_favoured(job, (2, 18, "failed"), (19, 50, "completed")))
    assert _preemption(fleet) == Preemption(
        {PreemptionOrder.UNKNOWN: LOSS, PreemptionOrder.FIRST: LOSS}
    )


def test_what_was_lost_on_unknown_accelerators_is_counted_apart(fleet: Service) -> None:
    fleet.ingest(_preempted("made-room", None, gpus=None))
    assert _preemption(fleet) == Preemption({PreemptionOrder.UNKNOWN: Loss(1, 0, 0, 1)})


def test_losses_are_reported_by_group_and_by_condition(fleet: Service) -> None:
    fleet.ingest(_preempted("made-room", None))
    fits = {
        "team": "a",
        "precision": "bf16",
        "size": "4-7",
        "code_version": "",
        "project": "research",
    }
    for name, value in fits.items():
        assert _preemption(fleet, where={name: frozenset({value})}) == Preemption(
            {PreemptionOrder.UNKNOWN: LOSS}
        )
        assert _preemption(fleet, where={name: frozenset({"x"})}) == Preemption({})
    with fleet.store.reading() as conn:
        (group,) = summary(conn, Scope(group_by=tuple(fits)), WINDOW, Economy()).groups
    assert group.labels == fits
    assert group.preemption == Preemption({PreemptionOrder.UNKNOWN: LOSS})


def test_an_excluded_preemption_costs_nothing_unless_it_is_asked_for(fleet: Service) -> None:
    fleet.ingest(_preempted("made-room", None))
    sent = {"from": "2026-03-01T12:20:00Z", "to": "2026-03-01T12:21:00Z", "why": "a drill"}
    answer = fleet.client.put("/v1/jobs/made-room/exclusion", json=sent)
    assert answer.status_code == 200
    fleet.settle()
    assert _preemption(fleet) == Preemption({})
    assert _preemption(fleet, exclusions="included") == Preemption({PreemptionOrder.UNKNOWN: LOSS})


def test_what_the_cap_took_counts_in_the_other_cohorts_of_its_project(fleet: Service) -> None:
    fleet.ingest(_preempted("made-room", None))
    other = (None, ("", "research", "1"))
    with fleet.store.reading() as conn:
        by_group = preemptions(conn, Scope(group_by=("team", "project")), WINDOW, {other})
    assert by_group == {other: Preemption({PreemptionOrder.UNKNOWN: LOSS})}


@ON_ONE_ENGINE
def test_the_answer_has_the_ratio_and_the_losses(fleet: Service) -> None:
    fleet.ingest(_preempted("made-room", "favoured"))
    fleet.ingest(_favoured("favoured", (2, 18, "failed"), (19, 50, "completed")))
    query: dict[str, Any] = {"from": "2026-03-01T12:00:00Z", "to": "2026-03-01T14:00:00Z"}
    told_loss = {
        "count": 1,
        "lost_weighted_seconds": 4 * 12 * 60.0,
        "unsaved_weighted_seconds": 4 * 5 * 60.0,
        "recovery_weighted_seconds": 4 * 7 * 60.0,
        "without_accelerators": 0,
    }
    preemption = fleet.get("/v1/fleet/summary", **query)["total"]["preemption"]
    assert (preemption["preempted"], preemption["attempts"], preemption["ratio"]) == (1, 4, 0.25)
    assert preemption["second_order"] == told_loss
    assert preemption["first_order"]["count"] == preemption["unknown"]["count"] == 0
    (point,) = fleet.get("/v1/fleet/series", step="1w", **query)["points"]
    assert point["preemption"] == preemption


@ON_ONE_ENGINE
@pytest.mark.parametrize("outcome", ["preempted", "failed"])
def test_attempts_are_read_only_where_one_was_preempted(fleet: Service, outcome: str) -> None:
    fleet.ingest(
        [
            event | ({"outcome": outcome} if event.get("outcome") == "preempted" else {})
            for event in _preempted("made-room", None)
        ]
    )
    statements: list[str] = []

    def keep(_: Connection, __: DBAPICursor, text: str, *___: Any) -> None:
        statements.append(text)

    with fleet.store.reading() as conn:
        listen(conn, "before_cursor_execute", keep)
        summary(conn, Scope(), WINDOW, Economy())

    assert any("attempt_ledger" in text for text in statements) == (outcome == "preempted")


@ON_ONE_ENGINE
def test_a_job_that_made_room_thousands_of_times_is_reported_by_an_index(service: Service) -> None:
    plans: list[str] = []

    def explain(_: Connection, cursor: DBAPICursor, text: str, parameters: Any, *__: Any) -> None:
        cursor.execute(f"EXPLAIN QUERY PLAN {text}", parameters)
        plans.extend(row[-1] for row in cursor.fetchall())

    with service.store.reading() as conn:
        listen(conn, "before_cursor_execute", explain)
        preemptions(conn, Scope(), WINDOW, ())

    assert plans
    assert not [step for step in plans if step == "USE TEMP B-TREE FOR ORDER BY"]
