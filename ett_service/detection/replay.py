"""What would have been pending, firing and resolved, had the detector run on each of some days."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ett_service.core.regression_state import (
    Rules,
    Standing,
    Thread,
    Transition,
    advance,
    transition,
)
from ett_service.detection.evaluation import Evaluated, Found, judge
from ett_service.detection.observed import Observed
from ett_service.detection.plan import Plan
from ett_service.detection.remembered import memory_of

_BEGINS_TO_FIRE = frozenset({Transition.FIRING, Transition.REOPENED})


@dataclass(slots=True)
class Course:
    """A finding from when it was first found to the last run; a later one has its own."""

    standing: Standing
    found: Found  #: as the last run that found it has it
    fired: Found | None = None  #: as the run has it from which on it fires
    steps: list[tuple[int, Transition]] = field(default_factory=list)

    @property
    def lapsed(self) -> bool:
        """Whether it went away before it was found often enough."""
        return self.steps[-1][1] is Transition.LAPSED


@dataclass(frozen=True, slots=True)
class Replayed:
    """All that the runs found, the earliest first, and what the last of them said."""

    courses: Sequence[Course]
    last: Evaluated


def replay(observed: Observed, runs_at: Sequence[int], plan: Plan, rules: Rules) -> Replayed:
    """Run the detector at instants in ascending order, each whole days before what was read ends.

    Every run knows what those before it found, and nothing that was not over by then. Nothing is
    attributed: see ``evaluation.attributed``.
    """
    assert runs_at
    known: dict[Thread, Standing] = {}
    courses: dict[tuple[Thread, int], Course] = {}
    last = Evaluated((), (), 0)
    for at_us in runs_at:
        last = judge(observed, at_us, plan, memory_of(known.values()))
        after = advance(known, last.findings, at_us, rules)
        told = {Thread(one.finding.fingerprint, one.finding.verdict): one for one in last.found}
        for thread in known | after:
            _go_on(courses, known.get(thread), after.get(thread), told.get(thread), at_us)
        known = after
    return Replayed(list(courses.values()), last)


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
        courses[key] = Course(standing, found)
    course = courses[key]
    course.standing = standing
    if found is not None and found.finding.holds:
        course.found = found
    step = transition(before, after)
    if step is not None:
        course.steps.append((at_us, step))
    if step in _BEGINS_TO_FIRE:
        course.fired = course.found
