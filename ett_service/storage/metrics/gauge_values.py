"""What the gauges of /metrics show: running jobs, what waits, regressions, searches, deliveries."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, and_, bindparam, case, func, or_, select, text, union_all

from ett_service.core.regressions.clocks import Moments
from ett_service.core.regressions.finding import State, Triage, Verdict
from ett_service.storage.metrics.counters import label
from ett_service.storage.receivers.deliveries import DeliveryState
from ett_service.storage.regressions.findings import OPEN
from ett_service.storage.schema import (
    counted,
    delivery,
    detection_run,
    dirty,
    job_ledger,
    marker,
    project,
    receiver_health,
    regression,
    unmerged,
)
from ett_service.storage.schema.alerting import SEARCHED_US, WRITTEN_US

_TRIAGED_AS = (Triage.REAL.value, Triage.NOISE.value)


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


class Firing(NamedTuple):
    """A firing regression."""

    cohort: Mapping[str, str]  #: values by dimension
    phase: str
    metric: str
    severity: str
    gpu_hours_per_week: float | None  #: None while accelerators are unknown


class Runs(NamedTuple):
    """The latest run of every project."""

    oldest_us: int  #: up to when the project was searched that is furthest behind
    took_us: int  #: sum over the projects
    series: int


class Deliveries(NamedTuple):
    """The finished and the pending deliveries of one receiver."""

    receiver: str
    done: Mapping[str, int]  #: finished ones in the window, by result
    waiting: int
    oldest_us: int | None  #: when the oldest pending one was made


_LOUD = func.coalesce(regression.c.triage, "") != Triage.NOISE.value
_FIRING = select(
    regression.c.cohort,
    regression.c.phase,
    regression.c.metric,
    regression.c.severity,
    regression.c.finding,
).where(
    regression.c.state == State.FIRING.value,
    regression.c.verdict == Verdict.REGRESSION.value,
    _LOUD,
)
_COUNTS = (
    select(regression.c.state, regression.c.verdict, func.count())
    .where(regression.c.state.in_(OPEN), _LOUD)
    .group_by(regression.c.state, regression.c.verdict)
)
_TRIAGED = (
    select(regression.c.triage, func.count())
    .where(regression.c.triage.in_(_TRIAGED_AS), regression.c.triage_us >= bindparam("since_us"))
    .group_by(regression.c.triage)
)
_CLOCKS = select(
    regression.c.onset_us,
    regression.c.firing_us,
    regression.c.acknowledged_us,
    regression.c.resolved_us,
    WRITTEN_US,
    SEARCHED_US,
).where(
    regression.c.verdict == Verdict.REGRESSION.value,
    regression.c.firing_us.is_not(None),
    _LOUD,
    or_(
        regression.c.firing_us >= bindparam("since_us"),
        regression.c.state == State.FIRING.value,
    ),
)
_LATEST = (
    select(detection_run.c.project_id, func.max(detection_run.c.at_us).label("at_us"))
    .group_by(detection_run.c.project_id)
    .subquery()
)
_RUNS = select(
    func.min(detection_run.c.at_us), func.sum(detection_run.c.took_us),
    func.sum(detection_run.c.series),
).join(
    _LATEST,
    and_(
        _LATEST.c.project_id == detection_run.c.project_id,
        _LATEST.c.at_us == detection_run.c.at_us,
    ),
)  # fmt: skip
_RESULT = case(
    (delivery.c.done == DeliveryState.REPEATING.value, DeliveryState.SENT.value),
    else_=delivery.c.done,
).label("result")
_DONE = (
    select(delivery.c.receiver, _RESULT, func.count())
    .where(
        delivery.c.done != DeliveryState.WAITING.value, delivery.c.done_us >= bindparam("since_us")
    )
    .group_by(delivery.c.receiver, _RESULT)
)
_UNDELIVERED = (
    select(delivery.c.receiver, func.count(), func.min(delivery.c.made_us))
    .where(delivery.c.done == DeliveryState.WAITING.value)
    .group_by(delivery.c.receiver)
)
_DISABLED = select(receiver_health.c.name).where(receiver_health.c.disabled_us.is_not(None))


def firing(conn: Connection) -> list[Firing]:
    """Read the firing regressions but those that somebody called noise."""
    regressions = []
    for cohort, phase, metric, severity, finding in conn.execute(_FIRING):
        impact = json.loads(finding)["impact"]["gpu_hours_per_week"]
        regressions.append(Firing(_values(cohort), phase, metric, severity, impact))
    return regressions


def _values(cohort: str) -> dict[str, str]:
    return {str(name): str(value) for name, value in json.loads(cohort).items()}


def counts(conn: Connection) -> dict[tuple[str, str], int]:
    """Count open findings by state and verdict, without those that somebody called noise."""
    return {(state, verdict): count for state, verdict, count in conn.execute(_COUNTS)}


def triaged(conn: Connection, since_us: int) -> tuple[int, int]:
    """Count the findings triaged as real since then, and those triaged as noise."""
    rows = conn.execute(_TRIAGED, {"since_us": since_us}).all()
    real, noise = (sum(count for triage, count in rows if triage == word) for word in _TRIAGED_AS)
    return real, noise


def clocks(conn: Connection, since_us: int) -> list[Moments]:
    """Read the moments of regressions that fire, or began to since then."""
    return [Moments(*row) for row in conn.execute(_CLOCKS, {"since_us": since_us})]


def runs(conn: Connection) -> Runs | None:
    """Read the latest run of every project together; None before the first."""
    oldest_us, took_us, series = conn.execute(_RUNS).one()
    return None if oldest_us is None else Runs(int(oldest_us), int(took_us), int(series))


def deliveries(conn: Connection, since_us: int) -> list[Deliveries]:
    """Read the deliveries that finished since then, and the pending ones, by receiver."""
    done: dict[str, dict[str, int]] = {}
    for receiver, result, count in conn.execute(_DONE, {"since_us": since_us}):
        done.setdefault(receiver, {})[result] = count
    waiting = {receiver: (count, oldest) for receiver, count, oldest in conn.execute(_UNDELIVERED)}
    return [
        Deliveries(name, done.get(name, {}), *waiting.get(name, (0, None)))
        for name in sorted({*done, *waiting})
    ]


def disabled(conn: Connection) -> list[str]:
    """Name the disabled receivers."""
    return sorted(conn.execute(_DISABLED).scalars())
