"""Running jobs and the lag of aggregation, for the gauges of /metrics."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, func, select, text, union_all

from ett_service.storage.metrics.counters import label
from ett_service.storage.schema import counted, dirty, job_ledger, marker, project, unmerged


class Running(NamedTuple):
    """A job with running attempts."""

    project: str
    job: str
    cluster: str  #: as a label
    cohort: str  #: likewise
    open_since: Mapping[str, int]  #: by phase
    heard: Sequence[int]  #: when each running attempt was last heard of
    heard_us: int  #: when any attempt was last heard of
    effective_us: int
    e2e_us: int


class PendingJobs(NamedTuple):
    """Jobs with facts that are not aggregated yet."""

    jobs: int
    since_us: int | None  #: when the oldest of these facts came in


_RUNNING = (
    select(
        project.c.name.label("project"),
        counted.c.job,
        counted.c.cluster,
        counted.c.cohort,
        counted.c.open_since,
        counted.c.heard,
        counted.c.heard_us,
        job_ledger.c.effective_us,
        job_ledger.c.e2e_us,
    )
    .join_from(counted, project, project.c.id == counted.c.project_id)
    .join(
        job_ledger,
        (job_ledger.c.project_id == counted.c.project_id) & (job_ledger.c.job == counted.c.job),
    )
    .where(counted.c.running > 0)
)
_LEFT = union_all(
    *(select(left.c.project_id, left.c.job, left.c.marked_us) for left in (dirty, unmerged))
).subquery()
_MARKED = (
    select(func.min(_LEFT.c.marked_us).label("since_us"))
    .group_by(_LEFT.c.project_id, _LEFT.c.job)
    .subquery()
)
_WAITING = select(func.count(), func.min(_MARKED.c.since_us)).select_from(_MARKED)
_MARKERS = select(marker.c.kind, func.max(marker.c.at_us)).group_by(marker.c.kind)
_SIZE = {
    "sqlite": text("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"),
    "postgresql": text("SELECT pg_database_size(current_database())"),
}

_open_since = msgspec.json.Decoder(dict[str, int]).decode
_heard = msgspec.json.Decoder(list[int]).decode


def running(conn: Connection) -> list[Running]:
    """Read the jobs with running attempts."""
    return [
        Running(
            **dict(row)
            | {"open_since": _open_since(row["open_since"]), "heard": _heard(row["heard"])}
        )
        for row in conn.execute(_RUNNING).mappings()
    ]


def waiting(conn: Connection) -> PendingJobs:
    """Count the jobs that the worker has yet to fold, or to merge into the rollups."""
    jobs, since_us = conn.execute(_WAITING).one()
    return PendingJobs(int(jobs), since_us)


def latest_markers(conn: Connection, now_us: int) -> dict[str, int]:
    """Return when the latest marker of each kind began, without those of the future."""
    rows = conn.execute(_MARKERS.where(marker.c.at_us <= now_us))
    return {label(kind): at_us for kind, at_us in map(tuple, rows)}


def size_bytes(conn: Connection) -> int:
    """Return the size of the database."""
    return int(conn.execute(_SIZE[conn.dialect.name]).scalar_one())
