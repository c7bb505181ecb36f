"""From the findings of runs to a state, on examples and on drawn histories."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.regressions.finding import (
    Finding,
    FindingKey,
    Gate,
    State,
    Verdict,
)
from ett_service.core.regressions.state import (
    FindingState,
    StateRules,
    Transition,
    advance,
    resolved,
    step,
    transition,
)
from tests.builders.clock import NOON
from tests.builders.regressions.stored import finding

RULES = StateRules()
REGRESSION = finding()
QUIET = replace(REGRESSION, holds=False)
INCIDENT = finding(verdict=Verdict.INCIDENT)
OPEN = (State.PENDING, State.FIRING)
KEY = FindingKey.of(REGRESSION)


def day(number: int) -> int:
    """Return the instant of the run of that day."""
    return NOON + number * DAY_US


def history(
    findings: Iterable[Finding | None], rules: StateRules = RULES, state: FindingState | None = None
) -> list[FindingState | None]:
    """Return the state after each of daily runs."""
    states = []
    for number, result in enumerate(findings):
        state = step(state, result, day(number), rules)
        states.append(state)
    return states


def transitions(states: Sequence[FindingState | None]) -> list[Transition | None]:
    """Return the transition of each run."""
    return [
        transition(before, after) for before, after in zip([None, *states], states, strict=False)
    ]


def last(states: Sequence[FindingState | None]) -> FindingState:
    """Return the last state."""
    assert states[-1] is not None
    return states[-1]


Run = tuple[Finding | None, int]  #: what it found, and the days since the one before
FIRING = last(history([REGRESSION, REGRESSION]))
RESOLVED = last(history([REGRESSION, REGRESSION, QUIET, QUIET]))


def test_what_is_pending_keeps_its_place_over_a_run_that_did_not_find_it() -> None:
    states = history([REGRESSION, None, REGRESSION, None])

    assert transitions(states) == [Transition.PENDING, None, Transition.FIRING, None]
    assert (last(states).pending_us, last(states).firing_us) == (day(0), day(2))


def test_what_is_pending_lapses_after_two_runs_in_a_row_that_did_not_find_it() -> None:
    states = history([REGRESSION, None, None, REGRESSION, REGRESSION])

    assert transitions(states)[1:4] == [None, Transition.LAPSED, Transition.PENDING]
    assert (last(states).pending_us, last(states).firing_us) == (day(3), day(4))


def test_what_is_pending_keeps_its_place_while_its_change_stands() -> None:
    states, walk = dict[FindingKey, FindingState](), []
    for number in range(6):
        found = [REGRESSION] if number in {0, 5} else []
        before = states
        states = advance(before, found, day(number), RULES, standing=[REGRESSION.series])
        walk.append(transition(before.get(KEY), states.get(KEY)))

    assert walk == [Transition.PENDING, None, None, None, None, Transition.FIRING]
    assert (states[KEY].pending_us, states[KEY].firing_us) == (day(0), day(5))


@pytest.mark.parametrize("verdict", [Verdict.INCIDENT, Verdict.MIX])
def test_what_does_not_last_lapses_however_the_series_stands(verdict: Verdict) -> None:
    seen = finding(verdict=verdict)
    states = advance({}, [seen], day(0), RULES)
    for number in (1, 2):
        states = advance(states, [], day(number), RULES, standing=[seen.series])
    assert states == {}


def test_it_fires_with_the_first_where_one_run_is_enough() -> None:
    states = history([REGRESSION], StateRules(runs=1))

    assert transitions(states) == [Transition.FIRING]
    assert last(states).firing_us == day(0)


def test_it_is_resolved_once_two_runs_in_a_row_say_that_it_holds_no_more() -> None:
    states = history([REGRESSION, REGRESSION, QUIET, REGRESSION, QUIET, QUIET])

    assert transitions(states)[2:] == [None, None, None, Transition.RESOLVED]
    assert (last(states).firing_us, last(states).resolved_us) == (day(1), day(5))


@pytest.mark.parametrize("verdict", [Verdict.REGRESSION, Verdict.IMPROVEMENT, Verdict.SMALL])
def test_for_want_of_values_nothing_is_resolved(verdict: Verdict) -> None:
    seen = finding(verdict=verdict)
    states = history([seen, seen, *[None] * 30])

    assert states[2:] == [states[1]] * 30
    assert last(states).last_run_us == day(1)


def test_runs_that_saw_too_little_count_for_neither() -> None:
    states = history([REGRESSION, REGRESSION, QUIET, None, QUIET])
    assert last(states).state is State.RESOLVED


@pytest.mark.parametrize("verdict", [Verdict.RELABELLING, Verdict.MIX])
def test_what_only_moved_is_over_once_it_is_not_found(verdict: Verdict) -> None:
    seen = finding(verdict=verdict)
    states = history([seen, seen, None, None])

    assert last(states).state is State.RESOLVED
    assert not last(states).alerts


@pytest.mark.parametrize("verdict", [Verdict.RELABELLING, Verdict.MIX])
def test_a_regression_that_turns_out_to_have_only_moved_is_resolved(verdict: Verdict) -> None:
    moved = finding(verdict=verdict)
    states: dict[FindingKey, FindingState] = {}
    for number, seen in enumerate([REGRESSION, REGRESSION, moved, moved]):
        states = advance(states, [seen], day(number), RULES)

    assert {thread.verdict: state.state for thread, state in states.items()} == {
        Verdict.REGRESSION: State.RESOLVED,
        verdict: State.FIRING,
    }


def test_one_bad_day_does_not_end_what_outlived_others() -> None:
    states = history([REGRESSION, REGRESSION, INCIDENT, INCIDENT])

    assert last(states).state is State.FIRING
    assert last(states).finding is REGRESSION


def test_an_incident_is_over_by_itself_and_its_day_makes_no_other() -> None:
    states = history([INCIDENT] * 14)

    assert transitions(states)[:6] == [
        Transition.PENDING,
        Transition.FIRING,
        None,
        None,
        Transition.RESOLVED,
        None,
    ]
    assert set(transitions(states)[5:]) == {None}


def test_the_next_bad_day_is_another_incident() -> None:
    states = history([INCIDENT] * 5)
    after = step(last(states), replace(INCIDENT, onset_us=day(30)), day(31), RULES)

    assert transition(last(states), after) is Transition.PENDING
    assert after is not None
    assert after.pending_us == day(31)


@pytest.mark.parametrize(("days", "is_the_same"), [(1, True), (3, True), (4, False), (40, False)])
def test_what_is_found_again_within_three_days_is_the_same_one(
    days: int, is_the_same: bool
) -> None:
    assert RESOLVED.resolved_us == day(3)
    again = replace(REGRESSION, onset_us=day(3))
    first = step(RESOLVED, again, day(3 + days), RULES)
    second = step(first, again, day(4 + days), RULES)

    assert second is not None
    assert second.firing_us == day(4 + days)
    assert (second.pending_us == RESOLVED.pending_us) is is_the_same
    assert (second.reopened, second.version) == ((1, 3) if is_the_same else (0, 1))
    assert (second.resolved_us, second.onset_us) == (None, day(3))
    expected = Transition.REOPENED if is_the_same else Transition.FIRING
    assert transition(first, second) is expected


def test_found_again_once_only_it_stays_resolved() -> None:
    states = history([REGRESSION, REGRESSION, QUIET, QUIET, REGRESSION, None, REGRESSION])
    assert transitions(states)[4:] == [None, None, None]


def test_a_run_that_was_at_work_when_somebody_accepted_it_does_not_reopen_it() -> None:
    accepted = resolved(FIRING, day(2) + HOUR_US)
    assert step(accepted, REGRESSION, day(2), StateRules(runs=1)) is accepted


def test_the_baseline_is_frozen_while_it_fires() -> None:
    later = replace(
        REGRESSION,
        onset_us=NOON,
        ratio=2.0,
        before=replace(REGRESSION.before, from_us=NOON - DAY_US, to_us=NOON),
    )
    pending = last(history([later]))
    assert (pending.onset_us, pending.baseline_from_us) == (NOON, NOON - DAY_US)

    after = step(FIRING, later, day(9), RULES)
    assert after is not None
    assert after.finding.ratio == 2.0
    assert (after.onset_us, after.baseline_from_us, after.baseline_to_us) == (
        REGRESSION.onset_us,
        REGRESSION.before.from_us,
        REGRESSION.before.to_us,
    )


def test_the_conditions_that_it_was_found_by_stay_beside_those_of_later_runs() -> None:
    effect, *others = REGRESSION.gates
    larger = replace(effect, value=2.0)
    latest = Gate("latest_effect", 2.0, 1.075, passed=True)
    states = history([REGRESSION, REGRESSION, replace(REGRESSION, gates=(latest, larger))])

    assert last(states).finding.gates == (latest, larger, *others)


def test_what_is_kept_of_a_resolved_one_is_what_held_last() -> None:
    states = history([REGRESSION, REGRESSION, replace(QUIET, ratio=1.01), QUIET])
    assert last(states).finding is REGRESSION


def test_an_open_one_that_nobody_knows_and_that_holds_no_more_is_none() -> None:
    assert step(None, QUIET, NOON, RULES) is None


def test_worse_and_better_stand_beside_each_other() -> None:
    better = finding(verdict=Verdict.IMPROVEMENT)
    states = advance({}, [REGRESSION, better], NOON, RULES)
    assert len(states) == len({thread.fingerprint for thread in states}) == 2


seen = st.sampled_from([REGRESSION, QUIET, INCIDENT, finding(verdict=Verdict.MIX), None])
runs = st.lists(st.tuples(seen, st.integers(1, 5)), max_size=40)
rules = st.builds(StateRules, runs=st.integers(1, 4), quiet_runs=st.integers(1, 3))


def walked(results: Sequence[Run], by: StateRules) -> list[dict[FindingKey, FindingState]]:
    """Return the states before the first run and after each; the number is days between."""
    states: dict[FindingKey, FindingState] = {}
    walk = [states]
    number = 0
    for result, days in results:
        number += days
        states = advance(states, [] if result is None else [result], day(number), by)
        walk.append(states)
    return walk


@given(runs, rules)
def test_a_repeated_run_changes_nothing(results: list[Run], by: StateRules) -> None:
    states: dict[FindingKey, FindingState] = {}
    number = 0
    for result, days in results:
        number += days
        findings = [] if result is None else [result]
        states = advance(states, findings, day(number), by)
        assert advance(states, findings, day(number), by) == states
        assert advance(states, [], day(number) - 1, by) == states


def _runs_with_finding(results: Iterable[Run], verdict: Verdict, by: StateRules) -> int:
    """Count the latest runs that found it, back to so many that did not that it lapsed."""
    marks = "".join(
        "01"[bool(each and each.holds and each.verdict is verdict)] for each, _ in results
    )
    return marks.split("0" * by.quiet_runs)[-1].count("1")


@given(runs, rules)
def test_what_fires_was_found_often_enough_and_what_is_resolved_fired(
    results: list[Run], by: StateRules
) -> None:
    walk = walked(results, by)
    for at, (before, after) in enumerate(pairwise(walk), start=1):
        for thread in {**before, **after}:
            what = transition(before.get(thread), after.get(thread))
            if what in {Transition.FIRING, Transition.REOPENED}:
                assert _runs_with_finding(results[:at], thread.verdict, by) >= by.runs
            if what is Transition.RESOLVED:
                assert before[thread].state is State.FIRING


@given(runs, rules)
def test_versions_are_odd_while_it_fires_and_grow_with_each_notified_step(
    results: list[Run], by: StateRules
) -> None:
    walk = walked(results, by)
    for before, after in pairwise(walk):
        for thread, now in after.items():
            was = before.get(thread)
            what = transition(was, now)
            is_same = was is not None and was.pending_us == now.pending_us
            base = was.version if was is not None and is_same else 0
            assert now.version - base == (what is not None and what.notifies)
            assert (now.version % 2 == 1) is (now.state is State.FIRING)


@given(runs, rules)
def test_instants_come_in_their_order(results: list[Run], by: StateRules) -> None:
    for states in walked(results, by):
        for state in states.values():
            firing_us = state.pending_us if state.firing_us is None else state.firing_us
            resolved_us = state.last_run_us if state.resolved_us is None else state.resolved_us
            assert state.pending_us <= firing_us <= resolved_us <= state.last_run_us
            assert (state.state is State.RESOLVED) is (state.resolved_us is not None)
            assert (state.state is State.PENDING) is (state.firing_us is None)
