"""A job: its life as a gantt, its ledger, why its ETT% is what it is, and what it reported."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from ett_service.pages.ask import Answer, Question
from ett_service.pages.jobs import life, reasons
from ett_service.pages.links import quoted
from ett_service.pages.panel import Panel
from ett_service.pages.render import page
from ett_service.pages.route import Asking, SignedIn, router
from ett_service.pages.sessions import Session

ROUTER = router()

_MOST_EVENTS = 50
_LISTS = ("ledger", "trace", "stages", "ranks", "checkpoint-advice")


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
    lists = {name: Question(f"{path}/{name}", scope) for name in _LISTS}
    lists["events"] = Question(f"{path}/events", {**scope, "limit": _MOST_EVENTS, "cursor": cursor})
    answer = await ask(question)
    answers = await ask.all(*lists.values())
    # Drawing takes tens of milliseconds, in which the loop would take no request.
    return await run_in_threadpool(
        _drawn,
        request,
        session,
        Gathered(answer, question, lists, dict(zip(lists, answers, strict=True))),
    )


@dataclass(frozen=True, slots=True)
class Gathered:
    """What the page is made of: the job, and the lists about it with their questions."""

    job: Answer
    question: Question
    questions: Mapping[str, Question]
    answers: Mapping[str, Answer]


def _drawn(request: Request, session: Session, gathered: Gathered) -> Response:
    job, answers, questions = gathered.job, gathered.answers, gathered.questions
    events = answers["events"]
    return page(
        request,
        "job.html",
        session,
        job=job,
        facts=reasons.facts(job),
        gantt=life.gantt_panel(job, answers["ledger"], answers["trace"], questions["ledger"]),
        bar=reasons.ledger_panel(job, gathered.question),
        reasons=reasons.losses(job, answers["checkpoint-advice"]),
        attempts=life.attempts(job, answers["stages"]["stages"]),
        panels=_panels(gathered),
        events=events["events"],
        events_question=questions["events"],
        more_events=_more(request, events["next_cursor"]),
        live=_live(request, job),
        perfetto=replace(questions["trace"], is_list=False),
    )


def _panels(gathered: Gathered) -> list[Panel]:
    job, question = gathered.job, gathered.question
    answers, questions = gathered.answers, gathered.questions
    panels = (
        life.recoveries(job, question),
        life.runs(job, question),
        life.stage_panel(answers["stages"], questions["stages"]),
        life.rank_panel(answers["ranks"], questions["ranks"]),
        reasons.quality(job, question),
        reasons.definitions(job, question),
    )
    return [panel for panel in panels if panel is not None]


def _live(request: Request, job: Answer) -> str:
    if not job["provisional"]:
        return ""
    project = request.query_params.get("project")
    return f"/live?{urlencode({'job': job['job']} | ({'project': project} if project else {}))}"


def _more(request: Request, cursor: str | None) -> str:
    if cursor is None:
        return ""
    query = {name: text for name, text in request.query_params.items() if name != "cursor"}
    return f"?{urlencode({**query, 'cursor': cursor})}#events"
