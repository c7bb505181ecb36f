"""``ett jobs``: lists jobs, corrects their record and deletes them."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping
from functools import partial
from typing import Any

from ett_service.charts.units import count, duration, e2e, gpu_hours, ratio_of_e2e
from ett_service.cli import confirmation
from ett_service.cli.arguments import INSTANT, WHY, instant, named, project, server, when, whole
from ett_service.cli.output import author, minute, or_dash, percent, write_line
from ett_service.cli.remote import ask, listed, of_project, place, without_none
from ett_service.cli.tables import (
    Answer,
    Column,
    identifier,
    number,
    outcome,
    prose,
    spare,
    styled,
    text,
    write_rows,
    write_table,
)
from ett_service.cli.verb import Verb, act
from ett_service.core.dimensions import JOB_DIMENSIONS
from ett_service.core.words import Cause, Origin

_JOB = named("job", "the job's name")
_SHARED = (project, server)

_FILTERS = {
    **{name: f"only of this {name}" for name in JOB_DIMENSIONS},
    "state": "only in this state: queued, running, interrupted or finished",
    "cause": "only those of which an attempt failed for this cause, such as network",
    "q": "only with this text in the key or name",
    "project": "project, for a key that may use several",
}

_JOBS = (
    identifier("job"),
    styled(text("state"), outcome),
    number("ETT%", partial(ratio_of_e2e, member="ett_ratio"), percent),
)
_MORE = {
    "e2e_seconds": number("E2E", e2e, duration),
    "failures": number("failures"),
    "started_at": text("began (UTC)", "started_at", minute),
    "time_to_start_seconds": number("time to start", "time_to_start_seconds", duration),
    "gpus": number("gpus"),
    "slowed_seconds": number("slowed", "slowed_seconds", duration),
    "lost_gpu_seconds": number("lost GPU-h", "lost_gpu_seconds", gpu_hours),
    "unsaved_training_seconds": number("unsaved training", "unsaved_training_seconds", duration),
    "ended_at": text("ended (UTC)", "ended_at", minute),
}
"""What else is shown of a job where there is room, by the member that it shows."""


def _columns(sort: str) -> list[Column]:
    """Return the columns of jobs, of which that they are sorted by is not left out."""
    by = sort.removeprefix("-")
    return [*_JOBS, *(each if name == by else spare(each) for name, each in _MORE.items())]


_NONE = "No jobs. `ett run --job NAME -- COMMAND` records one."
_NONE_MATCH = "No job meets these conditions. `ett jobs` without them lists all."


def _path(args: Namespace, resource: str = "") -> str:
    return place("/v1/jobs/{}", args.job) + resource


def _verdict_options(parser: ArgumentParser) -> None:
    parser.add_argument("number", type=int, help="of the attempt, as `ett job` shows it")
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--cause", choices=[cause.value for cause in Cause])
    choice.add_argument("--take-back", action="store_true", help="let the rules decide again")
    parser.add_argument(
        "--origin",
        choices=[origin.value for origin in Origin],
        help="default: the usual origin of the cause",
    )
    parser.add_argument("--why", help=WHY)


def _judge(args: Namespace) -> Any:
    path = _path(args, f"/attempts/{args.number}/verdict")
    if args.take_back:
        return ask(args, path, of_project(args), method="DELETE")
    body = without_none({"cause": args.cause, "origin": args.origin, "why": args.why})
    return ask(args, path, of_project(args), method="PUT", body=body)


def _write_verdict(verdict: Answer | None, args: Namespace) -> None:
    if verdict is None:
        write_line(f"The rules decide about attempt {args.number} of {args.job} again.")
    else:
        cause = f"{verdict['origin']}: {verdict['cause']}"
        write_line(f"Attempt {args.number} of {args.job}: {cause}.")


def _exclude_options(parser: ArgumentParser) -> None:
    when(parser, "--from", "from", f"begin of the window: {INSTANT} (default: the job's)")
    when(parser, "--to", "to", "end of the window (default: the job's)")
    parser.add_argument(
        "--window",
        action="append",
        type=_window,
        dest="windows",
        metavar="FROM/TO",
        help="one of several windows, instead of --from and --to; either end may be left out",
    )
    parser.add_argument("--why", required=True, help=WHY)


def _window(text: str) -> dict[str, str | None]:
    begin, slash, end = text.partition("/")
    if not slash:
        raise ArgumentTypeError(f"{text!r} is not FROM/TO")
    return {"from": instant(begin) if begin else None, "to": instant(end) if end else None}


def _exclude(args: Namespace) -> Any:
    window = {"from": getattr(args, "from"), "to": args.to}
    body = {**window, "windows": args.windows, "why": args.why}
    return ask(args, _path(args, "/exclusion"), of_project(args), method="PUT", body=body)


def _write_excluded(_exclusions: Any, args: Namespace) -> None:
    write_line(f"{args.job} is excluded from the fleet's numbers.")


def _include(args: Namespace) -> Any:
    return ask(args, _path(args, "/exclusion"), of_project(args), method="DELETE")


def _write_included(_nothing: Any, args: Namespace) -> None:
    write_line(f"{args.job} counts again.")


def _subject(correction: Answer) -> str:
    if correction["kind"] == "verdict":
        return f"{correction['launch'] or '-'}/{correction['attempt']}/{correction['cycle']}"
    return f"{minute(correction['from'])} to {minute(correction['to'])}"


def _text(correction: Answer) -> str:
    if correction["kind"] == "verdict":
        return f"verdict {correction['origin']}: {correction['cause']}"
    return "exclusion"


_CORRECTIONS = (
    text("correction", _text),
    text("of", _subject),
    text("made (UTC)", "made_at", minute),
    text("by", partial(author, member="made_by")),
    spare(text("taken back (UTC)", "taken_back_at", minute)),
    spare(text("by", partial(author, member="taken_back_by"), or_dash)),
    prose("why"),
)


def _corrections(args: Namespace) -> Any:
    return listed(args, _path(args, "/corrections"), "corrections", of_project(args))


def _write_corrections(corrections: list[Any], args: Namespace) -> None:
    write_rows(_CORRECTIONS, corrections, f"The record of {args.job} has no corrections.")


def _delete_options(parser: ArgumentParser) -> None:
    parser.add_argument("jobs", nargs="+", metavar="JOB", help="the job's name")
    parser.add_argument(
        "--dry-run", action="store_true", help="only say what would be deleted, and how much it is"
    )


def _delete(args: Namespace) -> list[Any]:
    # Asked of all before any goes: a mistyped name must not leave half of them deleted.
    deletions = [_deletion(args, job, dry_run="true") for job in args.jobs]
    if args.dry_run:
        return deletions
    events = count(sum(each["events"] for each in deletions))
    many = f"{count(len(deletions))} job{'' if len(deletions) == 1 else 's'}"
    confirmation.require(args, f"{many} with {events} events will be deleted for good")
    return [_deletion(args, job) for job in args.jobs]


def _deletion(args: Namespace, job: str, dry_run: str | None = None) -> Any:
    query = of_project(args, dry_run=dry_run)
    return ask(args, place("/v1/jobs/{}", job), query, method="DELETE")


_DELETIONS = (
    identifier("job"),
    number("events", show=count),
    number("attempts", show=count),
    number("corrections", show=count),
)


def _write_deletions(deletions: list[Any], _args: Namespace) -> None:
    write_table(_DELETIONS, deletions)


ACTS: Mapping[str, Verb] = {
    "verdict": act(
        "set the cause of a failure", _judge, _write_verdict, _JOB, _verdict_options, *_SHARED
    ),
    "exclude": act(
        "exclude a job, or windows of it, from the fleet's numbers",
        _exclude,
        _write_excluded,
        _JOB,
        _exclude_options,
        *_SHARED,
    ),
    "include": act("withdraw an exclusion", _include, _write_included, _JOB, *_SHARED),
    "corrections": act(
        "show who corrected what about a job, and why",
        _corrections,
        _write_corrections,
        _JOB,
        *_SHARED,
    ),
    "delete": act(
        "delete jobs for good",
        _delete,
        _write_deletions,
        _delete_options,
        confirmation.yes,
        *_SHARED,
    ),
}
"""What ``ett jobs`` does beside listing."""


def _list_options(parser: ArgumentParser) -> None:
    for name, summary in _FILTERS.items():
        parser.add_argument(f"--{name}", help=summary)
    when(parser, "--from", "from", f"only alive at or after: {INSTANT}")
    when(parser, "--to", "to", "only begun before")
    parser.add_argument(
        "--sort", default="-started_at", help="member to sort by; `-` in front: largest first"
    )
    parser.add_argument("--limit", type=whole, default=50, metavar="N", help="default 50")


def _jobs(args: Namespace) -> list[Any]:
    query = {name: getattr(args, name) for name in (*_FILTERS, "from", "to", "sort")}
    return listed(args, "/v1/jobs", "jobs", query, args.limit)


def _write_jobs(jobs: list[Any], args: Namespace) -> None:
    is_filtered = any(getattr(args, name) for name in (*_FILTERS, "from", "to"))
    write_rows(_columns(args.sort), jobs, _NONE_MATCH if is_filtered else _NONE)


VERB = Verb(
    options=(_list_options, server),
    run=_jobs,
    write=_write_jobs,
    acts=ACTS,
    acts_title="instead of listing",
)
