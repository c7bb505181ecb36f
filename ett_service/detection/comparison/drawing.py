"""Samples of large sets of jobs: tests by ranks need some hundred values, not all of a year."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from ett_service.core.intervals import HOUR_US
from ett_service.storage.fleet.rollups import CohortFilter
from ett_service.storage.fleet.sample import MOST_READ, count_alive, jobs_alive
from ett_service.storage.regressions import observations


@dataclass(frozen=True, slots=True)
class Drawn:
    """The jobs that are read of a set, and of how many they were drawn."""

    jobs: frozenset[str]
    drawn_from: int


def draw(
    conn: Connection,
    project_id: int,
    where: Mapping[str, frozenset[str]],
    span: tuple[int, int],
    most: int = MOST_READ,
) -> Drawn | None:
    """Draw from the jobs that lived in a span, of these dimensions; None where all can be read."""
    first_us = observations.first_start(conn, project_id)
    if first_us is None:
        return None
    start_us, end_us = max(span[0], first_us), span[1]
    window = (start_us // HOUR_US * HOUR_US, -(-end_us // HOUR_US) * HOUR_US)
    cohorts = CohortFilter((project_id,), where, exclusions=True)
    if window[0] >= window[1] or count_alive(conn, cohorts, window) <= most:
        return None
    sample = jobs_alive(conn, cohorts, window, most)
    return Drawn(frozenset(key.job for key in sample.keys), sample.drawn_from)


def in_sample(drawn: Sequence[Drawn | None], place: int | None, job: str) -> int | None:
    """Return the place of the set that a job is in, unless it was not drawn for that."""
    sample = None if place is None else drawn[place]
    return place if sample is None or job in sample.jobs else None
