"""How far the fleet's numbers can be trusted: time under no phase, jobs without accelerators."""

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from ett_service.charts.units import (
    cohort,
    count,
    duration,
    factor,
    many,
    percent,
    subject_in_words,
)
from ett_service.core.dimensions import GROUPS
from ett_service.pages.ask import Answer, Ask, Question
from ett_service.pages.links import dashboard
from ett_service.pages.panel import Cell, Fact, Panel, counted, table
from ett_service.pages.render import page
from ett_service.pages.route import Asking, SignedIn, router
from ett_service.pages.window import WINDOWS, View, Viewed
from ett_service.report.inputs import name_of, share

ROUTER = router()

_MOST_GROUPS = 30
_MOST_SERIES = 1_000  # as many as the API lists at once
_MOST_LISTS = 5  # that are read of them
_PAGE = 30
_ON_METRICS = (
    "Of late and rejected events and of silent attempts only counters are kept: "
    "`ett_ingest_event_lag_seconds`, `ett_ingest_events_rejected_total` and `ett_attempts_silent` "
    "on `/metrics`. A job's page lists what was inferred of it."
)
_UNSEARCHED = (
    "The fleet was not searched yet: that happens once a day. `ett detect --power` tries it."
)


@ROUTER.get("/quality")
async def show_quality(request: Request, session: SignedIn, view: Viewed, ask: Asking) -> Response:
    """Show what is missing in a window, and what the search for regressions could find."""
    grouped = {**view.window, "group_by": view.group_by, "limit": _MOST_GROUPS}
    summary = Question("/v1/fleet/summary", {**grouped, "distributions": "false"})
    power = Question("/v1/regressions/power", {**view.scope, "limit": _MOST_SERIES})
    answer = await ask(summary)
    searched = await _series(ask, power)
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
        panels=[
            _cohorts(answer["groups"], view, summary),
            _power(searched, power, view, _place(request)),
        ],
        note=_ON_METRICS,
        grafana=dashboard(request, "ett-service", (view.from_us, view.to_us)),
    )


async def _series(ask: Ask, question: Question) -> list[Answer]:
    """Return the series of the last search, of all pages of the list."""
    series: list[Answer] = []
    cursor = None
    for _ in range(_MOST_LISTS):
        answer = await ask(replace(question, query={**question.query, "cursor": cursor}))
        series += answer["power"]
        cursor = answer["next_cursor"]
        if cursor is None:
            break
    return series


def _place(request: Request) -> int:
    """Return with which of the series the shown ones begin."""
    text = request.query_params.get("series", "")
    return min(int(text), _MOST_SERIES * _MOST_LISTS) if text.isdecimal() else 0


def _unattributed(group: Answer) -> str:
    return percent(share(group["categories"]["unattributed"], group["e2e_seconds"]))


def _sentence(total: Answer) -> str:
    if not total["jobs"]:
        return "No job ran in this window."
    missing = total["jobs_without_accelerators"]
    whole = many(total["jobs"], "job")
    jobs = f"{count(missing)} of {whole} {'reports' if missing == 1 else 'report'} no accelerators"
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
        Fact("jobs left out", count(total["jobs_left_out"]), "alive for over 20,000 hours"),
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


def _power(searched: list[Answer], question: Question, view: View, place: int) -> Panel:
    ranked = sorted(searched, key=lambda each: (-each["recent"], -(each["smallest"] or 0)))
    series = ranked[place : place + _PAGE]
    left = len(ranked) - place - len(series)
    following = view.address(series=place + _PAGE) + "#power"
    return Panel(
        "power",
        "What the search for regressions could find",
        before=() if ranked else (_UNSEARCHED,),
        table=table(
            "what|cohort|#recent values|#baseline values|#smallest change",
            (
                (
                    subject_in_words(each),
                    cohort(each["cohort"]),
                    counted(count(each["recent"]), each["recent"]),
                    counted(count(each["baseline"]), each["baseline"]),
                    "none" if each["smallest"] is None else factor(each["smallest"]),
                )
                for each in series
            ),
        ),
        after=(
            "A smaller change is not found, however long it lasts; at `none` no change is.",
            "The series with most recent values stand first.",
        ),
        more=Cell(f"Next {count(min(left, _PAGE))} of {count(len(ranked))} series", href=following)
        if left > 0
        else None,
        question=question,
        is_wide=True,
    )
