"""``ett``: finds the verb, runs it, and says of every failure what went wrong and what to try.

It starts on the standard library alone. Only the chosen verb's module is imported, so a verb
needs no packages but its own.
"""

import argparse
import gc
import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ett_service.cli.verb import Exit, Failure, Verb, check_options, check_verb, perform
from ett_service.client import __version__
from ett_service.core.errors import EttError

#: What lives long, such as folds kept for what comes next, holds no cycles. To look through all of
#: it after each hundredth collection of what is young took a third of the time of a fold.
_COLLECTIONS = (700, 10, 1000)

INSTALL = "pip install 'ett-service[server]'"
_INTERRUPTED = 130  # what shells report of a command that SIGINT ended

_EPILOG = """\
Begin with `ett demo`, a synthetic fleet to explore, or with `ett serve` and
`ett run --job NAME -- python train.py`. `ett VERB --help` explains a verb's
arguments, `ett completion bash` completes them. Exit codes: docs/operations.md.
"""

Subparsers = Any  # argparse gives their type no public name


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the list of verbs: a line of help, and where its ``Verb`` is."""

    summary: str
    module: str  #: of this package
    name: str = "VERB"

    def declare(self, word: str, verbs: Subparsers) -> None:
        """Import the module, and add the verb's parser."""
        verb: Verb = getattr(importlib.import_module(f"ett_service.cli.{self.module}"), self.name)
        verb.declare(
            verbs.add_parser(
                word,
                help=self.summary,
                description=verb.description,
                epilog=verb.epilog,
                formatter_class=verb.formatter,
            )
        )

    def run(self, args: argparse.Namespace) -> int:
        """Run what *args* chose."""
        return perform(args)


@dataclass(frozen=True, slots=True)
class PlainEntry:
    """A verb of a package that knows no ``Verb``: two functions of a module."""

    summary: str
    module: str
    adds: str
    runs: str

    def declare(self, _word: str, verbs: Subparsers) -> None:
        """Import the module, and add the verb's parser."""
        getattr(importlib.import_module(self.module), self.adds)(verbs)

    def run(self, args: argparse.Namespace) -> int:
        """Run it."""
        code: int = getattr(importlib.import_module(self.module), self.runs)(args)
        return code


_CLIENT = "ett_service.client.launching.command"

VERBS: Mapping[str, Entry | PlainEntry] = {
    "run": PlainEntry("run a command as an attempt of a job", _CLIENT, "add_run", "run"),
    "sync": PlainEntry("send the events that trainers left unsent", _CLIENT, "add_sync", "sync"),
    "serve": Entry("serve the API", "operations.serve", "SERVE"),
    "demo": Entry("serve a synthetic fleet to explore", "demo.demo"),
    "worker": Entry("compute ledgers beside a server", "operations.serve", "WORKER"),
    "migrate": Entry("migrate the database to the latest schema", "operations.database", "MIGRATE"),
    "import": Entry("import logs of other programs as events", "record.import_"),
    "watch": Entry("record what a scheduler knows of its jobs", "record.watch"),
    "audit": Entry("compare what published definitions make of a log", "record.audit"),
    "jobs": Entry("list, correct and delete jobs", "jobs.jobs"),
    "job": Entry("show the ledger of a job", "jobs.job"),
    "markers": Entry("record deploys, launches and maintenance", "record.markers"),
    "fleet": Entry("show where the fleet's time goes", "fleet.fleet"),
    "explain": Entry("break a change of ETT%% down into its causes", "fleet.explain"),
    "changes": Entry("compare the fleet before and after markers", "fleet.changes"),
    "what-if": Entry("estimate what an improvement would have gained", "fleet.what_if"),
    "checkpoint-advice": Entry("recommend a checkpoint interval", "fleet.advice", "CHECKPOINTS"),
    "compile-advice": Entry("name what would save compile time", "fleet.advice", "COMPILES"),
    "estimate": Entry("estimate time and cost of a planned run", "fleet.estimate"),
    "detect": Entry("backtest the search for regressions", "regressions.detect"),
    "regressions": Entry("list, explain, triage and mute regressions", "regressions.regressions"),
    "report": Entry("write the weekly report of the fleet", "fleet.report"),
    "export": Entry("export lists and the history of metrics", "record.export"),
    "mcp": Entry("answer assistants over the Model Context Protocol", "mcp.command"),
    "rules": Entry("write alerting and recording rules for Prometheus", "metrics.rules"),
    "verify": Entry("recompute everything and show differences", "operations.database", "VERIFY"),
    "recompute": Entry(
        "recompute every job and rewrite its numbers", "operations.database", "RECOMPUTE"
    ),
    "backup": Entry("copy a SQLite database while it is used", "operations.database", "BACKUP"),
    "prune": Entry("delete the events of jobs that are long over", "operations.database", "PRUNE"),
    "receivers": Entry("manage who is notified of regressions", "receivers"),
    "keys": Entry("create, list, rotate and revoke API keys", "record.keys"),
    "audit-log": Entry("list what administrators did", "record.audit_log"),
    "config": Entry("show or check the settings", "operations.config"),
    "completion": Entry("complete words of the command line in your shell", "completion"),
    "doctor": Entry("diagnose this installation", "operations.doctor"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; see ``Exit``."""
    if "_ARGCOMPLETE" in os.environ:  # set by the code of `ett completion`
        importlib.import_module("ett_service.cli.completion").answer(parser)
    gc.set_threshold(*_COLLECTIONS)
    words = _joined(sys.argv[1:] if argv is None else argv)
    chosen = next((word for word in words if not word.startswith("-")), "")
    try:
        with _flushed():
            check_verb(chosen, VERBS)
            root = parser(chosen)
            if not words:
                root.print_help()
                return Exit.DONE
            check_options(chosen, root, words)
            args = root.parse_args(words)
            return VERBS[args.verb].run(args)
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


def _joined(words: Sequence[str]) -> list[str]:
    """Join ``--sort -gpus`` to ``--sort=-gpus``: to argparse a word with a dash is an option."""
    joined: list[str] = []
    for place, word in enumerate(words):
        if joined and joined[-1] == "--sort" and "--" not in words[:place]:
            joined[-1] = f"--sort={word}"
        else:
            joined.append(word)
    return joined


def parser(chosen: str) -> argparse.ArgumentParser:
    """Return the parser of the command line, with the arguments of the *chosen* verb."""
    root = argparse.ArgumentParser(
        prog="ett",
        description="Where the time of your training jobs goes.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root.add_argument("-V", "--version", action="version", version=f"ett {__version__}")
    verbs = root.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, entry in VERBS.items():
        if name == chosen:
            entry.declare(name, verbs)
        else:
            verbs.add_parser(name, help=entry.summary, add_help=False)
    return root


@contextmanager
def _flushed() -> Iterator[None]:
    """Write what is buffered while its failure can still be reported."""
    try:
        yield
    finally:
        sys.stdout.flush()


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
