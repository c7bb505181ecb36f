"""Backtest: what would have fired and resolved, had the detector run on each of some days."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.state import (
    FindingKey,
    FindingState,
    StateRules,
    Transition,
    advance,
    transition,
)
from ett_service.detection.inputs import observe
from ett_service.detection.options import Plan
from ett_service.detection.run import RunFinding, RunResult, attributed, memory_of, search
from ett_service.detection.sample import Observed

_BEGINS_TO_FIRE = frozenset({Transition.FIRING, Transition.REOPENED})


@dataclass(slots=True)
class Course:
    """A finding from when it was first found to the last run; a later one has its own."""

    standing: FindingState
    found: RunFinding  #: as the last run that found it has it
    found_us: int  #: when that run was
    fired: RunFinding | None = None  #: as the run has it from which on it fires
    steps: list[tuple[int, Transition]] = field(default_factory=list)

    @property
    def lapsed(self) -> bool:
        """Whether it went away before it was found often enough."""
        return self.steps[-1][1] is Transition.LAPSED


@dataclass(frozen=True, slots=True)
class Backtest:
    """All that the runs found, the earliest first, and what each of them said."""

    courses: Sequence[Course]
    runs: Sequence[RunResult]  #: the last alone with what it could have seen

    @property
    def last(self) -> RunResult:
        """What the last run said."""
        return self.runs[-1]


def retrace(
    conn: Connection, project_id: int, runs_at: Sequence[int], plan: Plan, rules: StateRules
) -> tuple[Backtest, Observed]:
    """Read a project once and run the detector at instants in ascending order, whole days apart.

    What did not lapse is told with what it is associated with.
    """
    window = plan.options.recent_days + plan.options.baseline_days
    before = (runs_at[-1] - runs_at[0]) // DAY_US
    observed = observe(conn, project_id, runs_at[-1], window + before, plan)
    replayed = backtest(observed, runs_at, plan, rules)
    for course in replayed.courses:
        if not course.lapsed:
            # Nearest to the onset what came with it stands out most.
            began = attributed(conn, project_id, course.fired or course.found, observed)
            course.found = replace(course.found, attribution=began.attribution)
    return replayed, observed


def backtest(observed: Observed, runs_at: Sequence[int], plan: Plan, rules: StateRules) -> Backtest:
    """Run the detector at instants in ascending order, each whole days before what was read ends.

    Every run knows what those before it found, and nothing that was not over by then. Nothing is
    attributed: see ``retrace``.
    """
    assert runs_at
    known: dict[FindingKey, FindingState] = {}
    courses: dict[tuple[FindingKey, int], Course] = {}
    runs: list[RunResult] = []
    for at_us in runs_at:
        last = search(observed, at_us, plan, memory_of(known.values()))
        runs.append(last if at_us == runs_at[-1] else replace(last, power=()))
        after = advance(known, last.findings, at_us, rules)
        told = {FindingKey(one.finding.fingerprint, one.finding.verdict): one for one in last.found}
        for thread in known | after:
            _go_on(courses, known.get(thread), after.get(thread), told.get(thread), at_us)
        known = after
    return Backtest(list(courses.values()), runs)


def _go_on(
    courses: dict[tuple[FindingKey, int], Course],
    before: FindingState | None,
    after: FindingState | None,
    found: RunFinding | None,
    at_us: int,
) -> None:
    standing = after or before
    assert standing is not None
    key = (standing.thread, standing.pending_us)
    if key not in courses:
        assert found is not None
        courses[key] = Course(standing, found, at_us)
    course = courses[key]
    course.standing = standing
    if found is not None and found.finding.holds:
        course.found, course.found_us = found, at_us
    step = transition(before, after)
    if step is not None:
        course.steps.append((at_us, step))
    if step in _BEGINS_TO_FIRE:
        course.fired = course.found
