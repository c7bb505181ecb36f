"""``ett doctor``: finds what is wrong with this installation, and says what to do about it."""

import argparse
import importlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from ett_service.cli.arguments import add_json, add_server
from ett_service.cli.exits import Exit
from ett_service.cli.operations.checks import EVERYWHERE, Check, Finding, Status


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser("doctor", help="find what is wrong with this installation")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings file (ETT_CONFIG)")
    add_server(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print one line a finding; ``Exit.GATE`` if any of them is a fault."""
    findings = list(_findings(args))
    if args.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            _write(finding)
    failed = any(finding.status is Status.FAIL for finding in findings)
    return Exit.GATE if failed else Exit.DONE


def _findings(args: argparse.Namespace) -> Iterator[Finding]:
    for check in (*EVERYWHERE, *_of_the_server()):
        yield from check(args)


def _of_the_server() -> tuple[Check, ...]:
    """Import the other checks, which a trainer's image has no packages for."""
    try:
        module = importlib.import_module("ett_service.cli.operations.server_checks")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ett_service"):
            raise
        found = f"this is a client only ({error.name} is missing)"
        return (lambda _: iter((Finding("packages", Status.OK, found),)),)
    checks: tuple[Check, ...] = module.OF_THE_SERVER
    return checks


def _write(finding: Finding) -> None:
    first, *more = finding.found.splitlines()
    print(f"{finding.status:<5}{finding.check:<10}{first}")
    for line in (*more, *([finding.todo] if finding.todo else [])):
        print(f"{'':<15}{line}")
