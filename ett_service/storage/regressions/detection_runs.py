"""Runs of the detector: which projects were searched, up to when, and with what power.

A project is searched once its first job has begun.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, and_, bindparam, exists, func, select, update

from ett_service.storage.engine.driver import read_together
from ett_service.storage.engine.statements import insert_new
from ett_service.storage.schema import detection_run, job, job_ledger, project

_NO_POWER = "{}"


@dataclass(frozen=True, slots=True)
class DetectionRun:
    """One search of a project."""

    project_id: int
    at_us: int  #: up to when it searched
    took_us: int
    epoch: int  #: of the lease that it was written under
    series: int  #: how many it tested
    body: str  #: its power as JSON; kept of the latest run alone


class UnsearchedHistory(NamedTuple):
    """The history of a project that was never searched."""

    began_us: int  #: start of the first job
    received_us: int  #: when the last of the jobs that had begun by an instant was received


_LATEST = (
    select(detection_run.c.project_id, func.max(detection_run.c.at_us).label("at_us"))
    .group_by(detection_run.c.project_id)
    .subquery()
)
_SEARCHED_UP_TO = exists().where(
    detection_run.c.project_id == project.c.id, detection_run.c.at_us >= bindparam("at_us")
)
_UNSEARCHED = select(project.c.id).where(~_SEARCHED_UP_TO).order_by(project.c.id)
_BEGUN = (
    select(job_ledger.c.project_id)
    .where(
        job_ledger.c.project_id == bindparam("of_project"),
        job_ledger.c.started_us < bindparam("at_us"),
    )
    .limit(1)
)
_RUNS_OF = select(detection_run.c.at_us).where(
    detection_run.c.project_id == bindparam("of_project")
)
_HISTORY = (
    select(func.min(job_ledger.c.started_us), func.max(job.c.received_us))
    .join(job, and_(job.c.project_id == job_ledger.c.project_id, job.c.job == job_ledger.c.job))
    .where(
        job_ledger.c.project_id == bindparam("of_project"),
        job_ledger.c.started_us < bindparam("at_us"),
    )
)
_RUNS = (
    select(*(detection_run.c[name] for name in DetectionRun.__slots__))
    .join(
        _LATEST,
        and_(
            _LATEST.c.project_id == detection_run.c.project_id,
            _LATEST.c.at_us == detection_run.c.at_us,
        ),
    )
    .order_by(detection_run.c.project_id)
)
_FORGET_BODIES = (
    update(detection_run)
    .where(
        detection_run.c.project_id == bindparam("of_project"),
        detection_run.c.at_us < bindparam("before_us"),
        detection_run.c.body != _NO_POWER,
    )
    .values(body=_NO_POWER)
)


def projects_behind(conn: Connection, at_us: int) -> list[int]:
    """Return the projects with jobs from before *at_us* that were not searched up to then."""
    ids = conn.scalars(_UNSEARCHED, {"at_us": at_us}).all()
    begun = read_together(conn, [(_BEGUN, {"of_project": each, "at_us": at_us}) for each in ids])
    return [project_id for rows in begun for (project_id,) in rows]


def unsearched(conn: Connection, project_id: int, at_us: int) -> UnsearchedHistory | None:
    """Return the history of a project that is behind; None if it was searched before."""
    of = {"of_project": project_id}
    if conn.execute(_RUNS_OF.limit(1), of).first() is not None:
        return None
    began_us, received_us = conn.execute(_HISTORY, of | {"at_us": at_us}).one()
    return UnsearchedHistory(began_us, received_us)


def add(conn: Connection, run: DetectionRun, now_us: int) -> bool:
    """Store a run; False if the project was searched up to that instant before."""
    row = {name: getattr(run, name) for name in DetectionRun.__slots__}
    if not insert_new(conn, detection_run, [row | {"made_us": now_us}]):
        return False
    conn.execute(_FORGET_BODIES, {"of_project": run.project_id, "before_us": run.at_us})
    return True


def latest(conn: Connection, project_ids: Collection[int] | None = None) -> list[DetectionRun]:
    """Read the latest run of each of these projects (None: of all) that has any."""
    runs = _RUNS
    if project_ids is not None:
        runs = runs.where(detection_run.c.project_id.in_(project_ids))
    return [DetectionRun(**row) for row in conn.execute(runs).mappings()]
