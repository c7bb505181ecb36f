"""``ett regressions triage | acknowledge | accept``: what people say of a finding."""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from ett_service.cli.exits import Exit
from ett_service.cli.output import write_json, write_line
from ett_service.cli.remote import ask
from ett_service.core.regressions.finding import Triage

_WHY = "for who reads the history: why"


def add_acts(acts: Any) -> Iterator[argparse.ArgumentParser]:
    """Declare the three."""
    triage = acts.add_parser("triage", help="say what a finding is")
    triage.set_defaults(of_act=_triage)
    triage.add_argument("id", help="as `list` shows it")
    triage.add_argument("verdict", choices=[word.value for word in Triage])
    triage.add_argument("--why", required=True, help=_WHY)
    yield triage
    acknowledge = acts.add_parser("acknowledge", help="say that somebody looks after it")
    acknowledge.set_defaults(of_act=_acknowledge)
    acknowledge.add_argument("id", help="as `list` shows it")
    acknowledge.add_argument("--why", help=_WHY)
    yield acknowledge
    accept = acts.add_parser("accept", help="take what is now as the new normal")
    accept.set_defaults(of_act=_accept)
    accept.add_argument("id", help="as `list` shows it")
    accept.add_argument("--why", required=True, help=_WHY)
    yield accept


def act_on(args: argparse.Namespace, act: str, body: Mapping[str, Any]) -> Any:
    """Post *body* as this *act* on the regression that *args* name, and return the answer."""
    given = {name: value for name, value in body.items() if value is not None}
    path = f"/v1/regressions/{quote(args.id, safe='')}/{act}"
    return ask(args, path, {"project": args.project}, method="POST", body=given)


def told(args: argparse.Namespace, answer: object, line: str) -> int:
    """Write *answer* as JSON where that was asked for, else *line*."""
    if args.json:
        write_json(answer)
    else:
        write_line(line)
    return Exit.DONE


def _triage(args: argparse.Namespace) -> int:
    answer = act_on(args, "triage", {"verdict": args.verdict, "why": args.why})
    return told(args, answer, f"{args.id} is {args.verdict}.")


def _acknowledge(args: argparse.Namespace) -> int:
    answer = act_on(args, "acknowledge", {"why": args.why})
    by = answer["acknowledged_by_name"] or answer["acknowledged_by"]
    return told(args, answer, f"{args.id} is acknowledged by {by}.")


def _accept(args: argparse.Namespace) -> int:
    answer = act_on(args, "accept", {"why": args.why})
    return told(args, answer, f"{args.id} is accepted: what comes is compared with what is now.")
