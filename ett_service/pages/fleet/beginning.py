"""A fleet whose jobs report too little yet: what ran last, and what to report next."""

from ett_service.charts.units import duration, e2e, percent, ratio_of_e2e
from ett_service.pages.ask import Answer, Question
from ett_service.pages.fleet.answers import BY_WALL_TIME, FleetAnswers
from ett_service.pages.fleet.losses import wider
from ett_service.pages.links import job_page
from ett_service.pages.panel import Cell, Panel, so_far, table
from ett_service.pages.window import moment

_ACCELERATORS = (
    "No job reports its accelerators, so there are no GPU-hours, no cost and no ETT% weighted by "
    "them. `ett.init(gpus=8)` in the trainer reports them, and so does `ETT_GPUS=8` before "
    "`ett run`."
)
_LOOP = (
    "No job reports its training loop, so no time is effective. `ett.auto()` at the top of a "
    "PyTorch trainer finds it; elsewhere put `ett.train_loop(batches)` around the batches and "
    "`ett.step(n)` after each step."
)
_MORE = "`docs/howto/record-a-training-job.md` has a whole trainer, and every call."


def next_steps(gathered: FleetAnswers) -> list[Panel]:
    """Say what jobs should report next, as long as none does."""
    total = gathered.now["total"]
    steps = [
        *((_ACCELERATORS,) if gathered.weight is BY_WALL_TIME else ()),
        *((_LOOP,) if not total["periods"]["training"] else ()),
    ]
    return [Panel("next", "What to report next", before=(*steps, _MORE))] if steps else []


def newest_jobs(gathered: FleetAnswers, question: Question) -> Panel:
    """List the jobs that began last."""
    view = gathered.view
    return Panel(
        "jobs",
        "Newest jobs",
        table=table(
            "job|state|began (UTC)|#E2E|#ETT% by wall time",
            (_job(job, view.project) for job in gathered.jobs["jobs"]),
        ),
        after=wider(view),
        more=Cell("All jobs", href="/jobs"),
        question=question,
        is_table_open=True,
    )


def _job(job: Answer, project: str) -> tuple[Cell | str, ...]:
    return (
        Cell(job["job"], href=job_page(job["job"], project)),
        job["state"],
        moment(job["started_at"]),
        duration(e2e(job)),
        so_far(percent(ratio_of_e2e(job, "ett_ratio")), is_over=not job["provisional"]),
    )
