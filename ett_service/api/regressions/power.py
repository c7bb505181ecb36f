"""Detection power: what the last search could have found, so that silence is not read as health."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import msgspec
from fastapi import APIRouter, Depends, Query, Response
from pydantic import AliasPath, BeforeValidator, Field
from sqlalchemy import Connection

from ett_service.api import pagination
from ett_service.api.answers import Answer, EmptyIsNull, Finite, Instant, NextCursor, Seconds
from ett_service.api.bodies import FormatParameter, as_files, listed
from ett_service.api.deps import (
    AT_MOST,
    Condition,
    ProjectIds,
    Reader,
    Text,
    at_once,
    only_declared_parameters,
)
from ett_service.core.regressions.finding import Metric, Series, SeriesCohort, Subject
from ett_service.detection.scan import Power
from ett_service.fleet import scope as scopes
from ett_service.storage.jobs import listing
from ett_service.storage.regressions import detection_runs
from ett_service.storage.regressions.detection_runs import DetectionRun

router = APIRouter(
    prefix="/v1/regressions/power",
    tags=["regressions"],
    dependencies=[Depends(only_declared_parameters)],
)

CohortLabels = Annotated[dict[str, str], BeforeValidator(dict)]
SubjectPart = Annotated[str | None, EmptyIsNull]
"""A phase, stage or cause; null where it does not apply."""


class PowerAnswer(Answer):
    """The smallest change that could have been found in one series."""

    project: str
    metric: Metric = Field(validation_alias=AliasPath("subject", "metric"))
    phase: SubjectPart = Field(validation_alias=AliasPath("subject", "phase"))
    stage: SubjectPart = Field(validation_alias=AliasPath("subject", "stage"))
    cause: SubjectPart = Field(validation_alias=AliasPath("subject", "cause"))
    cohort: CohortLabels = Field(description="Empty for the whole project.")
    recent: int = Field(description="Values in the recent window.")
    baseline: int = Field(description="Values in the baseline window.")
    smallest: Finite = Field(
        description="A change by this factor is found in 80 of 100 cases; null if none can be "
        "found. For `ett_ratio`, the factor of the lost time."
    )

    @classmethod
    def read(cls, project: str, power: Power) -> "PowerAnswer":
        """Read the power of one series."""
        return cls.of(power, project=project)


class RunAnswer(Answer):
    """The last search of a project."""

    project: str
    at: Instant = Field(validation_alias="at_us", description="The end of the searched time.")
    took_seconds: Seconds
    series: int = Field(description="The number of series searched.")


class PowerPage(Answer):
    """A page of detection power, and the searches that it belongs to."""

    runs: list[RunAnswer] = Field(description="Empty before the first search.")
    power: list[PowerAnswer]
    next_cursor: NextCursor


class _RunBody(msgspec.Struct):
    power: list[Power] = []


class _SeriesPlace(NamedTuple):
    """The place of a series in the order of the list."""

    project_id: pagination.Whole
    series: Annotated[str, msgspec.Meta(max_length=4000)]


@dataclass(frozen=True, kw_only=True)
class PowerQuery:
    """The query of a list of detection power."""

    metric: Annotated[Metric | None, Query()] = None
    phase: Text = None
    where: Annotated[
        tuple[Condition, ...],
        Query(
            json_schema_extra=AT_MOST,
            description="`DIMENSION:VALUE` of the cohort. Different dimensions must all match.",
        ),
    ] = ()
    limit: pagination.Limit = 100
    cursor: Annotated[pagination.Cursor, Query(max_length=8000)] = None

    def matches(self, power: Power, where: dict[str, frozenset[str]]) -> bool:
        """Whether a series is asked for."""
        cohort = dict(power.cohort)
        return (
            (self.metric is None or self.metric is power.subject.metric)
            and (self.phase is None or self.phase == power.subject.phase)
            and all(cohort.get(name) in values for name, values in where.items())
        )


@router.get(
    "",
    operation_id="read_detection_power",
    response_model=PowerPage,
    responses=as_files(paged=True),
)
def read_detection_power(
    query: Annotated[PowerQuery, Depends(at_once(PowerQuery))],
    conn: Reader,
    project_ids: ProjectIds,
    form: FormatParameter = "json",
) -> PowerPage | Response:
    """List the smallest change that the last search could have found, by series."""
    after: _SeriesPlace | None = None
    if query.cursor is not None:
        after = pagination.read(query.cursor, _SeriesPlace)
    latest = detection_runs.latest(conn, project_ids)
    runs = {listing.project_name(conn, run.project_id): run for run in latest}
    rows = sorted(_rows(runs.items(), query), key=lambda row: row[0])
    left = [row for row in rows if after is None or row[0] > after]
    shown, next_cursor = pagination.page(left, query.limit, lambda row: row[0])
    page = PowerPage(
        runs=[RunAnswer.of(run, project=project) for project, run in runs.items()],
        power=[PowerAnswer.read(project, power) for _, project, power in shown],
        next_cursor=next_cursor,
    )
    return listed(form, page, page.power, of=PowerAnswer, name="power")


def of_series(conn: Connection, project_id: int, series: Series) -> Power | None:
    """Return the power of one series in the last search; None if it was not searched."""
    return next(
        (
            power
            for run in detection_runs.latest(conn, [project_id])
            for power in _read(run)
            if (power.subject, power.cohort) == tuple(series)
        ),
        None,
    )


def cohorts_of(conn: Connection, project_id: int, subject: Subject) -> list[SeriesCohort]:
    """Return the cohorts in which the last search looked at a subject."""
    return [
        power.cohort
        for run in detection_runs.latest(conn, [project_id])
        for power in _read(run)
        if power.subject == subject
    ]


def _rows(
    runs: Iterable[tuple[str, DetectionRun]], query: PowerQuery
) -> Iterator[tuple[_SeriesPlace, str, Power]]:
    where = scopes.where(query.where)
    for project, run in runs:
        for power in _read(run):
            if query.matches(power, where):
                series = msgspec.json.encode([power.cohort, power.subject]).decode()
                yield _SeriesPlace(run.project_id, series), project, power


def _read(run: DetectionRun) -> list[Power]:
    return msgspec.json.decode(run.body, type=_RunBody, strict=False).power
