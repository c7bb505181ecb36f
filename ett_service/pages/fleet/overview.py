"""The fleet: how it does, why, and what it loses most by; or how to begin."""

from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from ett_service.api.start import first_lines
from ett_service.core.dimensions import GROUPS
from ett_service.pages.ask import Answer, Ask, Question
from ett_service.pages.fleet import beginning, course, figures, losses
from ett_service.pages.fleet.answers import BY_WALL_TIME, FleetAnswers, weight_of
from ett_service.pages.links import dashboard, job_page
from ett_service.pages.panel import Cell, Panel
from ett_service.pages.render import page
from ett_service.pages.route import Asking, SignedIn, now_of, router
from ett_service.pages.sessions import Session, state_of
from ett_service.pages.window import WINDOWS, View, Viewed
from ett_service.report.headline import course_of

ROUTER = router()

_MOST_GROUPS = 12
_MOST_PARTS = 12
_MOST_JOBS = 10
_MOST_MARKERS = 100
_CHOICES: dict[str, Any] = {"windows": tuple(WINDOWS), "dimensions": GROUPS}


@dataclass(frozen=True, slots=True)
class Questions:
    """What the page asks."""

    now: Question
    before: Question
    trend: Question
    change: Question
    jobs: Question
    newest: Question
    markers: Question
    regressions: Question

    @classmethod
    def of(cls, view: View) -> "Questions":
        """Return the questions of a view."""
        grouped = {
            "group_by": view.group_by,
            "sort": "lost",
            "limit": _MOST_GROUPS,
            "group_distributions": "false",
        }
        marked = {"project": view.project, "from": view.trend["from"], "to": view.trend["to"]}
        return cls(
            now=Question("/v1/fleet/summary", {**view.window, **grouped}),
            before=Question("/v1/fleet/summary", view.before),
            trend=Question("/v1/fleet/trend", view.trend),
            change=Question(
                "/v1/fleet/explain",
                {
                    **view.window,
                    "group_by": view.group_by,
                    "base_from": view.before["from"],
                    "base_to": view.before["to"],
                    "limit": _MOST_PARTS,
                    "jobs": 0,
                },
            ),
            jobs=Question(
                "/v1/fleet/jobs/top",
                {
                    **view.window,
                    "by": f"category:{view.category}" if view.category else "lost_gpu",
                    "limit": _MOST_JOBS,
                },
            ),
            newest=Question("/v1/jobs", {**view.jobs_alive, "limit": _MOST_JOBS}),
            markers=Question("/v1/markers", {**marked, "limit": _MOST_MARKERS}),
            regressions=Question(
                "/v1/regressions",
                {
                    **marked,
                    "state": ("firing", "resolved"),
                    "without_noise": "true",
                    "sort": "-gpu_hours_per_week",
                },
            ),
        )


@ROUTER.get("/")
async def show_fleet(request: Request, session: SignedIn, view: Viewed, ask: Asking) -> Response:
    """Show the fleet in a window, or the first steps where nothing was recorded yet."""
    questions = Questions.of(view)
    now = await ask(questions.now)
    if not now["total"]["jobs"]:
        newest = await _newest_job(ask, view)
        return _empty(request, session, view, newest) if newest else _first(request, session)
    listed = questions.newest if weight_of(now["total"]) is BY_WALL_TIME else questions.jobs
    before, trend, change, jobs, markers, regressions = await ask.all(
        questions.before,
        questions.trend,
        questions.change,
        listed,
        questions.markers,
        questions.regressions,
    )
    gathered = FleetAnswers(
        view, now, before, change, jobs, regressions["regressions"], questions.now
    )
    # Drawing takes tens of milliseconds, in which the loop would take no request.
    return await run_in_threadpool(
        _drawn, request, session, gathered, questions, trend=trend, markers=markers
    )


def _drawn(
    request: Request,
    session: Session,
    gathered: FleetAnswers,
    questions: Questions,
    *,
    trend: Answer,
    markers: Answer,
) -> Response:
    view, now, before = gathered.view, gathered.now, gathered.before
    return page(
        request,
        "fleet.html",
        session,
        view=view,
        total=now["total"],
        as_of=now["as_of"],
        sentence=course_of(now["total"], before["total"], gathered.change, against=view.earlier),
        is_provisional=view.to_us > now_of(request),
        facts=figures.facts(now["total"], before["total"], view.earlier),
        grafana=dashboard(request, "ett-fleet", (view.from_us, view.to_us)),
        columns=_columns(gathered, questions, trend, markers, request),
        **_CHOICES,
    )


def _empty(request: Request, session: Session, view: View, newest: Answer) -> Response:
    """Say that nothing ran in the window, and what ran last."""
    job = Cell(newest["job"], href=job_page(newest["job"], view.project))
    return page(
        request,
        "nothing_here.html",
        session,
        view=view,
        newest=job,
        began=newest["started_at"],
        **_CHOICES,
    )


def _first(request: Request, session: Session) -> Response:
    """Show the lines that record a first job; a key is put in only for those who may make one."""
    made = state_of(request).first_keys.get(session.key.project) if session.may("admin") else None
    lines = first_lines(f"{request.url.scheme}://{request.url.netloc}", made or "KEY")
    return page(request, "first_minute.html", session, lines=lines, has_key=made is not None)


def _columns(
    gathered: FleetAnswers,
    questions: Questions,
    trend: Answer,
    markers: Answer,
    request: Request,
) -> tuple[list[Panel], list[Panel]]:
    """Lay the panels out in two columns; a narrow page takes them in turn."""
    second = [
        course.trend_panel(gathered, trend, markers["markers"], questions.trend),
        losses.regressions_panel(gathered.regressions, questions.regressions),
        *figures.comparisons(gathered, state_of(request).economy),
        losses.durations(gathered),
        losses.failures(gathered),
        losses.speeds(gathered),
    ]
    if gathered.weight is BY_WALL_TIME:
        return (
            [
                *beginning.next_steps(gathered),
                beginning.newest_jobs(gathered, questions.newest),
                course.target_bridge(gathered),
                losses.categories(gathered),
            ],
            second,
        )
    return (
        [
            *beginning.next_steps(gathered),
            course.target_bridge(gathered),
            course.change_panel(gathered, questions.change),
            losses.cohorts(gathered),
            losses.jobs(gathered, questions.jobs),
            losses.categories(gathered),
        ],
        second,
    )


async def _newest_job(ask: Ask, view: View) -> Answer | None:
    """Return the job that began last, of the projects that can be read."""
    summary = await ask(Question("/v1/jobs", {"project": view.project, "limit": 1}))
    jobs: list[Answer] = summary["jobs"]
    return jobs[0] if jobs else None
