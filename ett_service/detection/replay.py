"""What would have been pending, firing and resolved, had the detector run on each of some days."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from ett_service.core.interval import DAY_US
from ett_service.core.regression_state import (
    Rules,
    Standing,
    Thread,
    Transition,
    advance,
    transition,
)
from ett_service.detection.evaluation import Evaluated, Found, attributed, judge
from ett_service.detection.observed import Observed
from ett_service.detection.plan import Plan
from ett_service.detection.reading import observe
from ett_service.detection.remembered import memory_of

_BEGINS_TO_FIRE = frozenset({Transition.FIRING, Transition.REOPENED})


@dataclass(slots=True)
class Course:
    """A finding from when it was first found to the last run; a later one has its own."""

    standing: Standing
    found: Found  #: as the last run that found it has it
    found_us: int  #: when that run was
    fired: Found | None = None  #: as the run has it from which on it fires
    steps: list[tuple[int, Transition]] = field(default_factory=list)

    @property
    def lapsed(self) -> bool:
        """Whether it went away before it was found often enough."""
        return self.steps[-1][1] is Transition.LAPSED


@dataclass(frozen=True, slots=True)
class Replayed:
    """All that the runs found, the earliest first, and what each of them said."""

    courses: Sequence[Course]
    runs: Sequence[Evaluated]  #: the last alone with what it could have seen

    @property
    def last(self) -> Evaluated:
        """What the last run said."""
        return self.runs[-1]


def retrace(
    conn: Connection, project_id: int, runs_at: Sequence[int], plan: Plan, rules: Rules
) -> tuple[Replayed, Observed]:
    """Read a project once and run the detector at instants in ascending order, whole days apart.

    What did not lapse is told with what it is associated with.
    """
    window = plan.options.recent_days + plan.options.baseline_days
    before = (runs_at[-1] - runs_at[0]) // DAY_US
    observed = observe(conn, project_id, runs_at[-1], window + before, plan)
    replayed = replay(observed, runs_at, plan, rules)
    for course in replayed.courses:
        if not course.lapsed:
            # Nearest to the onset what came with it stands out most.
            began = attributed(conn, project_id, course.fired or course.found, observed)
            course.found = replace(course.found, attribution=began.attribution)
    return replayed, observed


def replay(observed: Observed, runs_at: Sequence[int], plan: Plan, rules: Rules) -> Replayed:
    """Run the detector at instants in ascending order, each whole days before what was read ends.

    Every run knows what those before it found, and nothing that was not over by then. Nothing is
    attributed: see ``retrace``.
    """
    assert runs_at
    known: dict[Thread, Standing] = {}
    courses: dict[tuple[Thread, int], Course] = {}
    runs: list[Evaluated] = []
    for at_us in runs_at:
        last = judge(observed, at_us, plan, memory_of(known.values()))
        runs.append(last if at_us == runs_at[-1] else replace(last, power=()))
        after = advance(known, last.findings, at_us, rules)
        told = {Thread(one.finding.fingerprint, one.finding.verdict): one for one in last.found}
        for thread in known | after:
            _go_on(courses, known.get(thread), after.get(thread), told.get(thread), at_us)
        known = after
    return Replayed(list(courses.values()), runs)


def _go_on(
    courses: dict[tuple[Thread, int], Course],
    before: Standing | None,
    after: Standing | None,
    found: Found | None,
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
