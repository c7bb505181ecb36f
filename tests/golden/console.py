"""Runs many commands ``ett`` in one process: most of a command's time is the interpreter's start.

It runs the installed script itself, so that it needs to know nothing of what is behind it.
Standard input lists commands, each a list of arguments; what each printed goes out. ``--help``
goes through all verbs below, and describes their arguments, too.
"""

import argparse
import contextlib
import io
import json
import runpy
import sys
from collections.abc import Iterator, Sequence
from typing import Any

_parsers: list[argparse.ArgumentParser] = []


def main() -> None:
    """Run the script that the first argument names with each of the commands."""
    script = sys.argv[1]
    printed = [each for command in json.load(sys.stdin) for each in _run(script, command)]
    json.dump(printed, sys.stdout)


def _run(script: str, command: Sequence[str]) -> Iterator[dict[str, Any]]:
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    _parsers.clear()
    sys.argv = [script, *command]
    code: object = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as ended:
            code = ended.code or 0
        except Exception as error:  # noqa: BLE001 - recorded, and no other command is the worse
            code = repr(error)
    parser = _parsers[0] if _parsers else None
    yield {
        "command": command,
        "code": code,
        "out": _text(out),
        "err": _text(err),
        "arguments": [_argument(action) for action in _actions(parser)],
        "description": [parser.description, parser.epilog] if parser else [],
    }
    for verb in _verbs(parser):
        yield from _run(script, [*command[:-1], verb, "--help"])


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


def _actions(parser: argparse.ArgumentParser | None) -> Sequence[argparse.Action]:
    return parser._actions if parser else ()  # noqa: SLF001 - nothing public tells them


def _verbs(parser: argparse.ArgumentParser | None) -> Iterator[str]:
    for action in _actions(parser):
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            yield from action.choices


def _summaries(action: argparse.Action) -> dict[str, str] | None:
    if not isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
        return None
    return {verb.dest: verb.help or "" for verb in action._choices_actions}  # noqa: SLF001


def _argument(action: argparse.Action) -> dict[str, Any]:
    """Describe an argument: by itself, as help is laid out otherwise by each Python."""
    described = {
        "name": ", ".join(action.option_strings) or action.metavar or action.dest,
        "nargs": action.nargs,
        "choices": action.choices and [str(choice) for choice in action.choices],
        "default": None if action.default in (None, argparse.SUPPRESS) else str(action.default),
        "required": action.required or None,
        "help": action.help,
        "verbs": _summaries(action),
    }
    return {name: value for name, value in described.items() if value is not None}


def _remember(self: argparse.ArgumentParser, file: Any = None) -> None:
    _parsers.append(self)
    _print_help(self, file)


_print_help = argparse.ArgumentParser.print_help

if __name__ == "__main__":
    argparse.ArgumentParser.print_help = _remember  # type: ignore[method-assign]
    main()
