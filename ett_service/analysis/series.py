"""The fleet step by step."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from ett_service.analysis.economy import Economy
from ett_service.analysis.fleet import Group, groups, together
from ett_service.analysis.question import BadQuestion
from ett_service.analysis.scope import Scope
from ett_service.analysis.window import MOST_POINTS, Window, bucket_starts


@dataclass(frozen=True, slots=True)
class Point:
    """A group in one step; of an outer step only what lies in the window counts."""

    start_us: int
    end_us: int
    partial: bool
    group: Group


def series(
    conn: Connection,
    scope: Scope,
    window: Window,
    economy: Economy,
    step: int,
    *,
    distributions: bool = True,
) -> Sequence[Point]:
    """Add up each step of a window, in order of time and then of labels.

    Without groups there is a point for every step; with groups, for those that have any time.

    Raises:
        BadQuestion: There are more than ``MOST_POINTS`` points.
    """
    starts = bucket_starts(window, step)
    found = groups(conn, scope, window, economy, step=step, distributions=distributions)
    if len(found) > MOST_POINTS:
        raise BadQuestion("group_by", "too_many_points", f"There are {MOST_POINTS} points at most.")
    if not scope.group_by:
        nothing = together((), scope, economy)
        found = {(start, ()): found.get((start, ()), nothing) for start in starts}
    return [
        Point(
            start_us=start,
            end_us=start + step,
            partial=start < window.from_us or start + step > window.to_us,
            group=group,
        )
        for (start, _), group in sorted(found.items(), key=lambda one: one[0])
        if start is not None
    ]
