"""Two sets of jobs beside each other: two jobs, versions or weeks."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from ett_service.charts.bridge import Step, bridge
from ett_service.charts.units import count, factor, percent, points, value
from ett_service.pages.ask import Answer, Question
from ett_service.pages.links import dashboard, job_page, losing_jobs
from ett_service.pages.panel import FEW, Cell, Panel, table
from ett_service.pages.render import page
from ett_service.pages.route import Asking, SignedIn, router
from ett_service.pages.window import day_begin, day_end

ROUTER = router()

_FIGURES = {
    "time_to_start": "time to start",
    "attempt_start": "start of an attempt",
    "time_to_recover": "time to recover",
    "unsaved_training": "unsaved training",
    "step_time": "step time",
    "ett_ratio": "ETT%",
    "failures_per_gpu_hour": "failures per GPU-hour",
}
_NAMES = ("base", "with", "base_from", "base_to", "with_from", "with_to", "project")
_OFFERED = ("model", "code_version", "cluster", "hardware", "team", "kind", "job")
_RECENT = 50


@ROUTER.get("/compare")
async def show_comparison(
    request: Request,
    session: SignedIn,
    ask: Asking,
    project: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Show what differs between two sets of jobs."""
    given = {name: request.query_params.get(name, "").strip() for name in _NAMES}
    question = Question("/v1/regressions/compare", {**_split(given), "project": project})
    is_asked = bool(given["base"] and given["with"]) or bool(given["base_to"] or given["with_from"])
    recent = Question("/v1/jobs", {"project": project, "sort": "-started_at", "limit": _RECENT})
    models = Question("/v1/fleet/summary", {"project": project, "group_by": "model"})
    first, jobs = await ask.all(question if is_asked else models, recent)
    answer = first if is_asked else None
    return page(
        request,
        "compare.html",
        session,
        given=given,
        sentence=_sentence(answer) if answer else "Two sets of jobs, beside each other",
        certainty=_certainty(answer) if answer and not _empty(answer) else "",
        answer=answer,
        offered=_offered(jobs["jobs"]),
        examples=[] if answer else _examples(first["groups"], jobs["jobs"], project),
        panels=[
            _difference(answer, question),
            _figures(answer, question),
            _shares(answer, question),
        ]
        if answer and not _empty(answer)
        else [],
        grafana=dashboard(request, "ett-sql-compare"),
    )


def _split(given: dict[str, str]) -> dict[str, object]:
    """Read several conditions of a field, apart by spaces, and days as instants."""
    query: dict[str, object] = {name: given[name].split() for name in ("base", "with")}
    for side in ("base", "with"):
        query[f"{side}_from"] = day_begin(given[f"{side}_from"])
        query[f"{side}_to"] = day_end(given[f"{side}_to"])
    return query


def _offered(jobs: Sequence[Answer]) -> list[str]:
    """Return the conditions that the latest jobs meet."""
    met = (f"{name}:{job[name]}" for name in _OFFERED for job in jobs if job[name])
    return [condition for condition in dict.fromkeys(met) if _is_one(condition)]


def _examples(models: Sequence[Answer], jobs: Sequence[Answer], project: str) -> list[Cell]:
    """Lead to the two models with most time, and to the latest job that has any and its model."""
    named = (f"model:{each['group']['model']}" for each in models if each["group"].get("model"))
    most = [condition for condition in named if _is_one(condition)][:2]
    lived = [job for job in jobs if job["model"] and job["e2e_seconds"]]
    beside = [(f"model:{job['model']}", f"job:{job['job']}") for job in lived]
    pairs = [tuple(most)] if most[1:] else []
    pairs += [pair for pair in beside if all(map(_is_one, pair))][:1]
    return [
        Cell(
            f"{base} and {other}",
            href=Question("/compare", {"base": base, "with": other, "project": project}).address,
        )
        for base, other in pairs
    ]


def _is_one(condition: str) -> bool:
    """Tell whether a field, which parts conditions at spaces, reads it as one."""
    return not any(mark.isspace() for mark in condition)


def _sentence(answer: Answer) -> str:
    """Say by how much ETT% differs, which is exact, and what most of that is."""
    if empty := _empty(answer):
        return f"No job matches {' and '.join(empty)}: there is nothing to compare."
    ett = answer["ett"]
    if not ett["parts"]:
        return "A set has no time, so it has no ETT%."
    apart = ett["points"]
    if f"{abs(apart):.1f}" == "0.0":
        return f"ETT% is {percent(ett['with_ratio'])} in both, by wall time."
    most = max(ett["parts"], key=lambda part: part["points"] * apart)
    return (
        f"ETT% {abs(apart):.1f} points {'higher' if apart > 0 else 'lower'}, "
        f"{percent(ett['with_ratio'])} beside {percent(ett['base_ratio'])} by wall time; "
        f"{most['category']} explains {abs(most['points']):.1f}."
    )


def _certainty(answer: Answer) -> str:
    """Say what of it chance would not make."""
    few = "With one job, that cannot be told from chance. " if _is_of_one_job(answer) else ""
    differing = [each for each in answer["compared"] if each["outcome"] in {"worse", "better"}]
    if not differing:
        return f"{few}No figure differs by more than chance would make it."
    first = max(differing, key=lambda each: abs((each["worse_by"] or 1.0) - 1.0))
    worse = sum(each["outcome"] == "worse" for each in differing)
    return (
        f"{few}{count(worse)} worse, {count(len(differing) - worse)} better of "
        f"{count(len(answer['compared']))} figures; {_in_words(first['figure'])} differs "
        f"most: {factor(first['ratio'])}, {first['outcome']}."
    )


def _is_of_one_job(answer: Answer) -> bool:
    return 1 in (answer["base"]["job_count"], answer["with"]["job_count"])


def _in_words(figure: str) -> str:
    """Name a figure; phases and stages are called what their events call them."""
    return _FIGURES.get(figure, figure)


def _empty(answer: Answer) -> list[str]:
    """Return the names of the sets that have no job."""
    names = {"base": "the base", "with": "the other set"}
    return [name for side, name in names.items() if not answer[side]["job_count"]]


def _difference(answer: Answer, question: Question) -> Panel:
    """Draw which categories lead from the ETT% of one set to that of the other."""
    ett = answer["ett"]
    parts = ett["parts"]

    def lead(part: Answer) -> str:
        return _jobs_with(part["category"], answer["with"], question)

    return Panel(
        "difference",
        "Why ETT% differs",
        before=() if parts else ("A set has no time, so there is nothing to compare.",),
        chart=bridge(
            "difference",
            "From the ETT% of the base to that of the other set, category by category",
            ("base", ett["base_ratio"]),
            [Step(part["category"], part["points"] / 100, lead(part)) for part in parts],
            ("with", ett["with_ratio"]),
        )
        if parts
        else None,
        table=table(
            "category|#points|#share of the base|#share of the other",
            (
                (
                    Cell(part["category"], href=lead(part), swatch=part["category"]),
                    points(part["points"] / 100),
                    percent(part["base"]),
                    percent(part["with"]),
                )
                for part in parts
            ),
        ),
        after=(
            "By wall time, all time of a set together: a long job counts more than a short one.",
            "The figures below count each job once, so their ETT% may differ and move otherwise.",
            "The parts add up to the difference exactly.",
        ),
        question=question.of("ett.parts"),
        is_wide=True,
    )


def _jobs_with(category: str, chosen: Answer, question: Question) -> str:
    """Return where the jobs of a set stand that have most of a category."""
    project = str(question.query["project"])
    names = chosen["jobs"]
    if names:
        is_one = len(names) == 1 and not set("*?[") & set(names[0])
        return f"{job_page(names[0], project)}#why" if is_one else ""
    where = [f"{name}:{value}" for name, values in chosen["where"].items() for value in values]
    return losing_jobs(where, project, (chosen["from"], chosen["to"]), category)


def _figures(answer: Answer, question: Question) -> Panel:
    rows = [
        (
            _in_words(each["figure"]),
            _level(each["base"], each),
            _level(each["with"], each),
            factor(each["ratio"]),
            _between(each["ratio_interval"]),
            each["outcome"].replace("_", " "),
        )
        for each in answer["compared"]
    ]
    return Panel(
        "figures",
        "What differs",
        table=table("figure|#base|#with|#factor|interval|outcome", rows),
        after=(
            f"Medians and rates; fewer than {FEW} values are faint.",
            "n counts attempts; of the time to start and of ETT%, jobs; of failures, failures.",
            "An attempt that was preempted is no failure, but may leave training unsaved.",
            "The factor is the median of all pairs of values: near 1 it may point the other way.",
            f"Intervals are at {answer['confidence']:.0%}. {answer['note']}",
        ),
        question=question,
        is_wide=True,
    )


def _level(side: Answer, each: Answer) -> Cell:
    text = f"{value(each['unit'], side['value'])} (n={count(side['n'])})"
    return Cell(text, is_faint=side["n"] < FEW)


def _between(bounds: Answer | None) -> str:
    if bounds is None or bounds["high"] is None:
        return "-" if not (bounds and bounds["low"]) else f"{factor(bounds['low'])} or more"
    return f"{factor(bounds['low'])} to {factor(bounds['high'])}"


def _shares(answer: Answer, question: Question) -> Panel:
    shares = answer["start_shares"] or {}
    return Panel(
        "shares",
        "Where a change of the start comes from",
        before=() if shares else ("The starts do not differ.",),
        table=table(
            "phase|#share of the change",
            (
                (name, percent(part))
                for name, part in sorted(shares.items(), key=lambda each: -abs(each[1]))
            ),
        ),
        question=question.of("start_shares"),
    )
