"""How far the fleet's numbers can be trusted: time under no phase, jobs without accelerators."""

from starlette.requests import Request
from starlette.responses import Response

from ett_service.charts.units import count, duration, factor, percent
from ett_service.core.dimensions import GROUPS
from ett_service.pages.ask import Answer, Question
from ett_service.pages.fleet.course import Fact
from ett_service.pages.panel import Cell, Panel, counted, table
from ett_service.pages.render import page
from ett_service.pages.route import Asking, SignedIn, now_of, router
from ett_service.pages.window import WINDOWS, View, view_of
from ett_service.report.inputs import name_of, share

ROUTER = router()

_MOST_GROUPS = 30
_MOST_SERIES = 30
_UNSEARCHED = (
    "The fleet was not searched yet: that happens once a day. `ett detect --power` tries it."
)


@ROUTER.get("/quality")
async def show_quality(request: Request, session: SignedIn, ask: Asking) -> Response:
    """Show what is missing in a window, and what the search for regressions could find."""
    view = view_of(request, now_of(request))
    grouped = {**view.window, "group_by": view.group_by, "limit": _MOST_GROUPS}
    summary = Question("/v1/fleet/summary", {**grouped, "distributions": "false"})
    power = Question("/v1/regressions/power", {**view.scope, "limit": _MOST_SERIES})
    answer, searched = await ask.all(summary, power)
    total = answer["total"]
    return page(
        request,
        "planning.html",
        session,
        title="Data quality",
        sentence=_sentence(total),
        view=view,
        windows=tuple(WINDOWS),
        dimensions=GROUPS,
        facts=_facts(answer),
        panels=[_cohorts(answer["groups"], view, summary), _power(searched, power)],
        note="",
    )


def _unattributed(group: Answer) -> str:
    return percent(share(group["categories"]["unattributed"], group["e2e_seconds"]))


def _sentence(total: Answer) -> str:
    if not total["jobs"]:
        return "No job ran in this window."
    missing = total["jobs_without_accelerators"]
    jobs = f"{count(missing)} of {count(total['jobs'])} jobs report no accelerators"
    return f"{_unattributed(total)} of the time is under no phase; {jobs}."


def _facts(answer: Answer) -> list[Fact]:
    total = answer["total"]
    return [
        Fact("unattributed", _unattributed(total), "of E2E, by wall time"),
        Fact(
            "jobs without accelerators",
            count(total["jobs_without_accelerators"]),
            f"{duration(total['unweighted_seconds'])} without a weight",
        ),
        Fact("jobs left out", count(total["jobs_left_out"]), "excluded by somebody"),
        Fact("merged cohorts", count(answer["other_cohorts"]), "beyond the daily cap"),
    ]


def _cohorts(groups: list[Answer], view: View, question: Question) -> Panel:
    return Panel(
        "cohorts",
        f"By {view.group_by}",
        table=table(
            f"{view.group_by}|#jobs|#unattributed|#jobs without accelerators|#jobs left out",
            (_cohort(group, view) for group in groups),
        ),
        after=("A job without accelerators has no part in numbers by accelerators.",),
        question=question,
        is_wide=True,
    )


def _cohort(group: Answer, view: View) -> tuple[Cell | str, ...]:
    href = "" if group["other"] else view.narrowed(view.group_by, group["group"][view.group_by])
    return (
        Cell(name_of(group, [view.group_by]), href=href),
        counted(count(group["jobs"]), group["jobs"]),
        _unattributed(group),
        count(group["jobs_without_accelerators"]),
        count(group["jobs_left_out"]),
    )


def _power(searched: Answer, question: Question) -> Panel:
    series = searched["power"]
    return Panel(
        "power",
        "What the search for regressions could find",
        before=() if series else (_UNSEARCHED,),
        table=table(
            "what|cohort|#recent values|#baseline values|#smallest change",
            (
                (
                    " / ".join(filter(None, map(each.get, ("metric", "phase", "stage", "cause")))),
                    " ".join(f"{name}:{text}" for name, text in each["cohort"].items()) or "(all)",
                    counted(count(each["recent"]), each["recent"]),
                    counted(count(each["baseline"]), each["baseline"]),
                    factor(each["smallest"]),
                )
                for each in series
            ),
        ),
        after=("A smaller change is not found, however long it lasts.",),
        question=question,
        is_wide=True,
    )
