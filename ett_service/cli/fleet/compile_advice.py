"""``ett compile-advice``: what would save compile time in a job, or in each cohort."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from ett_service.charts.units import count, duration
from ett_service.cli.arguments import by, scope, scope_query, server, window, window_query
from ett_service.cli.fleet.fleet import group_columns
from ett_service.cli.output import write_line, write_prose
from ett_service.cli.remote import ask, of_project, place
from ett_service.cli.tables import (
    Answer,
    Column,
    number,
    prose,
    spare,
    text,
    write_pairs,
    write_table,
)
from ett_service.cli.verb import Failure, Verb

_VARIABLE = "TORCH_COMPILE_DYNAMIC_SOURCES"
_QUOTED = str.maketrans({character: f"\\{character}" for character in '\\"$`'})


def _words(heading: str, member: str) -> Column:
    return text(heading, member, ", ".join)


_SECONDS = number("time", "seconds", duration)
_SOURCES = (
    text("source"),
    number("recompiles", show=count),
    _SECONDS,
    _words("functions", "functions"),
    text("or, on the tensor", "mark_dynamic"),
)
_OTHERS = (
    text("kind"),
    number("recompiles", show=count),
    _SECONDS,
    prose("example"),
    prose("hint"),
)
_COMPILES = (
    text("function"),
    text("compile", "compile_id"),
    text("direction"),
    number("compiles", show=count),
    _SECONDS,
)
_GROUP = (
    spare(number("jobs read", "jobs_read", count)),
    number("compiling", "compile_seconds", duration),
    spare(number("recompiles", show=count)),
    number("recompiling", "recompile_seconds", duration),
    number("dynamic saves", "dynamic_seconds", duration),
    number("a cache saves", "uncached_seconds", duration),
    prose("setting"),
)


def _job(parser: ArgumentParser) -> None:
    parser.add_argument("job", nargs="?", help="a job, over all its life; default: the fleet")


def _advice(args: Namespace) -> Any:
    """Return the advice for a job, or for the fleet and its groups.

    Raises:
        Failure: where a window or a group is asked of one job.
    """
    if not args.job:
        query = {**window_query(args), **scope_query(args), "group_by": args.by}
        return ask(args, "/v1/fleet/compile-advice", query)
    if args.by or args.begin or args.end or args.where or args.exclusions:
        raise Failure(
            "the advice for a job covers all of its life",
            "Leave out --by, --from, --to, --where and --exclusions, or the job.",
        )
    return ask(args, place("/v1/jobs/{}/compile-advice", args.job), of_project(args))


def _write(answer: Answer, args: Namespace) -> None:
    if args.job:
        _write_one(answer)
        return
    if answer["groups"]:
        write_table((*group_columns(answer["group_by"]), *_GROUP), answer["groups"])
    else:
        _write_one(answer["total"])
    write_line()
    read, every = count(answer["jobs_read"]), count(answer["jobs"])
    write_prose(f"Read: {read} of {every} jobs that compiled, those that compiled longest.")


def _write_one(advice: Answer) -> None:
    """Write the line to paste first, then what it rests on."""
    if advice["setting"]:
        write_line(f'export {_VARIABLE}="{advice["setting"].translate(_QUOTED)}"')
    elif advice["compiles"]:
        write_prose("No recompile that a dynamic source would stop.")
    else:
        write_prose("No compiles with stages: nothing to advise on.")
    write_line()
    write_pairs(
        {
            "compiling": _of(advice["compile_seconds"], advice["compiles"], "compiles"),
            "recompiling": _of(advice["recompile_seconds"], advice["recompiles"], "recompiles"),
            "dynamic sources save": duration(advice["dynamic_seconds"]),
            "a loaded cache saves": duration(advice["uncached_seconds"]),
            "autotuning": duration(advice["autotune_seconds"]),
        }
    )
    _write_part("Sources that vary", _SOURCES, advice["sources"])
    _write_part("Recompiles that no dynamic source stops", _OTHERS, advice["others"])
    _write_part("Compiles that MegaCache would have loaded", _COMPILES, advice["uncached"])
    tuned = (*_COMPILES, _words("kernels", "kernels"))
    _write_part("Compiles whose autotuning takes longest", tuned, advice["autotuned"])


def _of(seconds: float, number_of: int, things: str) -> str:
    return f"{duration(seconds)} in {count(number_of)} {things}"


def _write_part(heading: str, columns: Sequence[Column], rows: Sequence[Answer]) -> None:
    if rows:
        write_line()
        write_prose(f"{heading}:")
        write_table(columns, rows)


VERB = Verb(
    epilog="Examples: `ett compile-advice llm-70b`, `ett compile-advice --by model`.",
    options=(_job, by, window, scope, server),
    run=_advice,
    write=_write,
)
