"""Runs of an experiment tracker: when each began and ended, and steps with their instants.

A tracker sees no phases. A loop is taken to begin one interval between its first two points before
the first of them, and no sooner than the run; where it completed, to end likewise after the last.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ett_service.core.intervals import rfc3339
from ett_service.importers.importer import Fact, WireEvent
from ett_service.importers.thinning import thinned

_PLACED = {"attributes": {"placed_by": "the interval between two points"}}


class Point(NamedTuple):
    """An instant at which something was tracked of a step."""

    at_us: int
    step: int
    line: int = 0


@dataclass(slots=True)
class TrackedRun:
    """What a tracker knows of a run."""

    launch: str
    begin_us: int
    end_us: int | None = None
    ending: WireEvent = field(default_factory=dict)  #: members of ``attempt_ended``
    points: Sequence[Point] = ()  #: by instant
    facts: WireEvent = field(default_factory=dict)  #: of the job
    line: int = 0


def facts_of(run: TrackedRun, job: str) -> Iterator[Fact]:
    """Return the events of a run."""
    own = {"job": job, "launch": run.launch}

    def fact(kind: str, at_us: int, line: int, **members: Any) -> Fact:
        return Fact({"type": kind, "at": rfc3339(at_us), **own, **members}, line)

    if run.facts:
        about = {"type": "job", "at": rfc3339(run.begin_us), "job": job, **run.facts}
        yield Fact(about, run.line)
    yield fact("attempt_started", run.begin_us, run.line)
    points = [point for point in run.points if point.at_us >= run.begin_us]
    loop = _loop(run, points)
    if loop is not None:
        begin_us, end_us = loop
        yield fact("phase_started", begin_us, points[0].line, phase="train_loop", **_PLACED)
        if end_us is not None:
            yield fact("phase_ended", end_us, points[-1].line, phase="train_loop", **_PLACED)
    for point in thinned(points, [point.at_us for point in points]):
        yield fact("progress", point.at_us, point.line, step=point.step)
    if run.end_us is not None and run.ending:
        yield fact("attempt_ended", max(run.end_us, run.begin_us), run.line, **run.ending)


def _loop(run: TrackedRun, points: Sequence[Point]) -> tuple[int, int | None] | None:
    """Return where the loop begins, and where it ends if the run completed.

    Of any other the service finds how long it was silent before it ended.
    """
    instants_us = sorted({point.at_us for point in points})
    if len(instants_us) < 2:  # noqa: PLR2004 - no interval
        return None
    first, second, *_ = instants_us
    interval_us = second - first
    begin_us = max(run.begin_us, first - interval_us)
    if run.end_us is None or run.ending.get("outcome") != "completed":
        return begin_us, None
    last = instants_us[-1]
    return begin_us, min(max(run.end_us, last), last + interval_us)
