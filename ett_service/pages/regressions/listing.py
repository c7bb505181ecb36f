"""The list of what the detector found."""

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from ett_service.charts.units import amount, cohort, factor, level_change, subject
from ett_service.pages.ask import Answer, Question
from ett_service.pages.dashboards import dashboard
from ett_service.pages.links import regression_page
from ett_service.pages.panel import Cell, table
from ett_service.pages.render import page
from ett_service.pages.route import Asking, SignedIn, router
from ett_service.pages.window import moment

ROUTER = router()

_STATES = ("pending", "firing", "resolved")
_VERDICTS = ("regression", "improvement", "mix", "attribute_change")
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
    answer = await ask(question)
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
            "what|cohort|verdict|state|#before and after|#factor|#GPU-hours a week|onset (UTC)"
            "|triage",
            [_row(finding) for finding in answer["regressions"]],
        ),
        following=f"/regressions?{urlencode({**kept, 'cursor': more}, doseq=True)}" if more else "",
        question=question,
        grafana=dashboard(request, "ett-regressions"),
    )


def _row(finding: Answer) -> tuple[Cell | str, ...]:
    return (
        Cell(subject(finding), href=regression_page(finding["id"], finding["project"])),
        cohort(finding["cohort"]),
        finding["verdict"].replace("_", " "),
        finding["state"] + (" (muted)" if finding["muted_until"] else ""),
        level_change(finding),
        factor(finding["ratio"]),
        amount(finding["impact"]["gpu_hours_per_week"]),
        moment(finding["onset_at"]),
        finding["triage"] or ("acknowledged" if finding["acknowledged_at"] else "-"),
    )
