"""Regressions: the list of findings, and everything about one."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Response
from sqlalchemy import Connection

from ett_service.api import pagination
from ett_service.api.answers import Sources
from ett_service.api.bodies import FormatParameter, as_files, listed
from ett_service.api.deps import (
    AT_MOST,
    At,
    Condition,
    ProjectIds,
    Reader,
    State,
    Text,
    at_once,
    only_declared_parameters,
)
from ett_service.api.problems import Problem, ProblemKind, declared
from ett_service.api.regressions.answers import RegressionAnswer, RegressionPage, RegressionRow
from ett_service.api.regressions.mutes import MuteAnswer
from ett_service.api.regressions.power import PowerAnswer, of_series
from ett_service.api.state import AppState
from ett_service.core.regressions.clocks import Moments, ResponseTimes, clocks
from ett_service.core.regressions.finding import Metric, Verdict
from ett_service.core.regressions.finding import State as RegressionState
from ett_service.fleet import scope as scopes
from ett_service.storage.regressions import notices, regressions
from ett_service.storage.regressions.findings import Regression
from ett_service.storage.regressions.notices import Muted
from ett_service.storage.regressions.regressions import RegressionFilter, RegressionPosition

router = APIRouter(
    prefix="/v1/regressions",
    tags=["regressions"],
    dependencies=[Depends(only_declared_parameters)],
)

RegressionOrder = Annotated[str, pagination.orders(regressions.ORDERS)]

RegressionId = Annotated[
    str, Path(max_length=64, description="The id in lists.", examples=["01JCXK7V4W3M"])
]

_SMALL = Verdict.SMALL.value

_PLACE: Any = tuple[str, float, pagination.Whole, pagination.Word]


@dataclass(frozen=True, kw_only=True)
class RegressionQuery:
    """The query of a list of regressions."""

    state: Annotated[
        tuple[RegressionState, ...],
        Query(
            description="Any of these. By default all but `inactive`: pending findings that were "
            "not found again."
        ),
    ] = ()
    verdict: Annotated[
        tuple[Verdict, ...],
        Query(description="Any of these. By default all but `small`, which are only counted."),
    ] = ()
    metric: Annotated[Metric | None, Query()] = None
    phase: Text = None
    where: Annotated[
        tuple[Condition, ...],
        Query(
            json_schema_extra=AT_MOST,
            description="`DIMENSION:VALUE` of the cohort, split at the first colon. Several "
            "values of one dimension are alternatives. Different dimensions must all match.",
            examples=[["model:llm-70b"]],
        ),
    ] = ()
    from_us: Annotated[At, Query(alias="from", description="Not over before it.")] = None
    to_us: Annotated[At, Query(alias="to", description="With an onset before it.")] = None
    without_noise: Annotated[
        bool, Query(description="Leave out what somebody triaged as noise.")
    ] = False
    merged: Annotated[
        bool, Query(description="Also list those that another finding reports by now.")
    ] = False
    sort: Annotated[RegressionOrder, Query(description="`-` puts the largest first.")] = (
        "-pending_at"
    )
    limit: pagination.Limit = 100
    cursor: pagination.Cursor = None

    @property
    def wanted(self) -> RegressionFilter:
        """The filters that were given."""
        values = {"metric": self.metric, "phase": self.phase}
        return RegressionFilter(
            states=[each.value for each in self.state],
            verdicts=[each.value for each in self.verdict],
            equal={name: str(value) for name, value in values.items() if value is not None},
            where=scopes.where(self.where),
            from_us=self.from_us,
            to_us=self.to_us,
            without_noise=self.without_noise,
            merged=self.merged,
        )

    @property
    def after(self) -> RegressionPosition | None:
        """Where the page before ended."""
        if self.cursor is None:
            return None
        sort, value, project_id, last = pagination.read(self.cursor, _PLACE)
        if sort != self.sort:
            raise pagination.refused()
        return RegressionPosition(value, project_id, last)


@router.get(
    "",
    operation_id="list_regressions",
    response_model=RegressionPage,
    responses=as_files(paged=True),
)
def list_regressions(
    query: Annotated[RegressionQuery, Depends(at_once(RegressionQuery))],
    conn: Reader,
    project_ids: ProjectIds,
    state: State,
    form: FormatParameter = "json",
) -> RegressionPage | Response:
    """List the findings of the search for regressions, a page at a time.

    The list includes improvements and findings that do not alert. Filter by `verdict` to leave
    them out.
    """
    rows = regressions.page(
        conn,
        project_ids,
        query.wanted,
        sort=query.sort.removeprefix("-"),
        descending=query.sort.startswith("-"),
        limit=query.limit + 1,
        after=query.after,
    )
    shown, next_cursor = pagination.page(rows, query.limit, lambda row: (query.sort, *row[1]))
    page = RegressionPage(
        regressions=_rows(conn, [regression for regression, _ in shown], state.now_us()),
        small=regressions.count(conn, project_ids, replace(query.wanted, verdicts=[_SMALL])),
        next_cursor=next_cursor,
    )
    return listed(form, page, page.regressions, of=RegressionRow, name="regressions")


@router.get(
    "/{regression_id}",
    operation_id="read_regression",
    responses=declared(401, 403, 404, 422, 503),
)
def read_regression(
    regression_id: RegressionId, conn: Reader, project_ids: ProjectIds, state: State
) -> RegressionAnswer:
    """Return everything about a finding: its size, its certainty, its attribution, its history."""
    regression = regressions.find(conn, project_ids, checked_id(regression_id))
    if regression is None:
        raise unknown()
    return regression_answer(conn, regression, state)


def regression_answer(
    conn: Connection, regression: Regression, state: AppState
) -> RegressionAnswer:
    """Answer everything about a regression."""
    now_us, project_id = state.now_us(), regression.project_id
    series = regression.standing.finding.series
    history = regressions.changes(conn, project_id, regression.id)
    in_force = [
        mute
        for mute in notices.list_mutes(conn, [project_id], at_us=now_us)
        if mute.muted.covers(series, now_us)
    ]
    makers = [change.by for change in history] + [mute.made_by for mute in in_force]
    names = regressions.key_names(conn, [*_makers(regression), *makers])
    power = of_series(conn, project_id, series)
    return RegressionAnswer.of(
        regression,
        names=names,
        muted=notices.muted(conn, project_id, now_us),
        power=None if power is None else PowerAnswer.read(regression.project, power),
        sla=_clocks(regression, state, now_us) if regression.standing.alerts else None,
        mutes=[MuteAnswer.read(mute, names) for mute in in_force],
        history=[Sources((change,), {"names": names}) for change in history],
    )


def checked_id(regression_id: str) -> str:
    """Pass a text that can be an id.

    Raises:
        Problem: 404.
    """
    if "\x00" in regression_id:
        raise unknown()
    return regression_id


def unknown() -> Problem:
    """Say that there is no such regression, or none that the key may read."""
    return Problem(ProblemKind.NOT_FOUND, "No such regression.")


def _rows(conn: Connection, shown: list[Regression], now_us: int) -> list[RegressionRow]:
    makers = [prefix for regression in shown for prefix in _makers(regression)]
    names = regressions.key_names(conn, makers)
    muted: dict[int, list[Muted]] = {
        project_id: notices.muted(conn, project_id, now_us)
        for project_id in {regression.project_id for regression in shown}
    }
    return [
        RegressionRow.of(regression, names=names, muted=muted[regression.project_id])
        for regression in shown
    ]


def _makers(regression: Regression) -> list[str | None]:
    return [regression.acknowledged_by, regression.triage_by]


def _clocks(regression: Regression, state: AppState, now_us: int) -> ResponseTimes:
    standing = regression.standing
    moments = Moments(
        standing.onset_us,
        standing.firing_us,
        regression.acknowledged_us,
        standing.resolved_us,
        regression.written_us,
        regression.searched_us,
    )
    return clocks(moments, state.sla, now_us)
