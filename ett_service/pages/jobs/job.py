"""A job: its life as a gantt, its ledger, why its ETT% is what it is, and what it reported."""

import asyncio
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from ett_service.pages.ask import Ask, Question
from ett_service.pages.jobs import life, reasons
from ett_service.pages.links import quoted
from ett_service.pages.render import page
from ett_service.pages.route import Asking, SignedIn, router

ROUTER = router()

_MOST_EVENTS = 50


@ROUTER.get("/jobs/{job}")
async def show_job(
    request: Request,
    job: str,
    session: SignedIn,
    ask: Asking,
    project: Annotated[str, Query(max_length=200)] = "",
    cursor: Annotated[str, Query(max_length=2000)] = "",
) -> Response:
    """Show all about a job."""
    path, scope = f"/v1/jobs/{quoted(job)}", {"project": project}
    question = Question(path, scope, is_list=False)
    answer = await ask(question)
    ledger_question = Question(f"{path}/ledger", scope)
    events_question = Question(f"{path}/events", {**scope, "limit": _MOST_EVENTS, "cursor": cursor})
    ledger, trace, stages, ranks, advice, events = await asyncio.gather(
        ask(ledger_question),
        ask(Question(f"{path}/trace", scope)),
        ask(Question(f"{path}/stages", scope)),
        ask(Question(f"{path}/ranks", scope)),
        _advice(ask, path, scope),
        ask(events_question),
    )
    moving = urlencode({"job": job} | ({"project": project} if project else {}))
    return page(
        request,
        "job.html",
        session,
        job=answer,
        facts=reasons.facts(answer),
        gantt=life.gantt_panel(answer, ledger, trace, ledger_question),
        bar=reasons.ledger_panel(answer, question),
        reasons=reasons.losses(answer, advice),
        attempts=life.attempts(answer, stages["stages"]),
        panels=[
            each
            for each in (
                life.recoveries(answer, question),
                life.runs(answer, question),
                life.stage_panel(stages, Question(f"{path}/stages", scope)),
                life.rank_panel(ranks, Question(f"{path}/ranks", scope)),
                reasons.quality(answer, question),
                reasons.definitions(answer, question),
            )
            if each is not None
        ],
        events=events["events"],
        events_question=events_question,
        more_events=_more(request, events["next_cursor"]),
        live=f"/live?{moving}" if answer["provisional"] else "",
        perfetto=Question(f"{path}/trace", scope, is_list=False),
        advice=advice,
    )


async def _advice(ask: Ask, path: str, scope: dict[str, str]) -> object:
    return await ask(Question(f"{path}/checkpoint-advice", scope))


def _more(request: Request, cursor: str | None) -> str:
    if cursor is None:
        return ""
    query = {name: text for name, text in request.query_params.items() if name != "cursor"}
    return f"?{urlencode({**query, 'cursor': cursor})}#events"
