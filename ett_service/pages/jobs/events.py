"""What a job reported, event by event as it was sent."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from ett_service.charts.units import count
from ett_service.pages.ask import Answer, Question
from ett_service.pages.links import job_page, quoted
from ett_service.pages.panel import Cell, Panel, table
from ett_service.pages.render import page
from ett_service.pages.route import Asking, SignedIn, router

ROUTER = router()

_MOST = 100
_APART = frozenset({"at", "type", "job"})


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
