"""What a job reported: event by event as it was sent, and added up by stage."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from ett_service.charts.units import count, duration, percent
from ett_service.pages.ask import Answer, Question
from ett_service.pages.links import attempt_page, job_page, quoted
from ett_service.pages.panel import Cell, Panel, table
from ett_service.pages.render import page
from ett_service.pages.route import Asking, SignedIn, router
from ett_service.report.stages import own_seconds

ROUTER = router()

_MOST = 100
_MOST_STAGES = 200
_APART = frozenset({"at", "type", "job"})

WHOLE = "(whole phase)"
"""The row of a phase beside those of its stages."""

OWN_TIME = (
    "Own time has no stage open that began later, and that of a whole phase none of its stages."
)


@ROUTER.get("/jobs/{job}/events")
async def show_events(
    request: Request,
    job: str,
    session: SignedIn,
    ask: Asking,
    project: Annotated[str, Query(max_length=200)] = "",
    cursor: Annotated[str, Query(max_length=2000)] = "",
) -> Response:
    """Show a page of events."""
    query = {"project": project, "limit": _MOST, "cursor": cursor}
    question = Question(f"/v1/jobs/{quoted(job)}/events", query)
    answer = await ask(question)
    events, following = answer["events"], answer["next_cursor"]
    return page(
        request,
        "sub.html",
        session,
        title="Raw events",
        sentence=_sentence(events, is_first=not cursor, is_last=following is None),
        up=Cell(job, href=job_page(job, project)),
        facts=[],
        panels=[
            Panel(
                "events",
                "As they were sent",
                table=table("instant (UTC)|type|members", map(_event, events)),
                question=question,
                is_wide=True,
            )
        ],
        following=_more(project, following),
    )


def _sentence(events: list[Answer], *, is_first: bool, is_last: bool) -> str:
    number = f"{count(len(events))} events"
    if is_first and is_last:
        return f"All {number} that were sent"
    return f"The first {number}" if is_first else f"The next {number}"


def _event(event: Answer) -> tuple[str, str, str]:
    members = (
        f"{name}={value}"
        for name, value in event.items()
        if name not in _APART and value is not None
    )
    return event["at"], event["type"], " ".join(members)


def _more(project: str, cursor: str | None) -> str:
    if cursor is None:
        return ""
    query = {"project": project, "cursor": cursor} if project else {"cursor": cursor}
    return f"?{urlencode(query)}"


@ROUTER.get("/jobs/{job}/stages")
async def show_stages(
    request: Request,
    job: str,
    session: SignedIn,
    ask: Asking,
    project: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Show the time of each attempt by phase and stage, and by how much spans overlap."""
    question = Question(f"/v1/jobs/{quoted(job)}/stages", {"project": project})
    answer = await ask(question)
    stages = answer["stages"]
    left = len(stages) - _MOST_STAGES
    return page(
        request,
        "sub.html",
        session,
        title="Stages",
        sentence=f"Spans add up to {percent(answer['span_ratio'])} of E2E, the ledger to 100%."
        if stages
        else "This job reported no phase.",
        up=Cell(job, href=job_page(job, project)),
        facts=[],
        panels=[
            Panel(
                "stages",
                "Time by stage",
                table=table(
                    "attempt|phase|stage|#spans|#inclusive|#own|#skew of ranks",
                    [
                        _stage(job, stage, own, project)
                        for stage, own in zip(stages, own_seconds(stages), strict=True)
                    ][:_MOST_STAGES],
                ),
                after=(
                    OWN_TIME,
                    "Skew is the slowest rank over the median.",
                    *([f"{count(left)} more rows are in the CSV."] if left > 0 else []),
                ),
                question=question,
                is_wide=True,
            )
        ],
    )


def _stage(job: str, stage: Answer, own: float, project: str) -> tuple[Cell | str, ...]:
    return (
        Cell(str(stage["number"]), href=attempt_page(job, stage["number"], project)),
        stage["phase"],
        stage["stage"] or WHOLE,
        count(stage["spans"]),
        duration(stage["inclusive_seconds"]),
        duration(own),
        duration(stage["skew_seconds"]),
    )
