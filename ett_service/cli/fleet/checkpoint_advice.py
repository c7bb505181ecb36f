"""``ett checkpoint-advice``: how often a job, or each cohort, should save."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from ett_service.charts.units import amount, count, duration, percent
from ett_service.cli.arguments import by, scope, scope_query, server, window, window_query
from ett_service.cli.fleet.fleet import group_columns
from ett_service.cli.output import write_line, write_prose
from ett_service.cli.remote import ask, of_project, place
from ett_service.cli.tables import Answer, number, spare, text, write_pairs, write_table
from ett_service.cli.verb import Failure, Verb
from ett_service.report.advice import VERDICTS


def _verdict(advice: Answer) -> str:
    return advice["reason"] or VERDICTS[advice["verdict"]]


_GROUP = (
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


def _options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--failures", choices=("all", "infra"), help="failures to count (default all)"
    )


def _advice(args: Namespace) -> Any:
    """Return the advice for a job, or for the fleet and its groups.

    Raises:
        Failure: where a window or a group is asked of one job.
    """
    if not args.job:
        query = {**window_query(args), **scope_query(args), "group_by": args.by}
        return ask(args, "/v1/fleet/checkpoint-advice", {**query, "failures": args.failures})
    if args.by or args.begin or args.end or args.where or args.exclusions:
        raise Failure(
            "the advice for a job covers all of its life",
            "Leave out --by, --from, --to, --where and --exclusions, or the job.",
        )
    path = place("/v1/jobs/{}/checkpoint-advice", args.job)
    return ask(args, path, of_project(args, failures=args.failures))


def _write(answer: Answer, args: Namespace) -> None:
    if args.job:
        _write_one(answer, args.job)
    elif not answer["groups"]:
        _write_one(answer["total"], "the fleet")
    else:
        write_table((*group_columns(answer["group_by"]), *_GROUP), answer["groups"])
        write_line()
        write_prose(f"Assumed: {answer['total']['assumption']}")


def _write_one(advice: Answer, name: str) -> None:
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
    write_line()
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
    return (
        f"{count(counts['failures'])} failures, {count(counts['infra_failures'])} of them infra; "
        f"{count(counts['saves'])} saves"
    )


def _write_curve(curve: Sequence[Answer]) -> None:
    if curve:
        write_line()
        write_table(_CURVE, curve[::2])


VERB = Verb(
    epilog="Examples: `ett checkpoint-advice llm-70b`, `ett checkpoint-advice --by model`.",
    options=(_job, by, window, scope, _options, server),
    run=_advice,
    write=_write,
)
