"""What a run has to know of those before it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.regressions.finding import (
    Finding,
    Metric,
    Resolution,
    State,
    Subject,
    Verdict,
)
from ett_service.core.regressions.state import LASTING, FindingState, StateRules, Transition, step
from ett_service.core.words import Category
from ett_service.detection.run import Backtest, Course, backtest, memory_of
from ett_service.detection.sample import Floats, FrozenBaseline, Memory, Options, Plan
from tests.builders.regressions.findings import AT_US, finding
from tests.detection.observations import COHORT, TO_US, observed_project

INIT = Subject(Metric.PHASE_SECONDS, "launcher_init")
PLAN = Plan(options=Options(impact_floor=0.0))
DAYS = 80


def _standing(finding: Finding, *, runs: int = 2) -> FindingState:
    standing: FindingState | None = None
    for run in range(runs):
        standing = step(standing, finding, AT_US + run * DAY_US, StateRules())
    assert standing is not None
    return standing


def test_what_fires_keeps_its_baseline() -> None:
    result = finding()
    for verdict in (Verdict.REGRESSION, Verdict.IMPROVEMENT, Verdict.SMALL):
        memory = memory_of([_standing(replace(result, verdict=verdict))])
        assert memory.followed == {result.series: _frozen(result, verdict)}
        assert memory.explaining == ({} if verdict is Verdict.SMALL else memory.followed)


def test_what_is_pending_is_followed_with_its_baseline() -> None:
    result = finding()
    for verdict in (Verdict.REGRESSION, Verdict.SMALL):
        memory = memory_of([_standing(replace(result, verdict=verdict), runs=1)])
        assert memory == Memory(pending={result.series: _frozen(result, verdict)})


def _frozen(result: Finding, verdict: Verdict) -> FrozenBaseline:
    return FrozenBaseline(result.before.from_us, result.before.to_us, result.onset_us, verdict)


def test_what_only_moved_keeps_nothing() -> None:
    for verdict in (Verdict.MIX, Verdict.RELABELLING):
        assert memory_of([_standing(finding(verdict))]) == Memory()


def test_bad_days_are_no_part_of_a_later_baseline() -> None:
    incident = finding(Verdict.INCIDENT)
    fired = _standing(finding(subject=incident.series.subject._replace(phase="shutdown")))
    cured = replace(fired, state=State.RESOLVED, resolved_us=AT_US + 9 * DAY_US)

    memory = memory_of([_standing(incident), cured])
    assert memory.open == {}
    assert memory.incidents == {
        incident.series: ((incident.after.from_us, incident.after.to_us),),
        cured.finding.series: ((cured.onset_us, AT_US + 9 * DAY_US),),
    }
    assert memory.outages == {
        incident.series.cohort: ((incident.after.from_us, incident.after.to_us),)
    }


def test_what_was_accepted_is_normal_and_no_bad_day() -> None:
    fired = _standing(finding())
    accepted = replace(fired, state=State.RESOLVED, resolved_us=AT_US + DAY_US)
    since = {accepted.finding.series: AT_US}

    assert memory_of([accepted], since) == Memory(accepted=since)


def test_noise_is_followed_and_explains_nothing_and_its_days_were_as_usual() -> None:
    fired = replace(_standing(finding()), is_noise=True)
    memory = memory_of([fired])
    assert memory.noise == {fired.finding.series}
    assert set(memory.open) == memory.noise
    assert memory.explaining == {}

    over = replace(fired, state=State.RESOLVED, resolved_us=AT_US + 9 * DAY_US)
    assert memory_of([over]) == Memory()


def _days(count: int) -> list[int]:
    return [TO_US - day * DAY_US for day in reversed(range(count))]


def _courses(slow: range, runs: int) -> list[Course]:
    """Replay so many runs over durations that are twice as long on some days of eighty."""
    observed = observed_project({INIT: lambda day: 2.0 if day in slow else 1.0}, days=DAYS)
    return _lasting(backtest(observed, _days(runs), PLAN, StateRules()))


def _lasting(backtest: Backtest) -> list[Course]:
    """Return what is more than a bad day, and was found more than once."""
    return [
        each for each in backtest.courses if each.standing.verdict in LASTING and not each.lapsed
    ]


def _at(course: Course, what: Transition) -> int | None:
    """Return the day of eighty after which a step was taken, if it was."""
    days = [DAYS - (TO_US - at) // DAY_US for at, step in course.steps if step is what]
    return days[0] if days else None


def test_a_lasting_change_is_pending_then_fires_and_goes_on() -> None:
    [course] = _courses(range(60, 80), 30)

    assert course.standing.verdict is Verdict.REGRESSION
    assert course.standing.state is State.FIRING
    assert course.latest.finding.series.cohort in {(), COHORT}
    assert 1.7 < course.latest.finding.ratio < 2.3
    pending, firing = _at(course, Transition.PENDING), _at(course, Transition.FIRING)
    assert pending is not None
    assert firing == pending + 1
    assert 60 < firing <= 66
    began = (course.standing.onset_us - TO_US) // DAY_US + DAYS
    assert abs(began - 60) <= 2


def test_what_goes_away_is_resolved_and_its_cure_is_no_improvement() -> None:
    [course] = _courses(range(50, 60), 32)

    assert course.standing.verdict is Verdict.REGRESSION
    assert course.standing.state is State.RESOLVED
    resolved = _at(course, Transition.RESOLVED)
    assert resolved is not None
    assert 61 < resolved <= 75
    assert course.fired is not None


def _costing(factor: Callable[[int], float]) -> list[Course]:
    """Replay 34 runs, where twice as long costs 1.4 % of the project and the floor is 2 %."""
    observed = observed_project({INIT: factor}, days=DAYS)
    held = np.full(DAYS, 6 * 2 * 8 * HOUR_US, dtype=np.float64)
    time: dict[str, Floats] = {category: np.zeros(DAYS) for category in Category}
    observed = replace(
        observed,
        time_day=np.arange(DAYS, dtype=np.int32),
        time_cohort=np.zeros(DAYS, dtype=np.int32),
        time=time | {Category.EFFECTIVE_TRAINING: held},
    )
    plan = Plan(options=Options(impact_floor=0.02))
    return _lasting(backtest(observed, _days(34), plan, StateRules()))


def test_a_small_change_stands_for_as_long_as_it_is_there() -> None:
    [course] = _costing(lambda day: 2.0 if day >= 46 else 1.0)
    assert course.standing.verdict is Verdict.SMALL
    assert course.standing.state is State.FIRING
    assert course.standing.last_run_us == TO_US

    [cured] = _costing(lambda day: 2.0 if 46 <= day < 66 else 1.0)
    assert cured.standing.verdict is Verdict.SMALL
    assert cured.standing.ended is Resolution.BETTER


def test_a_small_change_fires_as_a_regression_once_it_costs_more_than_the_floor() -> None:
    small, worse = _costing(lambda day: 1.0 if day < 46 else 2.0 if day < 64 else 3.0)
    assert small.standing.verdict is Verdict.SMALL
    assert worse.standing.verdict is Verdict.REGRESSION
    assert worse.standing.state is State.FIRING
    assert (small.standing.ended, small.standing.merged_into) == (
        Resolution.MERGED,
        worse.standing.key,
    )
    assert (worse.standing.onset_us, worse.standing.baseline_to_us) == (
        small.standing.onset_us,
        small.standing.baseline_to_us,
    )


def test_an_improvement_is_recorded_as_one() -> None:
    observed = observed_project({INIT: lambda day: 0.5 if day >= 62 else 1.0}, days=DAYS)
    [course] = _lasting(backtest(observed, _days(14), PLAN, StateRules()))

    assert course.standing.verdict is Verdict.IMPROVEMENT
    assert not course.standing.alerts


def test_nothing_is_found_where_nothing_changed() -> None:
    assert _courses(range(0), 12) == []


def test_a_single_run_finds_what_is_pending_then() -> None:
    [course] = _courses(range(70, 80), 1)

    assert course.standing.state is State.PENDING
    assert course.steps == [(TO_US, Transition.PENDING)]
    assert course.fired is None


@pytest.mark.parametrize("ago", [15, 16, 18, 22, 30])
def test_what_began_long_ago_opens_nothing(ago: int) -> None:
    assert _courses(range(80 - ago, 80), 1) == []


@pytest.mark.parametrize("ago", [5, 9, 13])
def test_what_began_within_the_recent_days_does(ago: int) -> None:
    assert len(_courses(range(80 - ago, 80), 1)) == 1


COMPILE = Subject(Metric.PHASE_SECONDS, "pt2_compile")
INDUCTOR = Subject(Metric.STAGE_SECONDS, "pt2_compile", "inductor")
WAIT = Subject(Metric.STAGE_SECONDS, "pt2_compile", "async_compile_wait")


def _courses_of(slower: dict[Subject, tuple[float, int]], runs: int = 20) -> list[Course]:
    """Replay so many runs; of eighty days subjects take so much longer from a day on."""
    factors = {
        subject: lambda day, factor=factor, since=since: factor if day >= since else 1.0
        for subject, (factor, since) in slower.items()
    }
    return _lasting(backtest(observed_project(factors, days=DAYS), _days(runs), PLAN, StateRules()))


def test_a_slower_stage_is_one_finding_with_its_phase() -> None:
    for compiles, is_phase in ((1.9, True), (1.3, True), (1.0, False)):
        both = {COMPILE: (compiles, 62), INDUCTOR: (2.5, 62), WAIT: (2.5, 62)}
        [course] = _courses_of(both)
        assert course.standing.state is State.FIRING
        assert (course.standing.finding.series.subject == COMPILE) is is_phase


def test_a_phase_that_shows_it_later_takes_its_stage_in() -> None:
    stage, phase = _courses_of({INDUCTOR: (2.5, 62), COMPILE: (1.5, 66)})
    assert stage.standing.finding.series.subject == INDUCTOR
    assert _at(stage, Transition.MERGED) == _at(phase, Transition.FIRING)
    assert stage.standing.ended is Resolution.MERGED
    assert phase.standing.state is State.FIRING


def test_what_nothing_runs_of_any_more_is_gone() -> None:
    observed = observed_project({INIT: lambda day: 2.0 if day >= 40 else 1.0}, days=60)
    idle = replace(observed, to_us=TO_US + 30 * DAY_US, days=90)
    runs_at = [TO_US + day * DAY_US for day in range(-12, 20)]
    [course] = _lasting(backtest(idle, runs_at, PLAN, StateRules()))
    gone = [at_us for at_us, step in course.steps if step is Transition.GONE]
    assert gone == [TO_US + PLAN.options.recent_days * DAY_US]
    assert course.standing.ended is Resolution.GONE
