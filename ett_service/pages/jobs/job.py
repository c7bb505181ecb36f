"""A job: its life as a gantt, its ledger, why its ETT% is what it is, and what it reported."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from ett_service.core.intervals import DAY_US
from ett_service.ingest.members import parse_instant
from ett_service.pages.ask import Answer, Question
from ett_service.pages.jobs import head, life, reasons
from ett_service.pages.links import dashboard, part_page, quoted
from ett_service.pages.panel import Cell, Panel
from ett_service.pages.render import page
from ett_service.pages.route import Asking, SignedIn, now_of, router
from ett_service.pages.sessions import Session
from ett_service.pages.window import written

ROUTER = router()

_COHORT_DAYS = 28
_LISTS = ("ledger", "attempts", "checkpoints", "checkpoint-advice")


@ROUTER.get("/jobs/{job}")
async def show_job(
    request: Request,
    job: str,
    session: SignedIn,
    ask: Asking,
    project: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Show all about a job."""
    path, scope = f"/v1/jobs/{quoted(job)}", {"project": project}
    question = Question(path, scope, is_list=False)
    lists = {name: Question(f"{path}/{name}", scope) for name in _LISTS}
    answer = await ask(question)
    # The attempts are in the answer about the job already.
    gone = {"attempts", *(["ledger"] if answer["pruned_at"] else [])}
    shown = [name for name in _LISTS if name not in gone and answer["started_at"]]
    *answers, cohort = await ask.all(*(lists[name] for name in shown), _cohort(answer, project))
    gathered = Gathered(
        answer, question, lists, dict(zip(shown, answers, strict=True)), cohort["total"], project
    )
    # Drawing takes tens of milliseconds, in which the loop would take no request.
    return await run_in_threadpool(_drawn, request, session, gathered)


@dataclass(frozen=True, slots=True)
class Gathered:
    """What the page is made of: the job, and the lists about it with their questions."""

    job: Answer
    question: Question
    questions: Mapping[str, Question]
    answers: Mapping[str, Answer]
    cohort: Answer  #: the jobs of the same model in the weeks before
    project: str


def _cohort(job: Answer, project: str) -> Question:
    """Ask about the jobs of the same model in the weeks up to the day of this job's end.

    Whole days are kept for ever, hours may be pruned.
    """
    end_us = -(-parse_instant(job["ended_at"] or job["as_of"]) // DAY_US) * DAY_US
    query: dict[str, object] = {
        "project": project,
        "where": f"model:{job['model'] or ''}",
        "from": written(end_us - _COHORT_DAYS * DAY_US),
        "to": written(end_us),
    }
    return Question("/v1/fleet/summary", query)


def _drawn(request: Request, session: Session, gathered: Gathered) -> Response:
    job, project = gathered.job, gathered.project
    return page(
        request,
        "job.html",
        session,
        job=job,
        versions=head.versions(job),
        behind=head.behind(job, now_of(request)),
        live=_live(job, project),
        grafana=_dashboard(request, job, project or session.key.project),
        **(_life(gathered) if job["started_at"] else _before_it(gathered)),
    )


def _life(gathered: Gathered) -> Mapping[str, Any]:
    """Return what there is to say of a job that has begun."""
    job, advice = gathered.job, gathered.answers["checkpoint-advice"]
    losses = reasons.losses(job, advice, gathered.project)
    return {
        "sentence": head.sentence(job, losses),
        "facts": head.facts(job, advice, gathered.cohort),
        "gantt": _gantt(gathered),
        "reasons": losses,
        "panels": [reasons.ledger_panel(job, gathered.question), *_panels(gathered)],
        "more": [] if job["pruned_at"] else _more(job, gathered.project),
    }


def _before_it(gathered: Gathered) -> Mapping[str, Any]:
    """Return what is known of a job of which no attempt has begun: its wait, and nothing else."""
    job, question = gathered.job, gathered.question
    panels = (life.waits(job, question), life.exclusions(job, question))
    return {
        "sentence": head.sentence(job, ()),
        "facts": head.facts_of_the_queued(job, gathered.cohort),
        "gantt": None,
        "reasons": [],
        "panels": [panel for panel in panels if panel is not None],
        "more": [] if job["pruned_at"] else [_raw_events(job["job"], gathered.project)],
    }


def _gantt(gathered: Gathered) -> Panel:
    job, answers, question = gathered.job, gathered.answers, gathered.questions["ledger"]
    if job["pruned_at"]:
        return life.pruned_panel(job, question)
    return life.gantt_panel(
        job, answers["ledger"], answers["checkpoints"], question, gathered.project
    )


def _panels(gathered: Gathered) -> list[Panel]:
    job, question = gathered.job, gathered.question
    panels = (
        life.attempts(job, gathered.questions["attempts"], gathered.project),
        life.recoveries(job, question),
        life.waits(job, question),
        life.exclusions(job, question),
        life.runs(job, question),
        reasons.speed_panel(job, question),
        reasons.quality(job, question),
        reasons.definitions(job, question),
    )
    return [panel for panel in panels if panel is not None]


def _live(job: Answer, project: str) -> str:
    if not job["provisional"]:
        return ""
    return f"/live?{urlencode({'job': job['job']} | ({'project': project} if project else {}))}"


def _dashboard(request: Request, job: Answer, project: str) -> str:
    life = None
    if job["started_at"]:
        start_us, end_us = (parse_instant(job[end]) for end in ("started_at", "ended_at"))
        life = (start_us, end_us)
    return dashboard(request, "ett-sql-job", life, project=project, job=job["job"])


def _raw_events(job: str, project: str) -> Cell:
    return Cell("Raw events", href=part_page(job, "events", project))


def _more(answer: Answer, project: str) -> list[Cell]:
    """Return where else there is something about a job."""
    job, model = answer["job"], answer["model"]
    trace = Question(f"/v1/jobs/{quoted(job)}/trace", {"project": project}, is_list=False)
    links = [
        Cell("Stages", href=part_page(job, "stages", project)),
        Cell("Compile", href=part_page(job, "compile", project)),
        _raw_events(job, project),
        Cell("Trace for Perfetto", href=trace.file, title="download"),
    ]
    if model and not any(mark.isspace() for mark in job + model):  # which parts conditions there
        sets = {"base": f"model:{model}", "with": f"job:{job}", "project": project}
        links.insert(0, Cell("Beside its model", href=Question("/compare", sets).address))
    return links
