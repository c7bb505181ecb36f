"""The views ``ett_v_*``: the database as other programs may read it.

They hold nothing, so no migration knows them: they are dropped before the migrations run, and
those of this version are built after. Durations are seconds, and instants stand twice: as such,
and as the microseconds since the Unix epoch (``_us``) by which the tables are indexed.
"""

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    exists,
    func,
    or_,
    select,
    text,
)
from sqlalchemy.schema import CreateView

from ett_service.core.dimensions import JOB_COLUMNS, JOB_DIMENSIONS
from ett_service.core.words import FAILURES, WASTED, Category, JobState, Period
from ett_service.storage import schema
from ett_service.storage.schema import (
    attempt_ledger,
    checkpoint,
    correction,
    job_ledger,
    marker,
    project,
    recovery,
    segment,
    share,
    stage_time,
    wait_share,
)
from ett_service.storage.schema.fleet_views import regressions, retention, rollup
from ett_service.storage.schema.record import EXCLUSION
from ett_service.storage.schema.view_expressions import (
    divided,
    flag,
    instant,
    instants,
    of_project,
    seconds,
)

READER = "ett_reader"
"""The role on PostgreSQL that may read the views and nothing else."""

_FACTS = (*JOB_COLUMNS, "gpus")


def _of_job(rows: Any, other: Any) -> ColumnElement[bool]:
    return and_(rows.c.project_id == other.c.project_id, rows.c.job == other.c.job)


def _excluded(rows: Any, at_us: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return whether somebody took an instant of a row's job out of the fleet's numbers."""
    window = correction.c
    covers = exists().where(
        _of_job(correction, rows),
        window.kind == EXCLUSION,
        window.taken_back_us.is_(None),
        or_(window.from_us.is_(None), window.from_us <= at_us),
        or_(window.to_us.is_(None), window.to_us > at_us),
    )
    return flag(covers.correlate(rows)).label("excluded")


def _in(category: Category) -> ColumnElement[bool]:
    return share.c.category == category.value


def _spent(where: ColumnElement[bool]) -> ColumnElement[float]:
    return seconds(func.sum(case((where, share.c.us), else_=0)))


def _weighted(us: ColumnElement[Any], *where: ColumnElement[bool]) -> ColumnElement[Any]:
    """Sum as seconds: a job of a million accelerators outgrows SQLite's integers."""
    counted = seconds(us)
    return func.sum(case((and_(*where), counted), else_=counted * 0) if where else counted)


def _shares() -> Any:
    """Return a job's time by what it was spent on; weighted only where accelerators are known."""
    training = share.c.period == Period.TRAINING.value
    wasted = share.c.category.in_(sorted(WASTED))
    effective = _in(Category.EFFECTIVE_TRAINING)
    return (
        select(
            share.c.project_id,
            share.c.job,
            *(_spent(_in(category)).label(f"{category}_seconds") for category in Category),
            *(
                _spent(share.c.period == period.value).label(f"{period}_period_seconds")
                for period in Period
            ),
            _spent(and_(wasted, training)).label("wasted_seconds"),
            _weighted(share.c.weighted_us).label("weighted_seconds"),
            _weighted(share.c.weighted_us, effective).label("effective_weighted_seconds"),
            _weighted(share.c.gpu_us).label("gpu_seconds"),
        )
        .group_by(share.c.project_id, share.c.job)
        .subquery("spent")
    )


def _ratio(part: ColumnElement[Any], whole_of_it: ColumnElement[Any]) -> ColumnElement[Any]:
    return func.coalesce(divided(part, func.nullif(whole_of_it, 0)), 0.0)


def _jobs() -> Select[*tuple[Any, ...]]:
    spent, ledger = _shares(), job_ledger.c
    return (
        select(
            project.c.name.label("project"),
            ledger.job,
            *(ledger[fact] for fact in _FACTS),
            ledger.state,
            flag(ledger.state != JobState.FINISHED.value).label("provisional"),
            _excluded(job_ledger, ledger.started_us),
            *(instant(ledger.as_of_us).label("as_of"), ledger.as_of_us),
            *instants(ledger.started_us, "started"),
            *instants(ledger.ended_us, "ended"),
            seconds(ledger.e2e_us).label("e2e_seconds"),
            _ratio(seconds(ledger.effective_us), seconds(ledger.e2e_us)).label("ett_ratio"),
            seconds(ledger.queue_wait_us).label("queue_wait_seconds"),
            ledger.runs.label("run_count"),
            seconds(ledger.between_runs_us).label("between_runs_seconds"),
            *_speed(ledger),
            *_data_wait(ledger),
            seconds(ledger.time_to_start_us).label("time_to_start_seconds"),
            ledger.failures,
            *(ledger[name] for name in ("infra_failures", "samples", "tokens", "teraflops")),
            seconds(ledger.unsaved_us).label("unsaved_training_seconds"),
            *(
                func.coalesce(spent.c[name], 0.0).label(name)
                for name in _names("{}_seconds", Category) + _names("{}_period_seconds", Period)
            ),
            _ratio(spent.c.wasted_seconds, spent.c.training_period_seconds).label("wasted_ratio"),
            *(spent.c[name] for name in _WEIGHTS),
        )
        .join_from(job_ledger, project, of_project(job_ledger))
        .outerjoin(spent, _of_job(spent, job_ledger))
    )


def _speed(columns: Any) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    return (
        seconds(columns.effective_at_reference_us).label("effective_at_reference_seconds"),
        seconds(columns.slowed_us).label("slowed_seconds"),
    )


def _data_wait(columns: Any) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    waited = seconds(columns.data_wait_us)
    return (
        waited.label("data_wait_seconds"),
        divided(waited, func.nullif(seconds(columns.data_wait_loop_us), 0)).label(
            "data_wait_ratio"
        ),
    )


_WEIGHTS = ("weighted_seconds", "effective_weighted_seconds", "gpu_seconds")


def _names(pattern: str, words: type[Category] | type[Period]) -> list[str]:
    return [pattern.format(word.value) for word in words]


def _attempts() -> Select[*tuple[Any, ...]]:
    columns, ledger = attempt_ledger.c, job_ledger.c
    # The period of training begins with a loop: an attempt's part of it with its first.
    loop_us = _first_segment(
        segment.c.started_us,
        attempt_ledger,
        segment.c.period == Period.TRAINING.value,
        segment.c.started_us >= columns.started_us,
    )
    return (
        select(
            project.c.name.label("project"),
            *(columns[name] for name in ("job", "number", "launch", "attempt", "cycle")),
            *(ledger[name] for name in JOB_DIMENSIONS),
            *instants(columns.started_us, "started"),
            *instants(columns.ended_us, "ended"),
            seconds(columns.ended_us - columns.started_us).label("seconds"),
            _excluded(attempt_ledger, columns.started_us),
            *(columns[name] for name in ("outcome", "origin", "cause")),
            flag(columns.corrected).label("corrected"),
            *(columns[name] for name in ("rule", "evidence", "gpus", "code_version")),
            seconds(loop_us - columns.started_us).label("time_to_loop_seconds"),
            seconds(columns.effective_us).label("effective_training_seconds"),
            *_speed(columns),
            *_data_wait(columns),
            seconds(columns.telemetry_us).label("telemetry_seconds"),
            seconds(columns.unsaved_us).label("unsaved_training_seconds"),
            columns.last_step,
            columns.preempted_by,
        )
        .join_from(attempt_ledger, job_ledger, _of_job(attempt_ledger, job_ledger))
        .join(project, of_project(attempt_ledger))
    )


def _first_segment(
    value: ColumnElement[Any], rows: Any, *where: ColumnElement[bool], last: bool = False
) -> Any:
    """Return a value of the first, or last, segment of a row's attempt; null without any."""
    began = segment.c.started_us
    return (
        select(value)
        .where(_of_job(segment, rows), segment.c.number == rows.c.number, *where)
        .order_by(began.desc() if last else began)
        .limit(1)
        .correlate(rows)
        .scalar_subquery()
    )


def _phases() -> Select[*tuple[Any, ...]]:
    columns = segment.c
    return select(
        project.c.name.label("project"),
        *(columns[name] for name in ("job", "number", "category", "period")),
        *instants(columns.started_us, "started"),
        *instants(columns.ended_us, "ended"),
        seconds(columns.ended_us - columns.started_us).label("seconds"),
    ).join_from(segment, project, of_project(segment))


def _failures() -> Select[*tuple[Any, ...]]:
    columns, ledger = attempt_ledger.c, job_ledger.c
    return (
        select(
            project.c.name.label("project"),
            *(ledger[name] for name in ("job", *JOB_DIMENSIONS)),
            *(columns[name] for name in ("number", "launch", "attempt", "cycle")),
            *instants(columns.ended_us, "failed"),
            _excluded(attempt_ledger, columns.ended_us),
            *(columns[name] for name in ("outcome", "origin", "cause", "gpus")),
            flag(columns.corrected).label("corrected"),
            *(columns[name] for name in ("rule", "evidence", "preempted_by")),
            seconds(columns.unsaved_us).label("unsaved_training_seconds"),
        )
        .join_from(attempt_ledger, job_ledger, _of_job(attempt_ledger, job_ledger))
        .join(project, of_project(attempt_ledger))
        .where(columns.outcome.in_(sorted(FAILURES)))
    )


def _recoveries() -> Select[*tuple[Any, ...]]:
    columns, ledger = recovery.c, job_ledger.c
    return (
        select(
            project.c.name.label("project"),
            *(columns[name] for name in ("job", "interrupted", "resumed")),
            *(ledger[name] for name in JOB_DIMENSIONS),
            *instants(columns.started_us, "started"),
            *instants(columns.started_us + columns.us, "ended"),
            seconds(columns.us).label("seconds"),
            _excluded(recovery, columns.started_us),
            columns.outcome,
            flag(columns.resumed.is_not(None) & columns.outcome.in_(sorted(FAILURES))).label(
                "counted"
            ),
            seconds(columns.stalled_us).label("stalled_seconds"),
            seconds(columns.repeated_us).label("repeated_seconds"),
        )
        .join_from(recovery, job_ledger, _of_job(recovery, job_ledger))
        .join(project, of_project(recovery))
    )


def _waits() -> Select[*tuple[Any, ...]]:
    columns, ledger = wait_share.c, job_ledger.c
    return (
        select(
            project.c.name.label("project"),
            *(ledger[name] for name in ("job", *JOB_DIMENSIONS)),
            *instants(ledger.started_us, "started"),
            _excluded(job_ledger, ledger.started_us),
            columns.part,
            columns.owner,
            seconds(columns.us).label("seconds"),
            seconds(columns.weighted_us).label("weighted_seconds"),
        )
        .join_from(wait_share, job_ledger, _of_job(wait_share, job_ledger))
        .join(project, of_project(wait_share))
    )


def _stages() -> Select[*tuple[Any, ...]]:
    columns = stage_time.c
    return select(
        project.c.name.label("project"),
        *(columns[name] for name in ("job", "number", "phase", "stage", "spans")),
        seconds(columns.inclusive_us).label("inclusive_seconds"),
        seconds(columns.exclusive_us).label("exclusive_seconds"),
    ).join_from(stage_time, project, of_project(stage_time))


def _checkpoints() -> Select[*tuple[Any, ...]]:
    columns = checkpoint.c
    blocked = _first_segment(
        segment.c.ended_us - segment.c.started_us,
        checkpoint,
        segment.c.category == Category.CHECKPOINT_BLOCKING.value,
        segment.c.started_us <= columns.saved_us,
        last=True,
    )
    return select(
        project.c.name.label("project"),
        *(columns[name] for name in ("job", "number", "id", "step")),
        *instants(columns.saved_us, "saved"),
        columns.bytes,
        seconds(columns.duration_us).label("duration_seconds"),
        seconds(blocked).label("blocking_seconds"),
    ).join_from(checkpoint, project, of_project(checkpoint))


def _markers() -> Select[*tuple[Any, ...]]:
    columns = marker.c
    return select(
        project.c.name.label("project"),
        columns.id,
        *(instant(columns.at_us).label("at"), columns.at_us),
        *(instant(columns.end_us).label("end_at"), columns.end_us),
        *(columns[name] for name in ("kind", "title", "labels", "made_by")),
        *instants(columns.made_us, "made"),
    ).join_from(marker, project, of_project(marker))


VIEWS: dict[str, Select[*tuple[Any, ...]]] = {
    "ett_v_jobs": _jobs(),
    "ett_v_attempts": _attempts(),
    "ett_v_phases": _phases(),
    "ett_v_stages": _stages(),
    "ett_v_waits": _waits(),
    "ett_v_rollup_hourly": rollup(schema.rollup_hourly),
    "ett_v_rollup_daily": rollup(schema.rollup_daily),
    "ett_v_retention": retention(),
    "ett_v_failures": _failures(),
    "ett_v_recoveries": _recoveries(),
    "ett_v_checkpoints": _checkpoints(),
    "ett_v_markers": _markers(),
    "ett_v_regressions": regressions(),
}
"""What each view selects. Names and columns are public: docs/views.md describes them."""


def drop(conn: Connection) -> None:
    """Drop the views that are there."""
    for name in VIEWS:
        conn.execute(text(f"DROP VIEW IF EXISTS {name}"))


def build(conn: Connection) -> None:
    """Build the views, and let the role ``ett_reader`` read them where there are roles."""
    for name, selected in VIEWS.items():
        conn.execute(CreateView(selected, name))
    if conn.dialect.name == "postgresql":
        _grant(conn)


def _grant(conn: Connection) -> None:
    conn.execute(text(_CREATE_READER))
    role = conn.execute(text("SELECT 1 FROM pg_roles WHERE rolname = :role"), {"role": READER})
    if role.first() is not None:
        conn.execute(text(f"GRANT SELECT ON {', '.join(VIEWS)} TO {READER}"))


#: A role belongs to the whole server: another database may have made it, or be making it now.
_CREATE_READER = f"""
DO $$ BEGIN
    CREATE ROLE {READER} NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation OR insufficient_privilege THEN
    NULL;
END $$
"""
