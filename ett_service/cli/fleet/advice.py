"""``ett checkpoint-advice | compile-advice``: what would save time, in a job or each cohort."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from ett_service.charts.units import amount, count, duration, failure_counts, many, percent
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
from ett_service.report.advice import VERDICTS

_VARIABLE = "TORCH_COMPILE_DYNAMIC_SOURCES"
_NO_COMPILES = (
    "Nothing to advise on: no compile has the id and the function by which advice tells compiles "
    "apart. The client for PyTorch reports them."
)
_QUOTED = str.maketrans({character: f"\\{character}" for character in '\\"$`'})


def _verdict(advice: Answer) -> str:
    return advice["reason"] or VERDICTS[advice["verdict"]]


_CHECKPOINTS_OF_GROUP = (
    spare(number("failures", "n.failures", count)),
    spare(number("saves", "n.saves", count)),
    spare(number("a save", "save_seconds.value", duration)),
    number("now", "current.interval_seconds", duration),
    number("best", "best.interval_seconds", duration),
    number("WTT% now", "current.wasted_ratio", percent),
    number("at best", "best.wasted_ratio", percent),
    number("GPU-h to gain", "gain.gpu_hours", amount),
    text("verdict", _verdict),
)
_CURVE = (
    number("interval", "interval_seconds", duration),
    number("unsaved", "unsaved_ratio", percent),
    number("blocking", "blocking_ratio", percent),
    number("WTT%", "wasted_ratio", percent),
)


def _job(parser: ArgumentParser) -> None:
    parser.add_argument("job", nargs="?", help="a job, over all its life; default: the fleet")


def _failures(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--failures", choices=("all", "infra"), help="failures to count (default all)"
    )


def _advice(args: Namespace, subject: str, **options: object) -> Any:
    """Return the advice on *subject* for a job, or for the fleet and its groups.

    Raises:
        Failure: where a window or a group is asked of one job.
    """
    if not args.job:
        query = {**window_query(args), **scope_query(args), "group_by": args.by}
        return ask(args, f"/v1/fleet/{subject}-advice", {**query, **options})
    if args.by or args.begin or args.end or args.where or args.exclusions:
        raise Failure(
            "the advice for a job covers all of its life",
            "Leave out --by, --from, --to, --where and --exclusions, or the job.",
        )
    path = place(f"/v1/jobs/{{}}/{subject}-advice", args.job)
    return ask(args, path, of_project(args, **options))


def _checkpoint_advice(args: Namespace) -> Any:
    return _advice(args, "checkpoint", failures=args.failures)


def _write_checkpoints(answer: Answer, args: Namespace) -> None:
    if args.job:
        _write_checkpoints_of(answer, args.job)
    elif not answer["groups"]:
        _write_checkpoints_of(answer["total"], "the fleet")
    else:
        write_table((*group_columns(answer["group_by"]), *_CHECKPOINTS_OF_GROUP), answer["groups"])
        _write_basis(answer["total"])


def _write_checkpoints_of(advice: Answer, name: str) -> None:
    best, current, gain = advice["best"], advice["current"], advice["gain"]
    band, save, mtbf = advice["flat_band"], advice["save_seconds"], advice["mtbf_seconds"]
    write_prose(f"{name}: {_verdict(advice)}")
    write_pairs(
        {
            "save every": _estimate(best["interval_seconds"], best),
            "about as good": "-" if band is None else _span(band),
            "now": duration(current and current["interval_seconds"]),
            "wasted now": percent(current and current["wasted_ratio"]),
            "wasted at best": percent(best["wasted_ratio"]),
            "GPU-hours to gain": amount(gain and gain["gpu_hours"]),
            "checkpoint blocking": _estimate(save["value"], save),
            "time between failures": _estimate(mtbf["value"], mtbf),
            "measured": _counts(advice["n"]),
        }
    )
    _write_curve(advice["curve"])
    _write_basis(advice)


def _write_basis(advice: Answer) -> None:
    write_line()
    write_prose(
        "WTT% and the gain are the formula's. `ett fleet` has what was measured: no interval gains "
        "more than repeated_training and checkpoint_blocking took."
    )
    write_prose(f"Assumed: {advice['assumption']}")


def _estimate(value: float | None, bounds: Answer) -> str:
    low, high = bounds["low"], bounds["high"]
    if low is None and high is None:
        return duration(value)
    if high is None:
        return f"{duration(value)} (at least {duration(low)})"
    return f"{duration(value)} ({_span(bounds)})"


def _span(bounds: Answer) -> str:
    return f"{duration(bounds['low'])} to {duration(bounds['high'])}"


def _counts(counts: Answer) -> str:
    counted = failure_counts(counts["failures"], counts["infra_failures"])
    return f"{counted}; {many(counts['saves'], 'save')}"


def _write_curve(curve: Sequence[Answer]) -> None:
    if curve:
        write_line()
        write_table(_CURVE, curve[::2])


CHECKPOINTS = Verb(
    epilog="Examples: `ett checkpoint-advice llm-70b`, `ett checkpoint-advice --by model`.",
    options=(_job, by, window, scope, _failures, server),
    run=_checkpoint_advice,
    write=_write_checkpoints,
)


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
_COMPILES_OF_GROUP = (
    spare(number("jobs read", "jobs_read", count)),
    number("compiling", "compile_seconds", duration),
    spare(number("recompiles", show=count)),
    number("recompiling", "recompile_seconds", duration),
    number("dynamic saves", "dynamic_seconds", duration),
    number("a cache saves", "uncached_seconds", duration),
    prose("setting"),
)


def _compile_advice(args: Namespace) -> Any:
    return _advice(args, "compile")


def _write_compiles(answer: Answer, args: Namespace) -> None:
    if args.job:
        _write_compiles_of(answer)
        return
    if answer["groups"] and answer["total"]["compiles"]:
        write_table((*group_columns(answer["group_by"]), *_COMPILES_OF_GROUP), answer["groups"])
    else:
        _write_compiles_of(answer["total"])
    write_line()
    read, every = count(answer["jobs_read"]), count(answer["jobs"])
    write_prose(f"Read: {read} of {every} jobs that compiled, those that compiled longest.")


def _write_compiles_of(advice: Answer) -> None:
    """Write the line to paste first, then what it rests on."""
    if advice["setting"]:
        write_line(f'export {_VARIABLE}="{advice["setting"].translate(_QUOTED)}"')
    elif advice["compiles"]:
        write_prose("No recompile that a dynamic source would stop.")
    else:
        write_prose(_NO_COMPILES)
        return
    write_line()
    pairs = {
        "compiling": _of(advice["compile_seconds"], advice["compiles"], "compiles"),
        "recompiling": _of(advice["recompile_seconds"], advice["recompiles"], "recompiles"),
    }
    if last := advice.get("last_attempt"):  # of a job
        again = _of(last["recompile_seconds"], last["recompiles"], "recompiles")
        pairs[f"in attempt {last['attempt']}, the last"] = again
    write_pairs(
        pairs
        | {
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


COMPILES = Verb(
    epilog="Examples: `ett compile-advice llm-70b`, `ett compile-advice --by model`.",
    options=(_job, by, window, scope, server),
    run=_compile_advice,
    write=_write_compiles,
)
