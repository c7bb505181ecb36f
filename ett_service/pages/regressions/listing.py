"""The list of what the detector found."""

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from ett_service.charts.units import (
    amount,
    cohort,
    cost,
    count,
    factor,
    level_change,
    subject_in_words,
)
from ett_service.pages.ask import Answer, Question
from ett_service.pages.links import dashboard, regression_page
from ett_service.pages.panel import ARROW, Cell, Panel, table
from ett_service.pages.regressions.standing import standing
from ett_service.pages.render import page
from ett_service.pages.route import Asking, SignedIn, router
from ett_service.pages.window import moment

ROUTER = router()

_STATES = ("pending", "firing", "resolved")
_VERDICTS = ("regression", "improvement", "incident", "relabelling", "mix", "small")
_FILTERS = ("state", "verdict", "phase", "where", "project")
_SORTS = ("-onset_at", "-gpu_hours_per_week", "-ratio", "-last_run_at")
_PAGE = 50


@ROUTER.get("/regressions")
async def show_regressions(request: Request, session: SignedIn, ask: Asking) -> Response:
    """Show a page of findings."""
    given = request.query_params
    filters = {name: given.getlist(name) for name in _FILTERS if given.get(name)}
    sort = given.get("sort") or _SORTS[0]
    query = {**filters, "sort": sort, "limit": _PAGE, "cursor": given.get("cursor")}
    question = Question("/v1/regressions", query)
    by_cause = Question(
        "/v1/regressions/causes",
        {name: filters[name] for name in ("where", "project") if name in filters},
    )
    answer, causes = await ask.all(question, by_cause)
    more = answer["next_cursor"]
    kept = {**filters, "sort": sort}
    return page(
        request,
        "regressions.html",
        session,
        filters={name: texts[0] for name, texts in filters.items()},
        states=_STATES,
        verdicts=_VERDICTS,
        sorts=_SORTS,
        sort=sort,
        table=table(
            "what|cohort|verdict|state|#before and after|#factor|#GPU-hours a week|onset (UTC)",
            [_row(finding) for finding in answer["regressions"]],
        ),
        following=f"/regressions?{urlencode({**kept, 'cursor': more}, doseq=True)}" if more else "",
        causes=_causes(causes, by_cause),
        small=_small(answer["small"]),
        question=question,
        grafana=dashboard(request, "ett-regressions"),
    )


def _small(findings: int) -> str:
    return f"{count(findings)} more cost less than the floor." if findings else ""


def _causes(answer: Answer, question: Question) -> Panel | None:
    """List what fires by its cause, with one total cost for each."""
    if not answer["causes"]:
        return None
    total = cost({**answer["total"], "ett_points": None})
    return Panel(
        "causes",
        "By cause",
        table=table(
            "cause|what|#cohorts|#GPU-hours a week|since (UTC)|findings",
            [_cause_row(cause) for cause in answer["causes"]],
        ),
        after=(f"All together cost {total}. What is part of another counts once.",),
        question=question,
        is_table_open=True,
    )


def _cause_row(cause: Answer) -> tuple[Cell | str, ...]:
    named = f"{cause['dimension']} {cause['value']}" if cause["dimension"] else "unknown"
    first, more = cause["findings"][0], len(cause["findings"]) - 1
    return (
        named,
        subject_in_words(cause),
        count(len(cause["cohorts"])),
        amount(cause["cost"]["gpu_hours_per_week"]),
        moment(cause["onset_at"]),
        Cell(
            f"the costliest of {count(more + 1)}" if more else "the only one",
            href=regression_page(first, cause["project"]),
        ),
    )


def _row(finding: Answer) -> tuple[Cell | str, ...]:
    return (
        Cell(subject_in_words(finding), href=regression_page(finding["id"], finding["project"])),
        cohort(finding["cohort"]),
        finding["verdict"].replace("_", " "),
        standing(finding),
        level_change(finding, ARROW),
        factor(finding["ratio"]),
        amount(finding["impact"]["gpu_hours_per_week"]),
        moment(finding["onset_at"]),
    )
