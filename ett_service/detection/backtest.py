"""Backtest: what would have fired and resolved, had the detector run on each of some days."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import RunFinding
from ett_service.core.regressions.state import (
    FindingKey,
    FindingState,
    StateRules,
    Transition,
    advance,
    transition,
)
from ett_service.detection.observed.inputs import observe
from ett_service.detection.observed.sample import Observed
from ett_service.detection.options import Memory, Plan
from ett_service.detection.run import RunResult, attributed, days_to_read, memory_of, search

_NO_MEMORY = Memory()


@dataclass(slots=True)
class Course:
    """A finding from when it was first found to the last run; a later one has its own."""

    standing: FindingState
    latest: RunFinding  #: of the last run that found it
    latest_us: int  #: when that run was
    fired: RunFinding | None = None  #: of the run since which it fires
    steps: list[tuple[int, Transition]] = field(default_factory=list)

    @property
    def lapsed(self) -> bool:
        """Whether it went away before it was found often enough."""
        return self.steps[-1][1] is Transition.LAPSED


@dataclass(frozen=True, slots=True)
class Backtest:
    """All findings of the runs, the earliest first, and the answer of each run."""

    courses: Sequence[Course]
    runs: Sequence[RunResult]  #: only the last has its power

    @property
    def last(self) -> RunResult:
        """The answer of the last run."""
        return self.runs[-1]


def retrace(
    conn: Connection,
    project_id: int,
    runs_at: Sequence[int],
    plan: Plan,
    rules: StateRules,
    memory: Memory = _NO_MEMORY,
) -> tuple[Backtest, Observed]:
    """Read a project once and run the detector at instants in ascending order, whole days apart.

    What did not lapse is attributed. The power of the last run is that of a search with *memory*,
    which is of the searches that were stored before it.
    """
    window = plan.options.recent_days + plan.options.baseline_days
    before = (runs_at[-1] - runs_at[0]) // DAY_US
    days = max(window + before, days_to_read(runs_at[-1], plan.options, memory))
    observed = observe(conn, project_id, runs_at[-1], days, plan)
    retraced = backtest(observed, runs_at, plan, rules)
    if memory != _NO_MEMORY:
        power = search(observed, runs_at[-1], plan, memory).power
        last = replace(retraced.last, power=power)
        retraced = replace(retraced, runs=[*retraced.runs[:-1], last])
    for course in retraced.courses:
        if not course.lapsed:
            # Nearest to the onset, what came with it stands out most.
            first = attributed(conn, project_id, course.fired or course.latest, observed)
            course.latest = replace(course.latest, attribution=first.attribution)
    return retraced, observed


def backtest(observed: Observed, runs_at: Sequence[int], plan: Plan, rules: StateRules) -> Backtest:
    """Run the detector at instants in ascending order, whole days before the observations end.

    Every run knows the findings of those before it, and no value that was not over by then.
    Nothing is attributed: see ``retrace``.
    """
    assert runs_at
    states: dict[FindingKey, FindingState] = {}
    courses: dict[tuple[FindingKey, int], Course] = {}
    runs: list[RunResult] = []
    for at_us in runs_at:
        result = search(observed, at_us, plan, memory_of(states.values()))
        runs.append(result if at_us == runs_at[-1] else replace(result, power=()))
        after = advance(states, result.findings, at_us, rules, result.gone, result.standing)
        by_key = {FindingKey.of(each.finding): each for each in result.run_findings}
        for key in states | after:
            _extend(courses, states.get(key), after.get(key), by_key.get(key), at_us)
        states = after
    return Backtest(list(courses.values()), runs)


def _extend(
    courses: dict[tuple[FindingKey, int], Course],
    before: FindingState | None,
    after: FindingState | None,
    run_finding: RunFinding | None,
    at_us: int,
) -> None:
    """Extend the course of a finding by one run."""
    standing = after or before
    assert standing is not None
    key = (standing.key, standing.pending_us)
    if key not in courses:
        assert run_finding is not None
        courses[key] = Course(standing, run_finding, at_us)
    course = courses[key]
    course.standing = standing
    if run_finding is not None and run_finding.finding.holds:
        course.latest, course.latest_us = run_finding, at_us
    step = transition(before, after)
    if step is None:
        return
    course.steps.append((at_us, step))
    if step.begins_to_fire:
        course.fired = course.latest
