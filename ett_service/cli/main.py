"""``ett``: finds the verb, runs it, and says of every failure what went wrong and what to try.

It starts on the standard library alone. A verb's module is imported when the verb is asked for,
so only those that need the server's packages miss them.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version

from ett_service.cli.exits import Exit, Failure
from ett_service.core.errors import EttError

INSTALL = "pip install 'ett-service[server]'"
_INTERRUPTED = 130  # what shells report of a command that SIGINT ended


@dataclass(frozen=True, slots=True)
class Verb:
    """Where a verb lives: ``add_parser(subparsers)`` and ``run(args) -> int`` of a module."""

    summary: str
    module: str
    add_parser: str = "add_parser"
    run: str = "run"


VERBS: Mapping[str, Verb] = {
    "run": Verb(
        "run a command as an attempt of a job", "ett_service.client.command", "add_run", "run"
    ),
    "sync": Verb(
        "send what trainers left unsent", "ett_service.client.command", "add_sync", "sync"
    ),
    "serve": Verb("serve the API", "ett_service.cli.serve"),
    "demo": Verb("serve a made-up fleet, to look around in", "ett_service.cli.demo"),
    "worker": Verb("compute ledgers beside a server", "ett_service.cli.worker"),
    "migrate": Verb("bring the database to the newest schema", "ett_service.cli.migrate"),
    "import": Verb("turn logs into events", "ett_service.cli.import_"),
    "jobs": Verb("list, correct and delete jobs", "ett_service.cli.jobs"),
    "job": Verb("show one job's ledger", "ett_service.cli.job"),
    "markers": Verb("record deploys, launches and maintenance", "ett_service.cli.markers"),
    "fleet": Verb("show where the fleet's time goes", "ett_service.cli.fleet"),
    "explain": Verb("split a change of ETT%% into its causes", "ett_service.cli.explain"),
    "changes": Verb("what was before each marker, and what after", "ett_service.cli.changes"),
    "what-if": Verb("what would have been gained", "ett_service.cli.what_if"),
    "checkpoint-advice": Verb("find how often to save", "ett_service.cli.checkpoint_advice"),
    "estimate": Verb("find what a planned run would take", "ett_service.cli.estimate"),
    "detect": Verb("replay the search for regressions", "ett_service.cli.detect"),
    "regressions": Verb(
        "what changed for the worse, why, and what is done about it", "ett_service.cli.regressions"
    ),
    "report": Verb("write up a week of the fleet", "ett_service.cli.report"),
    "export": Verb("write lists, or the past of the metrics, to files", "ett_service.cli.export"),
    "rules": Verb("write rules for Prometheus", "ett_service.cli.rules"),
    "verify": Verb("recompute everything and print the differences", "ett_service.cli.verify"),
    "recompute": Verb("fold every job anew and rewrite its numbers", "ett_service.cli.recompute"),
    "receivers": Verb("tell people of regressions", "ett_service.cli.receivers"),
    "keys": Verb("create, list and revoke API keys", "ett_service.cli.keys"),
    "config": Verb("show or check the settings", "ett_service.cli.config"),
    "doctor": Verb("find what is wrong with this installation", "ett_service.cli.doctor"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; see ``Exit``."""
    given = list(sys.argv[1:] if argv is None else argv)
    chosen = next((word for word in given if not word.startswith("-")), "")
    try:
        with _flushed():
            return _run(given, chosen)
    except BrokenPipeError:
        # The reader has had enough; without this the interpreter complains while it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED
    except (EttError, ModuleNotFoundError, OSError) as error:
        message, hint, code = _explained(error, chosen)
        print(f"ett: {message}", file=sys.stderr)
        if hint:
            print(f"     {hint}", file=sys.stderr)
        return code
    except KeyboardInterrupt:
        return _INTERRUPTED


@contextmanager
def _flushed() -> Iterator[None]:
    """Write what is buffered while failures of it can still be told."""
    try:
        yield
    finally:
        sys.stdout.flush()


def _run(given: Sequence[str], chosen: str) -> int:
    parser = argparse.ArgumentParser(
        prog="ett",
        description="What your training jobs spend their time on.",
        epilog="`ett VERB --help` tells a verb's arguments. Exit codes: docs/operations.md.",
    )
    parser.add_argument("--version", action="version", version=f"ett {version('ett-service')}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, verb in VERBS.items():
        if name == chosen:
            getattr(importlib.import_module(verb.module), verb.add_parser)(verbs)
        else:
            verbs.add_parser(name, help=verb.summary, add_help=False)
    args = parser.parse_args(given)
    verb = VERBS[args.verb]
    code: int = getattr(importlib.import_module(verb.module), verb.run)(args)
    return code


def _explained(
    error: EttError | ModuleNotFoundError | OSError, chosen: str
) -> tuple[str, str, Exit]:
    if isinstance(error, EttError):
        code = error.code if isinstance(error, Failure) else Exit.FAILED
        return str(error), error.hint, code
    if isinstance(error, OSError):
        hint = "Check that the path, address or port is right and free to use."
        return str(error), hint, Exit.FAILED
    if (error.name or "").partition(".")[0] == "ett_service":
        raise error
    missing = f"`ett {chosen}` needs the server's packages ({error.name} is missing)"
    return missing, f"Install them: {INSTALL}", Exit.FAILED
