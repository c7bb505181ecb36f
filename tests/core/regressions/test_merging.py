"""What is merged with what over several runs, and what is gone."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import (
    Finding,
    FindingKey,
    Metric,
    Resolution,
    State,
    Subject,
    Verdict,
)
from ett_service.core.regressions.state import FindingState, Transition, advance, transition
from tests.builders.regressions.stored import finding
from tests.core.regressions.test_state import (
    FIRING,
    INCIDENT,
    REGRESSION,
    RULES,
    day,
    history,
    last,
)

INDUCTOR = finding(Subject(Metric.STAGE_SECONDS, "pt2_compile", "inductor"))
WAIT = finding(Subject(Metric.STAGE_SECONDS, "pt2_compile", "async_compile_wait"))


def after_days(*days: Sequence[Finding]) -> list[dict[FindingKey, FindingState]]:
    """Return the states before the first run and after the run of each day."""
    walk: list[dict[FindingKey, FindingState]] = [{}]
    for number, findings in enumerate(days):
        walk.append(advance(walk[-1], findings, day(number), RULES))
    return walk


def test_a_phase_absorbs_its_stages_once_it_fires() -> None:
    stages = [INDUCTOR, replace(WAIT, onset_us=WAIT.onset_us - 6 * DAY_US)]
    phase = replace(REGRESSION, onset_us=REGRESSION.onset_us - 3 * DAY_US)
    walk = after_days(stages, stages, [*stages, phase], [*stages, phase])

    by_key = {FindingKey.of(each): each for each in (*stages, phase)}
    assert {walk[3][key].state for key in by_key if key != FindingKey.of(phase)} == {State.FIRING}
    absorbed = [walk[4][FindingKey.of(stage)] for stage in stages]
    assert {state.ended for state in absorbed} == {Resolution.MERGED}
    assert {state.merged_into for state in absorbed} == {FindingKey.of(phase)}
    assert walk[4][FindingKey.of(phase)].state is State.FIRING
    assert transition(walk[3][FindingKey.of(INDUCTOR)], absorbed[0]) is Transition.MERGED


def test_a_stage_does_not_begin_beside_its_phase_or_another_stage() -> None:
    for first in (REGRESSION, INDUCTOR):
        walk = after_days([first], [first], [first, WAIT], [first, WAIT], [first, WAIT])
        assert list(walk[-1]) == [FindingKey.of(first)]


def test_of_stages_that_begin_together_one_fires() -> None:
    walk = after_days([INDUCTOR, WAIT], [INDUCTOR, WAIT])
    assert len(walk[-1]) == 1


def test_an_incident_becomes_part_of_the_regression_of_its_series() -> None:
    walk = after_days([INCIDENT], [INCIDENT], [REGRESSION], [REGRESSION])
    states = {key.verdict: state for key, state in walk[-1].items()}

    assert states[Verdict.REGRESSION].state is State.FIRING
    assert states[Verdict.INCIDENT].state is State.RESOLVED
    assert [state.state for state in walk[-1].values()].count(State.FIRING) == 1


def test_an_incident_that_was_over_shortly_before_is_part_of_the_regression() -> None:
    over = [[INCIDENT]] * 5
    onset_us = day(3)
    late = replace(REGRESSION, onset_us=onset_us)
    walk = after_days(*over, [late], [late])
    key = FindingKey.of(INCIDENT)
    assert walk[5][key].ended is walk[6][key].ended is Resolution.BETTER
    after = walk[7][key]
    assert (after.ended, after.merged_into) == (Resolution.MERGED, FindingKey.of(late))
    assert (after.state, after.version) == (State.RESOLVED, walk[6][key].version)
    assert transition(walk[6][key], after) is Transition.ABSORBED
    assert advance(walk[7], [late], day(6), RULES) == walk[7]


@pytest.mark.parametrize(("quiet_days", "onset_day"), [(4, 3), (0, 5)])
def test_an_incident_long_before_or_of_days_before_the_onset_stays_one(
    quiet_days: int, onset_day: int
) -> None:
    late = replace(REGRESSION, onset_us=day(onset_day))
    walk = after_days(*[[INCIDENT]] * 5, *[[]] * quiet_days, [late], [late])
    assert walk[-1][FindingKey.of(late)].state is State.FIRING
    assert walk[-1][FindingKey.of(INCIDENT)].ended is Resolution.BETTER


def test_no_incident_begins_beside_the_regression_of_its_series() -> None:
    walk = after_days([REGRESSION], [REGRESSION], [INCIDENT], [INCIDENT])
    assert {key.verdict for key in walk[-1]} == {Verdict.REGRESSION}


def test_a_small_one_that_grows_is_one_finding() -> None:
    small = finding(verdict=Verdict.SMALL)
    walk = after_days([small], [small], [REGRESSION], [REGRESSION])
    grown, standing = (walk[-1][FindingKey.of(each)] for each in (REGRESSION, small))
    assert grown.state is State.FIRING
    assert (standing.ended, standing.merged_into) == (Resolution.MERGED, grown.key)


def test_a_small_one_of_a_cohort_that_runs_no_more_is_gone() -> None:
    small = finding(verdict=Verdict.SMALL)
    before = after_days([small], [small])[-1]
    after = advance(before, [], day(20), RULES, [small.series])[FindingKey.of(small)]
    assert (after.state, after.ended) == (State.RESOLVED, Resolution.GONE)


def test_what_fires_keeps_the_numbers_of_that_day() -> None:
    today = replace(REGRESSION, ratio=1.2)
    states = history([REGRESSION, REGRESSION, today])
    assert last(states).finding.ratio == today.ratio
    fired = last(states).fired
    assert fired is not None
    assert fired.ratio == REGRESSION.ratio


def test_a_cohort_that_runs_no_more_resolves_its_finding_as_gone() -> None:
    before = {FIRING.key: FIRING}
    after = advance(before, [], day(20), RULES, [REGRESSION.series])[FIRING.key]
    assert (after.state, after.ended, after.resolved_us) == (
        State.RESOLVED,
        Resolution.GONE,
        day(20),
    )
    assert transition(FIRING, after) is Transition.GONE
    assert after.version == FIRING.version + 1


def test_a_cohort_that_still_runs_is_not_gone() -> None:
    before = {FIRING.key: FIRING}
    assert advance(before, [], day(20), RULES) == before
    again = advance(before, [REGRESSION], day(20), RULES, [REGRESSION.series])
    assert again[FIRING.key].state is State.FIRING


def test_what_is_called_noise_explains_nothing_and_is_not_reported_again() -> None:
    phase = FindingKey.of(REGRESSION)
    quiet = {phase: replace(FIRING, is_noise=True)}
    seen = [REGRESSION, INDUCTOR]
    walk = [quiet]
    for number in (5, 6):
        walk.append(advance(walk[-1], seen, day(number), RULES))
    assert walk[-1][FindingKey.of(INDUCTOR)].state is State.FIRING
    assert walk[-1][phase].state is State.FIRING
    assert transition(walk[1][phase], walk[2][phase]) is None


def test_a_stage_does_not_stay_pending_beside_its_phase_that_fires() -> None:
    stage = FindingKey.of(INDUCTOR)
    pending = advance({FIRING.key: replace(FIRING, is_noise=True)}, [INDUCTOR], day(5), RULES)
    assert pending[stage].state is State.PENDING
    states = {**pending, FIRING.key: FIRING}
    for number in (6, 7):
        seen = [REGRESSION]
        states = advance(states, seen, day(number), RULES, standing=[INDUCTOR.series])
    assert list(states) == [FIRING.key]
