"""Regressions: which there are, and everything that is known of one."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Response
from sqlalchemy import Connection

from ett_service.api import cursor as cursors
from ett_service.api.deps import AppParts, ProjectIds, Reader, only_declared_parameters
from ett_service.api.detection_power import of_series, power_answer
from ett_service.api.formats import FormatParameter, as_files, listed
from ett_service.api.parameters import At, CursorText, Text
from ett_service.api.parts import Parts
from ett_service.api.problems import Kind, Problem, declared
from ett_service.api.regression_answers import RegressionPage, RegressionRow
from ett_service.api.regression_detail_answers import RegressionAnswer
from ett_service.api.regression_rendering import (
    attribution_answer,
    clocks_answer,
    gate_answers,
    history_answers,
    links,
    makers,
    moments,
    mute_answer,
    row_answer,
    row_members,
)
from ett_service.core.regressions.clocks import clocks
from ett_service.core.regressions.finding import Metric, State, Verdict
from ett_service.fleet import scope as scopes
from ett_service.storage.regressions import mutes, regressions
from ett_service.storage.regressions.findings import Regression
from ett_service.storage.regressions.mutes import Muted
from ett_service.storage.regressions.regressions import RegressionFilter, RegressionPosition

router = APIRouter(
    prefix="/v1/regressions",
    tags=["regressions"],
    dependencies=[Depends(only_declared_parameters)],
)

Sort = Literal[
    "-pending_at", "-onset_at", "-last_run_at", "-ratio", "-gpu_hours_per_week",
    "pending_at", "onset_at", "last_run_at", "ratio", "gpu_hours_per_week",
]  # fmt: skip

RegressionId = Annotated[
    str, Path(max_length=64, description="As lists give it.", examples=["01JCXK7V4W3M"])
]

_PLACE: Any = tuple[str, float, cursors.Whole, cursors.Word]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The query of a list of regressions."""

    state: Annotated[
        tuple[State, ...],
        Query(
            description="Any of these. Without it all but `inactive`: what was pending, and was "
            "not found again."
        ),
    ] = ()
    verdict: Annotated[tuple[Verdict, ...], Query(description="Any of these.")] = ()
    metric: Annotated[Metric | None, Query()] = None
    phase: Text = None
    where: Annotated[
        tuple[str, ...],
        Query(
            description="`DIMENSION:VALUE` of the cohort, split at the first colon. Of several "
            "values of one dimension any will do; those of different ones must all hold.",
            examples=[["model:llm-70b"]],
        ),
    ] = ()
    from_us: Annotated[
        At, Query(alias="from", description="Those that were not over before it.")
    ] = None
    to_us: Annotated[At, Query(alias="to", description="Those that set in before it.")] = None
    sort: Annotated[Sort, Query(description="`-` puts the largest first.")] = "-pending_at"
    limit: Annotated[int, Query(ge=1, le=1000)] = 100
    cursor: CursorText = None

    @property
    def wanted(self) -> RegressionFilter:
        """The filters that were given."""
        given = {"metric": self.metric, "phase": self.phase}
        return RegressionFilter(
            states=[one.value for one in self.state],
            verdicts=[one.value for one in self.verdict],
            equal={name: str(value) for name, value in given.items() if value is not None},
            where=scopes.where(self.where),
            from_us=self.from_us,
            to_us=self.to_us,
        )


@router.get(
    "",
    operation_id="list_regressions",
    response_model=RegressionPage,
    responses={**as_files(paged=True), **declared(401, 403, 404, 422, 503)},
)
def list_regressions(
    asked: Annotated[Asked, Depends()],
    conn: Reader,
    project_ids: ProjectIds,
    parts: AppParts,
    form: FormatParameter = "json",
) -> RegressionPage | Response:
    """List what the search for regressions found, a page at a time.

    Improvements and what does not alert are among it: name a `verdict` to leave them out.
    """
    found = regressions.page(
        conn,
        project_ids,
        asked.wanted,
        sort=asked.sort.removeprefix("-"),
        descending=asked.sort.startswith("-"),
        limit=asked.limit + 1,
        after=_place(asked),
    )
    shown, more = found[: asked.limit], len(found) > asked.limit
    page = RegressionPage(
        regressions=_rows(conn, [kept for kept, _ in shown], parts.now_us()),
        next_cursor=cursors.write((asked.sort, *shown[-1][1])) if more else None,
    )
    return listed(
        form,
        page,
        page.regressions,
        of=RegressionRow,
        name="regressions",
        next_cursor=page.next_cursor,
    )


@router.get(
    "/{regression_id}",
    operation_id="read_regression",
    responses=declared(401, 403, 404, 422, 503),
)
def read_regression(
    regression_id: RegressionId, conn: Reader, project_ids: ProjectIds, parts: AppParts
) -> RegressionAnswer:
    """Tell everything about a finding: how much, how sure, what with, and what was done."""
    kept = regressions.find(conn, project_ids, known_text(regression_id))
    if kept is None:
        raise unknown()
    return whole_answer(conn, kept, parts)


def whole_answer(conn: Connection, kept: Regression, parts: Parts) -> RegressionAnswer:
    """Answer everything that is known of one."""
    now_us = parts.now_us()
    history = regressions.changes(conn, kept.project_id, kept.id)
    in_force = [
        one
        for one in mutes.listing(conn, [kept.project_id], at_us=now_us)
        if one.muted.covers(kept.standing.finding.series, now_us)
    ]
    said_by = [one.by for one in history] + [one.made_by for one in in_force]
    names = regressions.key_names(conn, [*makers(kept), *said_by])
    finding = kept.standing.finding
    power = of_series(conn, kept.project_id, finding.series)
    return RegressionAnswer(
        **row_members(kept, names, mutes.muted(conn, kept.project_id, now_us)),
        p=finding.p,
        q=finding.q,
        gates=gate_answers(finding.gates),
        attribution=attribution_answer(kept.attribution, kept.project),
        power=None if power is None else power_answer(kept.project, power),
        sla=clocks_answer(clocks(moments(kept), parts.sla, now_us))
        if kept.standing.alerts
        else None,
        mutes=[mute_answer(one, names) for one in in_force],
        history=history_answers(history, names),
        links=links(kept),
    )


def known_text(regression_id: str) -> str:
    """Pass what can be an id.

    Raises:
        Problem: 404.
    """
    if "\x00" in regression_id:
        raise unknown()
    return regression_id


def unknown() -> Problem:
    """Tell that there is no such regression, or none that the key may know of."""
    return Problem(Kind.NOT_FOUND, "No such regression.")


def _rows(conn: Connection, found: list[Regression], now_us: int) -> list[RegressionRow]:
    names = regressions.key_names(conn, [prefix for kept in found for prefix in makers(kept)])
    muted: dict[int, list[Muted]] = {
        project_id: mutes.muted(conn, project_id, now_us)
        for project_id in {kept.project_id for kept in found}
    }
    return [row_answer(kept, names, muted[kept.project_id]) for kept in found]


def _place(asked: Asked) -> RegressionPosition | None:
    if asked.cursor is None:
        return None
    sort, value, project_id, last = cursors.read(asked.cursor, _PLACE)
    if sort != asked.sort:
        raise cursors.refused()
    return RegressionPosition(value, project_id, last)
