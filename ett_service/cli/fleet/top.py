"""``ett fleet --top``: the jobs, causes of failures and releases that cost the fleet most."""

from argparse import Namespace
from functools import partial
from operator import itemgetter

from ett_service.charts.units import count, duration, gpu_hours, money, percent
from ett_service.cli.output import minute, write_prose
from ett_service.cli.styles import outcome
from ett_service.cli.tables import Answer, identifier, number, spare, styled, text, write_table
from ett_service.cli.verb import Failure
from ett_service.report.inputs import UNKNOWN, ett_ratio, lost_gpu_seconds

TOPS = ("jobs", "causes", "releases")

EMPTY = "No jobs in this window. `ett jobs` lists all jobs, and --from begins earlier."

_MOST = 10
_RELEASE = "code_version"

_CAUSES = (
    text("origin"),
    text("cause"),
    number("failures", "count", count),
    number("share", "share", percent),
    number("unsaved training", "unsaved_training_seconds", duration),
)
_RELEASES = (
    identifier("release", lambda group: group["group"][_RELEASE] or UNKNOWN),
    number("jobs", "jobs", count),
    number("ETT%", ett_ratio, percent),
    number("GPU-h", "gpu_seconds", gpu_hours),
    number("lost GPU-h", lost_gpu_seconds, gpu_hours),
    number("failures", "failures.total", count),
    spare(number("start p50", "time_to_start.p50", duration)),
    spare(number("recover p50", "time_to_recover.p50", duration)),
)


def top_question(args: Namespace) -> tuple[str, dict[str, object]]:
    """Return the path and the query whose answer has what is ranked. Raises ``Failure``."""
    if args.by or args.step:
        raise Failure("--top ranks, and takes neither --by nor --step", "Leave one of them out.")
    match args.top:
        case "jobs":
            return "/v1/fleet/jobs/top", {"by": "lost", "limit": _MOST}
        case "releases":
            return "/v1/fleet/summary", {"group_by": _RELEASE, "sort": "lost"}
        case _:
            return "/v1/fleet/summary", {}


def write_top(answer: Answer, top: str) -> None:
    """Write the table of what is ranked."""
    jobs = answer["jobs"] if top == "jobs" else answer["total"]["jobs"]
    if not jobs:
        write_prose(EMPTY)
        return
    write_prose(f"{minute(answer['from'])} to {minute(answer['to'])} (UTC)")
    if top == "jobs":
        _write_jobs(answer)
    elif top == "causes":
        _write_causes(answer)
    else:
        groups = sorted(answer["groups"], key=lost_gpu_seconds, reverse=True)
        write_table(_RELEASES, [group for group in groups if not group["other"]][:_MOST])
        write_prose("A job counts for each release that its attempts ran, with their time.")


def _write_jobs(answer: Answer) -> None:
    shown = partial(money, currency=answer["currency"])
    columns = (
        identifier("job"),
        styled(text("state"), outcome),
        number("ETT%", "ett_ratio", percent),
        number("lost h", "lost_weighted_seconds", gpu_hours),
        text("most of it", _largest_loss),
        spare(number("failures", "failures", count)),
        spare(number("gpus")),
        spare(number("cost", "cost", shown)),
    )
    write_table(columns, answer["jobs"])
    write_prose("Lost hours are E2E x accelerators without effective training, held or not.")


def _largest_loss(job: Answer) -> str:
    lost = {**job["weighted_categories"], "effective_training": 0.0}
    category, seconds = max(lost.items(), key=itemgetter(1))
    return f"{category} {percent(seconds / job['lost_weighted_seconds'])}"


def _write_causes(answer: Answer) -> None:
    failures = answer["total"]["failures"]
    by = sorted(failures["by"], key=itemgetter("unsaved_training_seconds"), reverse=True)
    total = failures["total"]
    write_table(_CAUSES, [{**each, "share": each["count"] / total} for each in by[:_MOST]])
    write_prose(f"{count(total)} failures, {count(failures['infra'])} of them infra.")
