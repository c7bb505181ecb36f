"""Writes lines, JSON and files, and shows values; on the standard library alone."""

import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import Any, BinaryIO

NONE = "-"
"""What stands for a value that does not exist."""


def write_json(value: object) -> None:
    """Write *value*, which may hold dataclasses, as JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=_members))


def _members(value: Any) -> dict[str, Any]:
    return asdict(value)


def write_line(text: str = "") -> None:
    """Write one line, as it is but for control characters."""
    print(shown(text))


def write_prose(text: str) -> None:
    """Write sentences; on a terminal in lines of whole words."""
    line = shown(text)
    if sys.stdout.isatty():
        columns = shutil.get_terminal_size().columns
        line = fill(line, columns, break_long_words=False, break_on_hyphens=False)
    print(line)


def say(line: object) -> None:
    """Write a line for people to standard error, at once."""
    print(f"ett: {shown(line)}", file=sys.stderr, flush=True)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears at *path* once it is complete, and not before.

    What is there and no plain file, such as a device or a pipe, is written to as it is.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def shown(value: object) -> str:
    """Return *value* as text that cannot move a terminal's cursor; nothing for None."""
    text = "" if value is None else str(value)
    return "".join(mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}" for mark in text)


def or_dash(value: object) -> object:
    """Show what is None or empty as a dash."""
    return NONE if value is None or value == "" else value


def percent(ratio: float | None) -> str:
    """Show a ratio as percent."""
    return NONE if ratio is None else f"{ratio:.2%}"


def minute(instant: str | None) -> str:
    """Show an RFC 3339 instant to the second, without its zone."""
    return NONE if instant is None else instant[:19].replace("T", " ")


def conditions(values: Mapping[str, str]) -> str:
    """Show names and values: ``team:a model:llm-70b``."""
    return " ".join(f"{name}:{value}" for name, value in values.items())


def author(record: Mapping[str, Any], member: str) -> Any:
    """Return the name of the key that *member* holds, or the key where it has no name."""
    return record[f"{member}_name"] or record[member]
