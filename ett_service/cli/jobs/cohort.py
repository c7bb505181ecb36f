"""``ett job --compare``: a job beside its cohort, the jobs that are like it."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, time, timedelta
from operator import itemgetter
from statistics import median

from ett_service.charts.units import count, duration, percent, points, ratio_of_e2e
from ett_service.cli.output import NONE, conditions, minute, write_line, write_prose
from ett_service.cli.remote import ask, listed, of_project, place
from ett_service.cli.tables import Answer, loss, number, styled, text, write_table
from ett_service.cli.verb import Failure
from ett_service.core.dimensions import JOB_DIMENSIONS
from ett_service.core.words import Category

DAYS = 28
"""So long before the job's last instant its cohort is looked for."""

_MORE, _LESS = 1, -1


def _plain(value: float | None) -> str:
    return NONE if value is None else f"{value:g}"


_MEASURES: Sequence[tuple[str, str, Callable[[float | None], str], int]] = (
    ("ETT%", "ett_ratio", percent, _MORE),
    ("WTT%", "wasted_ratio", percent, _LESS),
    ("time to start", "time_to_start_seconds", duration, _LESS),
    ("failures", "failures", _plain, _LESS),
    ("unsaved training", "unsaved_training_seconds", duration, _LESS),
)
"""What is compared: the heading, the member of a job, how it is shown, and which is better."""

_NUMBERS = (
    text("by job, wall time", itemgetter(0)),
    number("this job", itemgetter(1)),
    number("median", itemgetter(2)),
    number("best", itemgetter(3)),
    number("better than", itemgetter(4)),
)
_CATEGORIES = (
    text("share of E2E, wall time", itemgetter(0)),
    number("this job", itemgetter(1), percent),
    number("cohort", itemgetter(2), percent),
    styled(number("difference", itemgetter(3), points), loss),
)


def compare(args: Namespace) -> Answer:
    """Return the job, what it shares with its cohort, the other jobs of that, and their sums.

    Raises:
        Failure: where the job has no value in any of the dimensions, or is alone.
    """
    job = ask(args, place("/v1/jobs/{}", args.job), of_project(args))
    shared = {name: job[name] for name in args.by if job[name]}
    if not shared:
        raise Failure(
            f"{args.job} has neither of {', '.join(args.by)}, so it has no cohort",
            f"Name dimensions that it has: --by, of {', '.join(JOB_DIMENSIONS)}.",
        )
    # Whole days are kept for ever, hours may be pruned.
    last = datetime.fromisoformat(job["as_of"]).astimezone(UTC).date()
    end = datetime.combine(last + timedelta(days=1), time.min, UTC)
    window = {"from": (end - timedelta(days=DAYS)).isoformat(), "to": end.isoformat()}
    jobs = listed(args, "/v1/jobs", "jobs", of_project(args, **shared, **window))
    others = [other for other in jobs if other["job"] != job["job"] and other["e2e_seconds"]]
    if not others:
        raise Failure(
            f"no other job of {conditions(shared)} was there in the {DAYS} days before",
            "Compare by less: --by model, or --by team.",
        )
    where = [f"{name}:{value}" for name, value in shared.items()]
    fleet = ask(args, "/v1/fleet/summary", of_project(args, **window, where=where))["total"]
    return {"job": job, "cohort": shared, **window, "others": others, "fleet": fleet}


def write(answer: Answer) -> None:
    """Write the comparison as two tables, each of numbers by wall time."""
    job, others = answer["job"], answer["others"]
    many = f"{count(len(others))} other job{'' if len(others) == 1 else 's'}"
    write_prose(
        f"{job['job']} beside {many} of {conditions(answer['cohort'])}, "
        f"{minute(answer['from'])} to {minute(answer['to'])} (UTC)"
    )
    write_line()
    write_table(_NUMBERS, _numbers(job, others))
    write_line()
    rows = _categories(job, answer["fleet"])
    write_table(_CATEGORIES, sorted(rows, key=itemgetter(3), reverse=True))
    write_prose(f"The cohort is that of {DAYS} days, with this job.")


def _numbers(job: Answer, others: Sequence[Answer]) -> Iterator[tuple[str, ...]]:
    for heading, member, show, sign in _MEASURES:
        theirs = [other[member] for other in others if other[member] is not None]
        mine = ratio_of_e2e(job, member) if member.endswith("_ratio") else job[member]
        if mine is None or not theirs:
            continue
        worse = sum(sign * each < sign * mine for each in theirs)
        best = max(theirs, key=lambda value: sign * value)
        yield (
            heading,
            show(mine),
            show(median(theirs)),
            show(best),
            f"{worse} of {len(theirs)}",
        )


def _categories(job: Answer, cohort: Answer) -> Iterator[tuple[str, float, float, float]]:
    for category, theirs_s in cohort["categories"].items():
        mine = _share(job["categories"][category], job["e2e_seconds"])
        theirs = _share(theirs_s, cohort["e2e_seconds"])
        if (mine or theirs) and category != Category.EFFECTIVE_TRAINING:
            yield category, mine, theirs, mine - theirs


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
