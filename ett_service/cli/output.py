"""Writes data to standard output: tables for people, plain when piped, or JSON."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeVar

from rich import box
from rich.console import Console, JustifyMethod
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

T = TypeVar("T")

_PIPED_WIDTH = 1000
_FOLDED_FROM = 20  # a column of words is never narrower, unless its words are
_BETWEEN = 3


def write_json(value: object) -> None:
    """Write *value* as JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def write_line(text: str = "") -> None:
    """Write one line, as it is but for control characters."""
    print(shown(text))


def write_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Iterable[str] = (),
    last: Sequence[object] | None = None,
) -> None:
    """Write a table; the columns named in *right* are numbers, *last* is a row of sums.

    Where a terminal is too narrow, words are folded. Numbers are not, and nothing is ever cut.
    """
    console = _console()
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    body = [_cells(row) for row in rows]
    foot = [] if last is None else [_cells(last)]
    numbers = frozenset(right)
    narrowest = 0
    for place, column in enumerate(columns):
        widest = max(cell.cell_len for cell in (Text(column), *(row[place] for row in body + foot)))
        number = column in numbers
        least = widest if number else min(widest, _FOLDED_FROM)
        justify: JustifyMethod = "right" if number else "left"
        table.add_column(column, justify=justify, no_wrap=number, min_width=least, overflow="fold")
        narrowest += least + _BETWEEN
    for row in body:
        table.add_row(*row)
    if foot:
        table.add_section()
        table.add_row(*foot[0])
    console.width = max(console.width, narrowest)
    with console.capture() as written:
        console.print(table)
    for line in written.get().splitlines():
        print(line.rstrip())


def counted(items: Iterable[T], what: str) -> Iterator[T]:
    """Pass *items* on, and count them on standard error where somebody may be watching."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.completed} {task.description}"))
    with Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        yield from progress.track(items, description=what)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that is at *path* once it is whole, and not before.

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


def percent(ratio: float | None) -> str:
    """Show a ratio as percent."""
    return "-" if ratio is None else f"{ratio:.2%}"


def clock(seconds: float | None) -> str:
    """Show a duration as hours, minutes and seconds, to a tenth."""
    if seconds is None:
        return "-"
    minutes, tenths = divmod(round(seconds * 10), 600)
    return f"{minutes // 60}:{minutes % 60:02}:{tenths / 10:04.1f}"


def minute(instant: str | None) -> str:
    """Show an RFC 3339 instant to the second, without its zone."""
    return "-" if instant is None else instant[:19].replace("T", " ")


def _cells(row: Sequence[object]) -> list[Text]:
    # Text, because a plain string would be read as rich's markup.
    return [Text(shown(value)) for value in row]


def _console() -> Console:
    # A pipe has no width, and a cut cell would be lost data.
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else _PIPED_WIDTH)
