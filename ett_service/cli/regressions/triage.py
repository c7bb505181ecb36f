"""What people do about findings: ``ett regressions`` triage, accept, mute, confirm, and more."""

import math
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from functools import partial
from typing import Any

from ett_service.charts.units import cohort, count, factor
from ett_service.cli.arguments import ID, WHY, instant, named, pair, project, seconds, server
from ett_service.cli.output import author, minute, or_dash, write_line, write_prose
from ett_service.cli.remote import ask, listed, of_project, place, without_none
from ett_service.cli.tables import Answer, identifier, number, prose, spare, text, write_rows
from ett_service.cli.verb import Failure, Verb, act, now_us
from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.core.regressions.finding import Metric, Triage

_MUTES = "/v1/regressions/mutes"
_SHARED = (project, server)
_FINDING = named("id", ID)

_COLUMNS = (
    identifier("id"),
    text("cohort", "cohort", cohort),
    text("phase", "phase", lambda phase: phase or "(all)"),
    spare(text("from (UTC)", "from", minute)),
    text("until (UTC)", "until", minute),
    spare(text("by", partial(author, member="made_by"))),
    prose("why"),
)

_TUNING = "/v1/regressions/tuning"
_OUTCOMES = {
    "confirmed": "It is confirmed, and triaged as real.",
    "refuted": "It is refuted, and triaged as noise: both are as before the change.",
    "stands": "The change stands, and what they differ in is not its cause: the history says so.",
    "open": "That settles nothing yet.",
}

_TUNING_COLUMNS = (
    text("metric"),
    number("real", "real", count),
    number("noise", "noise", count),
    number("factor", "factor", factor),
    spare(text("reset (UTC)", "reset_at", lambda at: or_dash(at and minute(at)))),
    prose("why", "reset_why", or_dash),
)


def _why(parser: ArgumentParser) -> None:
    parser.add_argument("--why", help=WHY)


def _needed_why(parser: ArgumentParser) -> None:
    parser.add_argument("--why", required=True, help=WHY)


def _post(args: Namespace, act: str, body: Mapping[str, object]) -> Any:
    path = place("/v1/regressions/{}", args.id) + f"/{act}"
    return ask(args, path, of_project(args), method="POST", body=without_none(body))


def _verdict(parser: ArgumentParser) -> None:
    parser.add_argument("verdict", choices=[word.value for word in Triage])
    parser.add_argument(
        "--onset", type=instant, metavar="WHEN", help="it began then: the search goes on from there"
    )
    parser.add_argument(
        "--cohort",
        action="append",
        type=pair,
        metavar="DIMENSION:VALUE",
        help="it is in this cohort, which the last search covered",
    )


def _triage(args: Namespace) -> Any:
    body = {
        "verdict": args.verdict,
        "why": args.why,
        "onset": args.onset,
        "cohort": None if args.cohort is None else dict(args.cohort),
    }
    return _post(args, "triage", body)


def _write_triage(answer: Answer, args: Namespace) -> None:
    write_prose(f"{args.id} is {args.verdict}.")
    if answer["id"] != args.id:
        write_prose(f"It goes on as {answer['id']} in {cohort(answer['cohort'])}.")
    elif args.onset is not None:
        write_prose(f"Its onset is {minute(answer['onset_at'])} (UTC) from now on.")


def _acknowledge(args: Namespace) -> Any:
    return _post(args, "acknowledge", {"why": args.why})


def _write_acknowledged(answer: Answer, args: Namespace) -> None:
    write_prose(f"{args.id} is acknowledged by {author(answer, 'acknowledged_by')}.")


def _accept(args: Namespace) -> Any:
    return _post(args, "accept", {"why": args.why})


def _write_accepted(_answer: Any, args: Namespace) -> None:
    write_prose(f"{args.id} is accepted: its current level is the new baseline.")


def _mute_options(parser: ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", help=f"of a finding: {ID}")
    parser.add_argument(
        "--where",
        action="append",
        type=pair,
        default=[],
        metavar="DIMENSION:VALUE",
        help="instead of a finding: cohorts with this value, such as cluster:a",
    )
    parser.add_argument("--phase", help="only this phase")
    parser.add_argument("--all", action="store_true", help="instead: the whole project")
    ends = parser.add_mutually_exclusive_group(required=True)
    ends.add_argument(
        "--until", type=instant, metavar="WHEN", help="end, up to a year ahead, such as 2026-12-24"
    )
    ends.add_argument("--for", type=seconds, dest="length", help="how long: 90m, 6h, 3d")


def _mute(args: Namespace) -> Any:
    is_part = bool(args.where or args.phase)
    if sum((args.id is not None, is_part, args.all)) != 1:
        raise Failure(
            "a mute covers exactly one of a finding, a part of the project and --all",
            "Name a finding by its id, or a part by --where and --phase, or --all of the project.",
        )
    until = args.until or rfc3339(now_us() + round(args.length * SECOND_US))
    if args.id is not None:
        return _post(args, "mute", {"until": until, "why": args.why})
    body = {"until": until, "why": args.why, "cohort": dict(args.where), "phase": args.phase}
    return ask(args, _MUTES, of_project(args), method="POST", body=body)


def _write_mute(mute: Answer, _args: Namespace) -> None:
    phase = f", {mute['phase']}" if mute["phase"] else ""
    until = minute(mute["until"])
    write_prose(f"{mute['id']} mutes {cohort(mute['cohort'])}{phase} until {until} (UTC).")


def _unmute(args: Namespace) -> Any:
    ask(args, place(_MUTES + "/{}", args.mute), of_project(args), method="DELETE")
    return {"id": args.mute, "taken_back": True}


def _write_unmuted(_answer: Any, args: Namespace) -> None:
    write_prose(f"{args.mute} has ended.")


def _mutes_options(parser: ArgumentParser) -> None:
    parser.add_argument("--over", action="store_true", help="also those that ended")


def _mutes(args: Namespace) -> Any:
    query = of_project(args, over="true" if args.over else None)
    return listed(args, _MUTES, "mutes", query)


def _write_mutes(mutes: list[Any], _args: Namespace) -> None:
    write_rows(_COLUMNS, mutes, "No mutes. Maintenance mutes, too: see `ett markers list`.")


def _confirm_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--jobs",
        nargs=2,
        metavar=("BASE", "JOB"),
        help="settle it by these two jobs, the first without the change; patterns for several jobs",
    )


def _confirm(args: Namespace) -> Any:
    path = place("/v1/regressions/{}", args.id)
    if args.jobs is None:
        return ask(args, f"{path}/experiment", of_project(args))
    base, job = args.jobs
    body = {"base_job": base, "job": job}
    return ask(args, f"{path}/confirm", of_project(args), method="POST", body=body)


def _write_confirmation(answer: Answer, args: Namespace) -> None:
    if args.jobs is None:
        _write_experiment(answer, args)
    else:
        _write_outcome(answer)


def _write_experiment(answer: Answer, args: Namespace) -> None:
    alike = ", ".join(f"{name} {value}" for name, value in answer["alike"].items())
    before, after = answer["before"] or "what ran before", answer["after"] or "what runs now"
    write_prose(f"Launch jobs in {cohort(answer['cohort'])}, alike in all else ({alike}):")
    write_line(f"  1. {answer['dimension']} {before}")
    write_line(f"  2. {answer['dimension']} {after}")
    starts, ratio, spread = answer["starts"], factor(answer["ratio"]), math.exp(answer["sigma"])
    write_prose(
        f"{count(starts)} starts of each, by as many jobs, show {ratio} in 80 of 100 cases. One "
        f"start differs from the next by a factor of {spread:.2f}."
    )
    write_line(f"Then: ett regressions confirm {args.id} --jobs JOB1 JOB2")


def _write_outcome(answer: Answer) -> None:
    write_prose(
        f"The second job takes {_quotient(answer)} of the first (90% interval; "
        f"n {count(answer['base_n'])} and {count(answer['n'])})."
    )
    for level, when in (("of_baseline", "before"), ("of_present", "since")):
        if answer[level]:
            write_prose(f"Both take {_quotient(answer[level])} of what it took {when} the onset.")
    write_prose(_OUTCOMES[answer["outcome"]])
    if answer["outcome"] == "open" and answer["more"]:
        write_prose(f"Launch {count(answer['more'])} more jobs of each for 80% power.")


def _quotient(answer: Answer) -> str:
    low, high = answer["interval"]["low"], answer["interval"]["high"]
    return f"{factor(answer['ratio'])} (x {low:.2f} to x {high:.2f})"


def _tuning_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--reset",
        choices=[metric.value for metric in Metric],
        help="ignore the verdicts on this metric so far",
    )
    parser.add_argument("--why", help=WHY)


def _tuning(args: Namespace) -> Any:
    if args.reset is None:
        return ask(args, _TUNING, of_project(args))["tuning"]
    if not args.why:
        raise Failure("a reset needs its reason", "Name it with --why.")
    body: Mapping[str, str] = {"metric": args.reset, "why": args.why}
    return ask(args, f"{_TUNING}/reset", of_project(args), method="POST", body=body)["tuning"]


def _write_tuning(rows: list[Any], _args: Namespace) -> None:
    write_rows(
        _TUNING_COLUMNS, rows, "No verdicts yet: the settings alone say which changes count."
    )
    if rows:
        write_prose("The smallest change that counts, less 1, is multiplied by the factor.")


ACTS: Mapping[str, Verb] = {
    "triage": act(
        "record what a finding turned out to be",
        _triage,
        _write_triage,
        _FINDING,
        _verdict,
        _needed_why,
        *_SHARED,
    ),
    "acknowledge": act(
        "record that somebody looks into a finding",
        _acknowledge,
        _write_acknowledged,
        _FINDING,
        _why,
        *_SHARED,
    ),
    "accept": act(
        "accept the current level as the new baseline",
        _accept,
        _write_accepted,
        _FINDING,
        _needed_why,
        *_SHARED,
    ),
    "mute": Verb(
        summary="mute the cohort and phase of a finding, or those that are named",
        epilog="Examples: `ett regressions mute ID --for 3d --why ...`, "
        "`ett regressions mute --where cluster:a --for 6h --why ...`.",
        options=(_mute_options, _needed_why, *_SHARED),
        run=_mute,
        write=_write_mute,
    ),
    "unmute": act(
        "end a mute now",
        _unmute,
        _write_unmuted,
        named("mute", "id, as `mutes` shows it"),
        *_SHARED,
    ),
    "mutes": act("list mutes", _mutes, _write_mutes, _mutes_options, *_SHARED),
    "confirm": Verb(
        summary="say which two runs would settle a finding, or settle it by them",
        epilog="Examples: `ett regressions confirm ID`, `ett regressions confirm ID --jobs A B`.",
        options=(named("id", ID), _confirm_options, *_SHARED),
        run=_confirm,
        write=_write_confirmation,
    ),
    "tuning": act(
        "show how verdicts move the smallest change that counts, or take that back",
        _tuning,
        _write_tuning,
        _tuning_options,
        *_SHARED,
    ),
}
"""The acts of ``ett regressions`` that people react with."""
