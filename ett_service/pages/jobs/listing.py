"""The list of jobs: filters, order, search and pages, all in the address."""

from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from ett_service.charts.units import count, duration, e2e, gpu_hours, percent, ratio_of_e2e
from ett_service.core.words import Cause, JobState
from ett_service.pages.ask import Answer, Question
from ett_service.pages.links import dashboard, job_page
from ett_service.pages.panel import Cell, Column, Table
from ett_service.pages.render import page
from ett_service.pages.route import Asking, SignedIn, router
from ett_service.pages.window import day_begin, day_end, moment

ROUTER = router()

_FILTERS = (
    "q",
    "state",
    "cause",
    "team",
    "model",
    "cluster",
    "hardware",
    "kind",
    "from",
    "to",
    "project",
)
_DEFAULT_SORT = "-started_at"
_PAGE = 50

# Heads of columns, whether they are numbers, and by what the API orders them.
_COLUMNS = (
    ("job", False, "job"),
    ("state", False, ""),
    ("team", False, ""),
    ("model", False, ""),
    ("began (UTC)", False, "started_at"),
    ("E2E", True, "e2e_seconds"),
    ("ETT% by wall time", True, "ett_ratio"),
    ("WTT%", True, ""),
    ("time to start", True, ""),
    ("failures", True, "failures"),
    ("unsaved training", True, "unsaved_training_seconds"),
    ("accelerators", True, ""),
    ("lost GPU-hours", True, "lost_gpu_seconds"),
)


@dataclass(frozen=True, slots=True)
class ListView:
    """What the address says."""

    filters: dict[str, str]
    sort: str
    cursor: str

    @property
    def question(self) -> Question:
        """What to ask."""
        days = {
            "from": day_begin(self.filters.get("from", "")),
            "to": day_end(self.filters.get("to")),
        }
        query = {**self.filters, **days, "sort": self.sort, "limit": _PAGE, "cursor": self.cursor}
        return Question("/v1/jobs", query)

    def address(self, **changes: str) -> str:
        """Return the address of this list but for *changes*; it begins at its first page."""
        sort = {} if self.sort == _DEFAULT_SORT else {"sort": self.sort}
        members = {name: text for name, text in (self.filters | sort | changes).items() if text}
        return "/jobs" + (f"?{urlencode(members)}" if members else "")

    def column(self, name: str, order: str, *, is_number: bool) -> Column:
        """Return the head of a column, which orders by it."""
        if not order:
            return Column(name, is_number)
        current = self.sort.removeprefix("-") == order
        turned = order if self.sort == f"-{order}" else f"-{order}"
        if not current:
            return Column(name, is_number, self.address(sort=turned))
        direction = "descending" if self.sort.startswith("-") else "ascending"
        return Column(name, is_number, self.address(sort=turned), direction)


def list_view(request: Request) -> ListView:
    """Read the address."""
    query = request.query_params
    filters = {name: query[name] for name in _FILTERS if query.get(name)}
    return ListView(filters, query.get("sort") or _DEFAULT_SORT, query.get("cursor", ""))


@ROUTER.get("/jobs")
async def show_jobs(request: Request, session: SignedIn, ask: Asking) -> Response:
    """Show a page of jobs."""
    view = list_view(request)
    answer = await ask(view.question)
    project = view.filters.get("project")
    columns = tuple(
        view.column(name, order, is_number=is_number) for name, is_number, order in _COLUMNS
    )
    rows = tuple(_row(job, project) for job in answer["jobs"])
    following = answer["next_cursor"]
    return page(
        request,
        "jobs.html",
        session,
        view=view,
        table=Table(columns, rows) if rows else None,
        choices={"state": list(JobState), "cause": list(Cause)},
        first=view.address() if view.cursor else "",
        following=view.address(cursor=following) if following else "",
        question=view.question,
        reads_all="fleet" in session.key.scopes,
        grafana=dashboard(request, "ett-sql-fleet"),
    )


def _row(job: Answer, project: str | None) -> tuple[Cell, ...]:
    is_partial = job["provisional"]
    return (
        Cell(job["job"], href=job_page(job["job"], project), title=job["name"] or ""),
        Cell(job["state"]),
        Cell(job["team"] or "-"),
        Cell(job["model"] or "-"),
        Cell(moment(job["started_at"])),
        Cell(duration(e2e(job)), is_faint=is_partial),
        _ett(job),
        Cell(percent(ratio_of_e2e(job, "wasted_ratio"))),
        Cell(duration(job["time_to_start_seconds"])),
        Cell(count(job["failures"])),
        Cell(duration(job["unsaved_training_seconds"]) if job["failures"] else "-"),
        Cell(count(job["gpus"])),
        Cell(gpu_hours(job["lost_gpu_seconds"]), is_faint=is_partial),
    )


def _ett(job: Answer) -> Cell:
    ratio = ratio_of_e2e(job, "ett_ratio")
    if ratio is None:
        return Cell(percent(ratio))
    so_far = " so far" if job["provisional"] else ""
    return Cell(f"{percent(ratio)}{so_far}", is_faint=job["provisional"])
