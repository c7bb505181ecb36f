"""The fleet: how it does, why, and what it loses most by; or how to begin."""

from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from ett_service.core.dimensions import GROUPS
from ett_service.pages.ask import Answer, Ask, Question
from ett_service.pages.dashboards import dashboard
from ett_service.pages.fleet import course, losses
from ett_service.pages.panel import Panel
from ett_service.pages.render import page
from ett_service.pages.route import Asking, SignedIn, now_of, router
from ett_service.pages.sessions import Session, state_of
from ett_service.pages.window import WINDOWS, View, view_of
from ett_service.report.headline import course_of

ROUTER = router()

_MOST_GROUPS = 12
_MOST_PARTS = 12
_MOST_JOBS = 10
_MOST_MARKERS = 100


@dataclass(frozen=True, slots=True)
class Questions:
    """What the page asks."""

    now: Question
    before: Question
    trend: Question
    change: Question
    jobs: Question
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
            jobs=Question("/v1/fleet/jobs/top", {**view.window, "by": "lost", "limit": _MOST_JOBS}),
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
async def show_fleet(request: Request, session: SignedIn, ask: Asking) -> Response:
    """Show the fleet in a window, or the first steps where nothing was recorded yet."""
    view = view_of(request, now_of(request))
    questions = Questions.of(view)
    now = await ask(questions.now)
    if not now["total"]["jobs"]:
        any_job = await _any_job(ask, view)
        template = "nothing_here.html" if any_job else "first_minute.html"
        return page(request, template, session, view=view, newest=any_job, **_choices(request))
    before, trend, change, jobs, markers, regressions = await ask.all(
        questions.before,
        questions.trend,
        questions.change,
        questions.jobs,
        questions.markers,
        questions.regressions,
    )
    gathered = losses.FleetAnswers(
        view, now, before, change, jobs, regressions["regressions"], questions.now
    )
    # Drawing takes tens of milliseconds, in which the loop would take no request.
    return await run_in_threadpool(
        _drawn, request, session, gathered, questions, trend=trend, markers=markers
    )


def _drawn(
    request: Request,
    session: Session,
    gathered: losses.FleetAnswers,
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
        facts=course.facts(now["total"], before["total"]),
        grafana=dashboard(request, "ett-fleet", (view.from_us, view.to_us)),
        columns=_columns(gathered, questions, trend, markers, request),
        **_choices(request),
    )


def _columns(
    gathered: losses.FleetAnswers,
    questions: Questions,
    trend: Answer,
    markers: Answer,
    request: Request,
) -> tuple[list[Panel], list[Panel]]:
    """Lay the panels out in two columns; a narrow page takes them in turn."""
    trended = course.trend_panel(
        gathered.view, trend, markers["markers"], gathered.regressions, questions.trend
    )
    return (
        [
            course.target_bridge(gathered),
            course.change_panel(gathered, questions.change),
            losses.cohorts(gathered),
            losses.jobs(gathered, questions.jobs),
            losses.categories(gathered),
        ],
        [
            trended,
            course.regressions_panel(gathered.regressions, questions.regressions),
            course.comparison(gathered, state_of(request).economy),
            losses.durations(gathered),
            losses.failures(gathered),
            losses.speeds(gathered),
        ],
    )


def _choices(request: Request) -> dict[str, Any]:
    return {
        "windows": tuple(WINDOWS),
        "dimensions": GROUPS,
        "python": "train.py",
        "has_filters": bool(request.query_params.get("where")),
    }


async def _any_job(ask: Ask, view: View) -> Answer | None:
    """Return the job that began last, of the projects that can be read."""
    summary = await ask(Question("/v1/jobs", {"project": view.project, "limit": 1}))
    jobs: list[Answer] = summary["jobs"]
    return jobs[0] if jobs else None
