"""How regressions are stored and listed, and what people decide about them."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.regressions.finding import (
    Finding,
    Metric,
    RunFinding,
    Severity,
    State,
    Subject,
    Triage,
    Verdict,
)
from ett_service.core.regressions.state import StateRules
from ett_service.storage.engine.store import Store
from ett_service.storage.record.keys import create_project
from ett_service.storage.regressions import findings, regressions
from ett_service.storage.regressions.findings import Act, Change, Regression
from ett_service.storage.regressions.regressions import NotFiring, RegressionFilter
from tests.builders.clock import NOON
from tests.builders.regressions.stored import ATTRIBUTION, COHORT, ONSET, finding

RULES = StateRules()
COMPILE = finding()
QUIET = replace(COMPILE, holds=False)
TRAINING = finding(Subject(Metric.STEP_SECONDS), ())
BETTER = finding(verdict=Verdict.IMPROVEMENT)
ACT = Act("ana", "seen", NOON + 10 * DAY_US)

_COUNTS: tuple[tuple[int, dict[str, Any]], ...] = (
    (3, {}),
    (1, {"states": ["pending"]}),
    (3, {"states": ["pending", "firing"]}),
    (1, {"verdicts": ["improvement"]}),
    (1, {"equal": {"metric": "step_seconds"}}),
    (2, {"equal": {"phase": "pt2_compile"}}),
    (2, {"where": {"cluster": ["a", "b"]}}),
    (2, {"where": {"cluster": ["a"], "model": ["llm-70b"]}}),
    (0, {"where": {"cluster": ["b"]}}),
    (0, {"where": {"team": ["a"]}}),
    (3, {"to_us": ONSET + 1}),
    (0, {"to_us": ONSET}),
    (3, {"from_us": NOON + 30 * DAY_US}),
)


def run(store: Store, project_id: int, number: int, *run_findings: Finding) -> None:
    """Record what the run of that day found."""
    stood = [RunFinding(each, Severity.HIGH, ATTRIBUTION) for each in run_findings]
    at_us = NOON + number * DAY_US
    store.write(
        partial(findings.record, project_id=project_id, at_us=at_us, findings=stood, rules=RULES)
    )


def listed(store: Store, project_ids: Iterable[int] | None, **conditions: Any) -> list[Regression]:
    """Return the regressions that are so."""
    ids = None if project_ids is None else list(project_ids)
    chosen = RegressionFilter(**{"states": list(map(str, State)), **conditions})
    with store.reading() as conn:
        rows = regressions.page(conn, ids, chosen, sort="pending_at", descending=True, limit=100)
    return [regression for regression, _ in rows]


def only(store: Store, project_id: int) -> Regression:
    """Return the only one there is."""
    (listing,) = listed(store, [project_id])
    return listing


def happened(store: Store, regression: Regression) -> list[Change]:
    """Return what happened to one."""
    with store.reading() as conn:
        return regressions.changes(conn, regression.project_id, regression.id)


@pytest.fixture
def act(store: Store, project_id: int) -> Callable[..., Regression | None]:
    """Return what lets somebody act on the only one there is."""

    def acted(what: Callable[..., Regression | None], *more: Any) -> Regression | None:
        regression = only(store, project_id)
        return store.write(lambda conn: what(conn, project_id, regression.id, *more))

    return acted


def test_a_finding_is_read_as_it_was_found(store: Store, project_id: int) -> None:
    run(store, project_id, 0, COMPILE)
    run(store, project_id, 1, COMPILE)

    regression = only(store, project_id)
    standing = regression.standing
    assert (regression.project, regression.severity, regression.attribution) == (
        "research",
        Severity.HIGH,
        ATTRIBUTION,
    )
    assert (standing.state, standing.finding, standing.version) == (State.FIRING, COMPILE, 1)
    assert (standing.pending_us, standing.firing_us) == (NOON, NOON + DAY_US)
    assert regression.notified_version == 0


def test_numbers_that_json_has_no_word_for_are_kept(store: Store, project_id: int) -> None:
    endless = replace(COMPILE, ratio=float("inf"), high=float("inf"))
    run(store, project_id, 0, endless)
    assert only(store, project_id).standing.finding == endless


def test_ids_sort_by_time_and_go_into_addresses(store: Store, project_id: int) -> None:
    for number in range(3):
        run(store, project_id, 2 * number, replace(COMPILE, onset_us=NOON))
        run(store, project_id, 2 * number + 1)

    ids = [regression.id for regression in listed(store, [project_id])]
    assert ids == sorted(ids, reverse=True)
    assert {len(each) for each in ids} == {26}
    assert all(each.isalnum() and each.isascii() for each in ids)


def test_two_projects_with_one_finding_have_an_id_each(store: Store, project_id: int) -> None:
    other = store.write(lambda conn: create_project(conn, "other", NOON))
    for each in (project_id, other):
        run(store, each, 0, COMPILE)

    listing = listed(store, None)
    assert len({regression.id for regression in listing}) == len(listing) == 2
    assert [regression.project_id for regression in listed(store, [other])] == [other]


def test_one_that_lapses_is_kept_as_inactive_and_the_next_is_another(
    store: Store, project_id: int
) -> None:
    run(store, project_id, 0, COMPILE)
    run(store, project_id, 1)
    run(store, project_id, 2)
    run(store, project_id, 3, COMPILE)

    assert [regression.standing.state for regression in listed(store, [project_id])] == [
        State.PENDING,
        State.INACTIVE,
    ]


def test_all_that_happens_is_reported_in_its_order(store: Store, project_id: int) -> None:
    for number, result in enumerate([COMPILE, COMPILE, COMPILE, QUIET, QUIET, COMPILE, COMPILE]):
        run(store, project_id, number, result)

    changes = happened(store, only(store, project_id))
    assert [(change.seq, change.what, change.version) for change in changes] == [
        (1, "pending", 0),
        (2, "firing", 1),
        (3, "resolved", 2),
        (4, "reopened", 3),
    ]
    assert {change.by for change in changes} == {"detector"}


def test_a_run_recorded_twice_changes_nothing(store: Store, project_id: int) -> None:
    run(store, project_id, 0, COMPILE)
    run(store, project_id, 1, COMPILE)
    once = only(store, project_id)
    run(store, project_id, 1, COMPILE)

    assert only(store, project_id) == once
    assert len(happened(store, once)) == 2


def test_worse_and_better_are_kept_beside_each_other(store: Store, project_id: int) -> None:
    run(store, project_id, 0, COMPILE, BETTER)
    listing = listed(store, [project_id])
    assert {regression.standing.verdict for regression in listing} == {
        Verdict.REGRESSION,
        Verdict.IMPROVEMENT,
    }


def test_regressions_are_found_by_what_they_are(store: Store, project_id: int) -> None:
    run(store, project_id, 0, COMPILE, BETTER)
    run(store, project_id, 1, COMPILE, BETTER, TRAINING)

    for count, conditions in _COUNTS:
        assert len(listed(store, [project_id], **conditions)) == count, conditions


def test_what_was_over_before_is_not_found(store: Store, project_id: int) -> None:
    for number, result in enumerate([COMPILE, COMPILE, QUIET, QUIET]):
        run(store, project_id, number, result)
    resolved_us = NOON + 3 * DAY_US

    assert len(listed(store, [project_id], from_us=resolved_us)) == 1
    assert listed(store, [project_id], from_us=resolved_us + 1) == []


def test_who_acknowledges_first_is_named(
    store: Store, project_id: int, act: Callable[..., Regression | None]
) -> None:
    run(store, project_id, 0, COMPILE)
    with pytest.raises(NotFiring):
        act(regressions.acknowledge, ACT)
    run(store, project_id, 1, COMPILE)
    act(regressions.acknowledge, ACT)
    act(regressions.acknowledge, replace(ACT, by="bo"))

    regression = only(store, project_id)
    assert (regression.acknowledged_by, regression.acknowledged_us) == ("ana", ACT.at_us)
    change = happened(store, regression)[-1]
    assert (change.what, change.by, change.why, change.at_us) == (
        "acknowledged",
        "ana",
        "seen",
        ACT.at_us,
    )
    assert len(happened(store, regression)) == 3


def test_what_comes_back_has_to_be_acknowledged_again(
    store: Store, project_id: int, act: Callable[..., Regression | None]
) -> None:
    for number, result in enumerate([COMPILE, COMPILE, QUIET, QUIET, COMPILE, COMPILE]):
        run(store, project_id, number, result)
        if number == 1:
            act(regressions.acknowledge, ACT)

    regression = only(store, project_id)
    assert (regression.standing.reopened, regression.acknowledged_us) == (1, None)


def test_the_last_word_on_what_it_is_counts_and_all_are_kept(
    store: Store, project_id: int, act: Callable[..., Regression | None]
) -> None:
    run(store, project_id, 0, COMPILE)
    act(regressions.triage, Triage.REAL, ACT)
    act(regressions.triage, Triage.NOISE, replace(ACT, by="bo"))

    regression = only(store, project_id)
    assert (regression.triage, regression.triage_by) == (Triage.NOISE, "bo")
    assert [each.what for each in happened(store, regression)[1:]] == [
        "triaged_real",
        "triaged_noise",
    ]


def test_what_is_accepted_is_resolved_and_its_baseline_begins_where_it_did(
    store: Store, project_id: int, act: Callable[..., Regression | None]
) -> None:
    run(store, project_id, 0, COMPILE)
    run(store, project_id, 1, COMPILE)
    act(regressions.accept, ACT)
    run(store, project_id, 2, COMPILE)

    regression = only(store, project_id)
    assert (regression.standing.state, regression.standing.version) == (State.RESOLVED, 2)
    assert regression.standing.resolved_us == ACT.at_us
    assert happened(store, regression)[-1].what == "accepted"
    with store.reading() as conn:
        assert findings.accepted(conn, project_id) == {COMPILE.series: ONSET}


def test_an_accepted_improvement_is_a_baseline_of_the_same_series(
    store: Store, project_id: int, act: Callable[..., Regression | None]
) -> None:
    run(store, project_id, 0, BETTER)
    accepted = act(regressions.accept, ACT)

    assert accepted is not None
    assert accepted.standing.state is State.INACTIVE
    with store.reading() as conn:
        assert findings.accepted(conn, project_id) == {BETTER.series: ONSET}


def test_what_is_accepted_again_begins_later(
    store: Store, project_id: int, act: Callable[..., Regression | None]
) -> None:
    run(store, project_id, 0, COMPILE)
    act(regressions.accept, ACT)
    later = replace(COMPILE, onset_us=NOON)
    run(store, project_id, 20, later)
    newest = listed(store, [project_id])[0]
    store.write(lambda conn: regressions.accept(conn, project_id, newest.id, ACT))

    with store.reading() as conn:
        assert findings.accepted(conn, project_id) == {COMPILE.series: NOON}


def test_of_an_unknown_id_nothing_is_done(store: Store, project_id: int) -> None:
    run(store, project_id, 0, COMPILE)
    other = store.write(lambda conn: create_project(conn, "other", NOON))
    of_another = only(store, project_id).id

    with store.reading() as conn:
        assert regressions.get(conn, other, of_another) is None
    of: dict[str, Any] = {"project_id": other, "regression_id": of_another, "act": ACT}
    assert store.write(partial(regressions.acknowledge, **of)) is None
    assert store.write(partial(regressions.triage, called=Triage.REAL, **of)) is None
    assert store.write(partial(regressions.accept, **of)) is None


def test_cohorts_keep_the_order_of_their_dimensions(store: Store, project_id: int) -> None:
    run(store, project_id, 0, COMPILE)
    assert only(store, project_id).series.cohort == COHORT


def test_what_was_known_is_reported_for_as_long_as_its_days_count(
    store: Store, project_id: int
) -> None:
    for number, result in enumerate([COMPILE, COMPILE, QUIET, QUIET]):
        run(store, project_id, number, result)
    resolved_us = NOON + 3 * DAY_US
    with store.reading() as conn:
        soon = findings.recent_states(conn, project_id, resolved_us + HOUR_US)
        late = findings.recent_states(conn, project_id, resolved_us + 91 * DAY_US)

    assert [each.state for each in soon.values()] == [State.RESOLVED]
    assert late == {}
