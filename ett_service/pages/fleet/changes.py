"""What goes with each marker: before and after it, and the way from marker to marker."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from ett_service.charts.units import cohort, count, duration, longer, many, percent, points
from ett_service.core.dimensions import DIMENSIONS, GROUPS
from ett_service.pages.ask import Answer, Question
from ett_service.pages.links import dashboard
from ett_service.pages.panel import Cell, Panel, counted, table
from ett_service.pages.render import page
from ett_service.pages.route import Asking, SignedIn, router
from ett_service.pages.window import WINDOWS, Viewed, moment
from ett_service.report.changes import waterfall

ROUTER = router()

_MOST = 20
_MEASURES = {
    "time_to_start": "time to start",
    "time_to_recover": "time to recover",
    "pt2_compile": "pt2_compile",
    "checkpoint_blocking": "checkpoint blocking",
}
_UNMARKED = (
    "There is no marker in this window: `ett markers add --kind deploy TITLE` adds one, and every "
    "deploy may do so."
)


@ROUTER.get("/changes")
async def show_changes(request: Request, session: SignedIn, view: Viewed, ask: Asking) -> Response:
    """Show what changed around the markers of the window."""
    question = Question("/v1/fleet/changes", {**view.window, "limit": _MOST})
    answer = await ask(question)
    return page(
        request,
        "planning.html",
        session,
        title="Changes",
        sentence=_sentence(answer),
        view=view,
        windows=tuple(WINDOWS),
        dimensions=GROUPS,
        facts=[],
        panels=[
            _waterfall(answer, question),
            *(
                _change(place, each, question, answer["confidence"])
                for place, each in enumerate(answer["changes"])
            ),
        ],
        note=answer["note"],
        grafana=dashboard(request, "ett-sql-changes", (view.from_us, view.to_us)),
    )


def _sentence(answer: Answer) -> str:
    change = answer["waterfall"]["change_seconds"]
    changes = many(len(answer["changes"]), "marker")
    if change is None:
        return f"{changes} in this window."
    return f"{changes}; the mean time to start changed by {longer(change)} over this window."


def _waterfall(answer: Answer, question: Question) -> Panel:
    steps = answer["waterfall"]["steps"]
    return Panel(
        "waterfall",
        "Time to start, from marker to marker",
        before=() if len(steps) > 1 else (_UNMARKED,),
        chart=waterfall(steps, "Mean time to start, from marker to marker")
        if len(steps) > 1
        else None,
        table=table(
            "marker|since (UTC)|#n|#mean time to start|#step",
            (
                (
                    step["marker"]["title"] if step["marker"] else "(before)",
                    moment(step["from"]),
                    counted(count(step["n"]), step["n"]),
                    duration(step["mean_seconds"]),
                    longer(step["step_seconds"]),
                )
                for step in steps
            ),
        ),
        after=(
            "By wall time. The steps sum to the whole change.",
            "Steps are deploys and launches, and what came before the window is not in them.",
        ),
        question=question.of("waterfall.steps"),
        is_wide=True,
    )


def _change(place: int, change: Answer, question: Question, confidence: float) -> Panel:
    marker, ett = change["marker"], change["ett"]
    rows: list[tuple[Cell | str, ...]] = [
        (
            _MEASURES[effect["measure"]],
            counted(duration(effect["before"]["mean_seconds"]), effect["before"]["n"]),
            counted(duration(effect["after"]["mean_seconds"]), effect["after"]["n"]),
            longer(effect["difference_seconds"]),
            _between(effect["difference_interval"], longer),
        )
        for effect in change["effects"]
    ]
    rows.append(
        (
            "ETT%",
            percent(ett["before"]),
            percent(ett["after"]),
            points(None if ett["points"] is None else ett["points"] / 100),
            _between(ett["points_interval"], lambda bound: points(bound / 100)),
        )
    )
    return Panel(
        f"marker-{marker['id']}",
        f"{marker['kind']}: {marker['title']}, {moment(marker['at'])}",
        table=table(f"mean of|#before|#after|#difference|{confidence:.0%} interval", rows),
        after=_around(change),
        question=question.of(f"changes.{place}.effects"),
    )


def _around(change: Answer) -> tuple[str, ...]:
    """Say which days, and which jobs, the numbers around a marker are of."""
    begin, end = moment(change["before"]["from"]), moment(change["after"]["to"])
    labels = change["marker"]["labels"].items()
    among = {name: text for name, text in labels if name in DIMENSIONS and name != "code_version"}
    jobs = f"jobs of {cohort(among)}" if among else "all jobs"
    return (
        f"Of {jobs}, from {begin} to {end} (UTC).",
        "ETT% is by accelerators, the others by wall time.",
    )


def _between(bounds: Answer | None, shown: Callable[[float], str]) -> str:
    if bounds is None:
        return "-"
    return f"{shown(bounds['low'])} to {shown(bounds['high'])}"
