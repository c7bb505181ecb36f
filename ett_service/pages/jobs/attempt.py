"""An attempt: its phases and stages as bars, what they add up to, and its ranks and hosts."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from ett_service.api.problems import Problem, ProblemKind
from ett_service.charts.gantt import CategorySpan, Row, gantt
from ett_service.charts.units import count, duration, percent
from ett_service.core.words import Category
from ett_service.pages.ask import Answer, Question
from ett_service.pages.jobs.events import OWN_TIME, WHOLE
from ett_service.pages.jobs.life import axis, evidence, since_midnight, unix
from ett_service.pages.links import attempt_page, dashboard, job_page, quoted
from ett_service.pages.panel import Cell, Fact, Panel, Table, table
from ett_service.pages.render import page
from ett_service.pages.route import Asking, SignedIn, router
from ett_service.pages.window import moment
from ett_service.report.stages import own_seconds

ROUTER = router()

_MOST_RANKS = 64
_MOST_LANES = 40
_SHORT = 0.25  # of the attempt
_BEYOND = 1.05  # the begin of the loop is seen, too

# A phase has the colour of its category.
_CATEGORIES = {"train_loop": Category.EFFECTIVE_TRAINING, "queued": Category.SCHEDULING}


@ROUTER.get("/jobs/{job}/attempts/{number}")
async def show_attempt(
    request: Request,
    job: str,
    number: Annotated[int, Path(ge=0)],
    session: SignedIn,
    ask: Asking,
    project: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Show an attempt."""
    path, scope = f"/v1/jobs/{quoted(job)}", {"project": project}
    list_question = Question(f"{path}/attempts", scope)
    question = Question(f"{path}/attempts/{number}", scope, is_list=False)
    listed, timeline = await ask.all(list_question, question)
    attempts = listed["attempts"]
    if number >= len(attempts):
        raise Problem(ProblemKind.NOT_FOUND)
    attempt = attempts[number]
    return page(
        request,
        "attempt.html",
        session,
        job=job,
        attempt=attempt,
        sentence=_sentence(attempt),
        up=job_page(job, project),
        others=_others(job, number, len(attempts), project),
        facts=_facts(attempt),
        panels=[
            *_start(timeline, question),
            _lanes(timeline, question),
            _stages(timeline, question),
            *_ranks(timeline, question),
            _rest(attempt, list_question),
        ],
        grafana=dashboard(request, "ett-sql-job", project=project or session.key.project, job=job),
    )


def _sentence(attempt: Answer) -> str:
    length = duration(unix(attempt["ended_at"]) - unix(attempt["started_at"]))
    if attempt["outcome"] == "running":
        return f"Attempt {attempt['number']} has been running for {length}"
    return f"Attempt {attempt['number']}, after {length}: {evidence(attempt)}"


def _others(job: str, number: int, attempts: int, project: str) -> list[Cell]:
    near = [("Attempt before", number - 1), ("Attempt after", number + 1)]
    return [
        Cell(name, href=attempt_page(job, other, project))
        for name, other in near
        if 0 <= other < attempts
    ]


def _facts(attempt: Answer) -> list[Fact]:
    effective = attempt["categories"].get(Category.EFFECTIVE_TRAINING, 0.0)
    return [
        Fact("effective_training", duration(effective), "wall time"),
        Fact("repeated_training", _category(attempt, Category.REPEATED_TRAINING), "wall time"),
        Fact("stalled", _category(attempt, Category.STALLED), "wall time"),
        Fact("unsaved training", duration(attempt["unsaved_training_seconds"]), "lost at its end"),
        Fact("accelerators", count(attempt["gpus"]), f"launch {attempt['launch'] or '-'}"),
        Fact("last step", count(attempt["last_step"]), f"code {attempt['code_version'] or '-'}"),
    ]


def _category(attempt: Answer, category: Category) -> str:
    return duration(attempt["categories"].get(category, 0.0))


def _lanes(timeline: Answer, question: Question) -> Panel:
    """Draw a row for each phase, and below it one for each of its stages."""
    begin = timeline["started_at"]
    length = unix(timeline["ended_at"]) - unix(begin)
    rows = lanes(timeline["spans"], unix(begin))
    return Panel(
        "lanes",
        "Phases and stages",
        before=() if rows else ("Neither a phase nor a stage was reported.",),
        chart=gantt(
            "lanes",
            "Phases and stages over time",
            rows[:_MOST_LANES],
            length,
            axis(begin, length),
            since_midnight(begin),
        )
        if rows
        else None,
        table=_spans(timeline["spans"][:200]),
        after=(
            f"As rank {timeline['lead_rank']} and launchers reported them; spans may overlap."
            if timeline["lead_rank"] is not None
            else "As it was reported; spans may overlap.",
        ),
        question=question.of("spans"),
        is_wide=True,
    )


def _spans(spans: Iterable[Answer]) -> Table | None:
    return table(
        "phase|stage|begin (UTC)|#length|its end",
        (
            (
                span["phase"],
                span["stage"] or WHOLE,
                moment(span["start"]),
                duration(unix(span["end"]) - unix(span["start"])),
                "reported" if span["ended"] else "inferred",
            )
            for span in spans
        ),
    )


def _start(timeline: Answer, question: Question) -> list[Panel]:
    """Draw what comes before the loop by itself, where it is too short to be seen beside it."""
    begin, end = unix(timeline["started_at"]), unix(timeline["ended_at"])
    loops = [unix(span["start"]) for span in timeline["spans"] if span["phase"] == "train_loop"]
    until = (min(loops, default=begin) - begin) * _BEYOND
    if not 0 < until < (end - begin) * _SHORT:
        return []
    rows = [_cut(row, until) for row in lanes(timeline["spans"], begin)]
    shown = axis(timeline["started_at"], until)
    title = "Phases and stages until the training loop"
    return [
        Panel(
            "start",
            "Until the loop",
            chart=gantt(
                "start",
                title,
                [row for row in rows if row.stretches],
                until,
                shown,
                since_midnight(timeline["started_at"]),
            ),
            table=_spans(span for span in timeline["spans"] if unix(span["start"]) < begin + until),
            question=question.of("spans"),
            is_wide=True,
        )
    ]


def _cut(row: Row, until_s: float) -> Row:
    """Leave out what comes later."""
    stretches = [
        replace(stretch, end_s=min(stretch.end_s, until_s))
        for stretch in row.stretches
        if stretch.start_s < until_s
    ]
    return replace(row, stretches=stretches)


def lanes(spans: Iterable[Answer], origin: float) -> list[Row]:
    """Return a row for each phase and stage, a phase before its stages."""
    by_lane: dict[tuple[str, str], list[CategorySpan]] = {}
    first: dict[str, float] = {}
    for span in spans:
        phase, stage = span["phase"], span["stage"] or ""
        category = _CATEGORIES.get(phase) or Category(phase)
        start_s, end_s = unix(span["start"]) - origin, unix(span["end"]) - origin
        first.setdefault(phase, start_s)
        by_lane.setdefault((phase, stage), []).append(CategorySpan(start_s, end_s, category))
    ordered = sorted(by_lane, key=lambda lane: (first[lane[0]], lane[0], _first(by_lane, lane)))
    return [
        Row(f"- {stage}" if stage else phase, by_lane[phase, stage]) for phase, stage in ordered
    ]


def _first(
    by_lane: dict[tuple[str, str], list[CategorySpan]], lane: tuple[str, str]
) -> tuple[bool, float]:
    return bool(lane[1]), by_lane[lane][0].start_s


def _stages(timeline: Answer, question: Question) -> Panel:
    stages = timeline["stages"]
    length = unix(timeline["ended_at"]) - unix(timeline["started_at"])
    spans = sum(stage["inclusive_seconds"] for stage in stages)
    share = percent(spans / length if length else 0.0)
    return Panel(
        "stages",
        "Time by stage",
        table=table(
            "phase|stage|#spans|#inclusive|#own|#skew of ranks",
            (
                (
                    stage["phase"],
                    stage["stage"] or WHOLE,
                    count(stage["spans"]),
                    duration(stage["inclusive_seconds"]),
                    duration(own),
                    duration(stage["skew_seconds"]),
                )
                for stage, own in zip(stages, own_seconds(stages), strict=True)
            ),
        ),
        after=(
            f"Spans add up to {share} of the attempt, the ledger to 100%.",
            OWN_TIME,
            "Skew is the slowest rank over the median.",
        ),
        question=question.of("stages"),
        is_wide=True,
    )


def _ranks(timeline: Answer, question: Question) -> list[Panel]:
    """Show what ranks and hosts take for a step, the slowest first; nothing where none reports."""
    listed = sorted(timeline["ranks"], key=lambda rank: -rank["step_seconds"])
    if not listed:
        return []
    left = len(listed) - _MOST_RANKS
    return [
        Panel(
            "ranks",
            "Ranks and hosts",
            before=[
                f"Rank {each['rank']} on {each['host'] or 'an unnamed host'} is slowest in "
                f"{each['measure'].removesuffix('_seconds').replace('_', ' ')}: "
                f"{_short(each['seconds'])}, median {_short(each['median_seconds'])}."
                for each in timeline["slowest"]
            ],
            table=table(
                "host|rank|#a step|#of it waiting for data|#steps",
                (
                    (
                        rank["host"] or "-",
                        "(host)" if rank["rank"] is None else str(rank["rank"]),
                        _short(rank["step_seconds"]),
                        _short(rank["data_wait_seconds"]),
                        count(rank["steps"]),
                    )
                    for rank in listed[:_MOST_RANKS]
                ),
            ),
            after=(f"{count(left)} faster ones are not shown.",) if left > 0 else (),
            question=question.of("ranks"),
        )
    ]


def _short(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.3g} s"


def _rest(attempt: Answer, question: Question) -> Panel:
    verdict = attempt["verdict"]
    hooks = [f"{name} is {state}" for name, state in attempt["hooks"].items()]
    rows = [
        ("began (UTC)", moment(attempt["started_at"])),
        ("ended (UTC)", moment(attempt["ended_at"])),
        ("last heard (UTC)", moment(attempt["last_heard_at"])),
        ("reason", attempt["reason"] or "-"),
        ("repeated by", attempt["basis"]),
        ("compile cache", attempt["compile_cache"] or "-"),
        ("recording took", duration(attempt["telemetry_seconds"])),
        ("hooks", ", ".join(hooks) or "-"),
        ("set by hand", f"{verdict['made_by']}: {verdict['why']}" if verdict else "-"),
    ]
    return Panel("rest", "What else is known", table=table("|value", rows), question=question)
