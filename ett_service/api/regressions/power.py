"""What the last search for regressions could have seen, so that silence is not read as health."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import msgspec
from fastapi import APIRouter, Depends, Query, Response
from sqlalchemy import Connection

from ett_service.api import pagination as cursors
from ett_service.api.deps import ProjectIds, Reader, only_declared_parameters
from ett_service.api.formats import FormatParameter, as_files, listed
from ett_service.api.parameters import CursorText, Text
from ett_service.api.problems import declared
from ett_service.api.regressions.power_answers import PowerAnswer, PowerPage, RunAnswer
from ett_service.api.regressions.rendering import finite
from ett_service.api.rendering import seconds
from ett_service.core.intervals import rfc3339
from ett_service.core.regressions.finding import Metric, Series
from ett_service.detection.options import Power
from ett_service.fleet import scope as scopes
from ett_service.storage.jobs import listing
from ett_service.storage.regressions import detection_runs
from ett_service.storage.regressions.detection_runs import DetectionRun

router = APIRouter(
    prefix="/v1/regressions/power",
    tags=["regressions"],
    dependencies=[Depends(only_declared_parameters)],
)


class _Body(msgspec.Struct):
    power: list[Power] = []


class _Place(NamedTuple):
    """What rows are in the order of."""

    project_id: cursors.Whole
    series: Annotated[str, msgspec.Meta(max_length=4000)]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The query of what could have been seen."""

    metric: Annotated[Metric | None, Query()] = None
    phase: Text = None
    where: Annotated[
        tuple[str, ...],
        Query(description="`DIMENSION:VALUE` of the cohort; several dimensions must all hold."),
    ] = ()
    limit: Annotated[int, Query(ge=1, le=1000)] = 100
    cursor: Annotated[CursorText, Query(max_length=8000)] = None


@router.get(
    "",
    operation_id="read_detection_power",
    response_model=PowerPage,
    responses={**as_files(paged=True), **declared(401, 403, 404, 422, 503)},
)
def read_detection_power(
    asked: Annotated[Asked, Depends()],
    conn: Reader,
    project_ids: ProjectIds,
    form: FormatParameter = "json",
) -> PowerPage | Response:
    """Tell the smallest change that the last search would have found, by series."""
    after: _Place | None = None
    if asked.cursor is not None:
        after = cursors.read(asked.cursor, _Place)
    runs = {_project(conn, run.project_id): run for run in detection_runs.latest(conn, project_ids)}
    rows = sorted(_rows(runs.items(), asked), key=lambda row: row[0])
    left = [row for row in rows if after is None or row[0] > after]
    shown, more = left[: asked.limit], len(left) > asked.limit
    page = PowerPage(
        runs=[_run(project, run) for project, run in runs.items()],
        power=[power_answer(project, power) for _, project, power in shown],
        next_cursor=cursors.write(shown[-1][0]) if more else None,
    )
    return listed(
        form, page, page.power, of=PowerAnswer, name="power", next_cursor=page.next_cursor
    )


def of_series(conn: Connection, project_id: int, series: Series) -> Power | None:
    """Return what could have been seen of one series in the last search; None if it had none."""
    return next(
        (
            power
            for run in detection_runs.latest(conn, [project_id])
            for power in _read(run)
            if (power.subject, power.cohort) == tuple(series)
        ),
        None,
    )


def _rows(
    runs: Iterable[tuple[str, DetectionRun]], asked: Asked
) -> Iterator[tuple[_Place, str, Power]]:
    where = scopes.where(asked.where)
    for project, run in runs:
        for power in _read(run):
            if _is_asked_for(power, asked, where):
                series = msgspec.json.encode([power.cohort, power.subject]).decode()
                yield _Place(run.project_id, series), project, power


def _is_asked_for(power: Power, asked: Asked, where: dict[str, frozenset[str]]) -> bool:
    cohort = dict(power.cohort)
    return (
        (asked.metric is None or asked.metric is power.subject.metric)
        and (asked.phase is None or asked.phase == power.subject.phase)
        and all(cohort.get(name) in values for name, values in where.items())
    )


def _read(run: DetectionRun) -> list[Power]:
    return msgspec.json.decode(run.body, type=_Body, strict=False).power


def _project(conn: Connection, project_id: int) -> str:
    return listing.project_name(conn, project_id)


def power_answer(project: str, power: Power) -> PowerAnswer:
    """Answer what could have been seen of one series."""
    metric, *parts = power.subject
    phase, stage, cause = (part or None for part in parts)
    return PowerAnswer(
        project=project,
        metric=metric,
        phase=phase,
        stage=stage,
        cause=cause,
        cohort=dict(power.cohort),
        recent=power.recent,
        baseline=power.baseline,
        smallest=finite(power.smallest),
    )


def _run(project: str, run: DetectionRun) -> RunAnswer:
    return RunAnswer(
        project=project,
        at=rfc3339(run.at_us),
        took_seconds=seconds(run.took_us),
        series=run.series,
    )
