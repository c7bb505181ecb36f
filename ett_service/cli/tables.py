"""Tables for people: columns that know what they show of a row, plain when piped."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeAlias

from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from ett_service.cli.output import shown, write_line

_PIPED_WIDTH = 1000
_FOLDED_FROM = 20  # a column of words is never narrower, unless its words are
_BETWEEN = 3

Answer: TypeAlias = Mapping[str, Any]
"""What the API answers, or a part of it."""

Value: TypeAlias = str | Callable[[Any], Any]
"""A member of a row (``impact.gpu_hours``: of a member of it), or a function of the row."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, the cell of a row, and whether its cells are numbers."""

    heading: str
    cell: Callable[[Any], object]
    is_number: bool = False


def text(heading: str, value: Value = "", show: Callable[[Any], object] | None = None) -> Column:
    """Return a column of words; *value* is the member of the heading's name unless given."""
    return Column(heading, _cell(value or heading, show))


def number(heading: str, value: Value = "", show: Callable[[Any], object] | None = None) -> Column:
    """Return a column of numbers, which line up at the right and are never folded."""
    return Column(heading, _cell(value or heading, show), is_number=True)


def cells(columns: Iterable[Column], row: Any) -> list[object]:
    """Return what *columns* show of *row*."""
    return [column.cell(row) for column in columns]


def write_table(
    columns: Sequence[Column], rows: Iterable[Any], last: Sequence[object] | None = None
) -> None:
    """Write a line for each of *rows*; *last* are the cells of a line of sums."""
    write_cells(
        [column.heading for column in columns],
        [cells(columns, row) for row in rows],
        right={column.heading for column in columns if column.is_number},
        last=last,
    )


def write_cells(
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Iterable[str] = (),
    last: Sequence[object] | None = None,
) -> None:
    """Write a table of cells; the headings in *right* are those of numbers.

    Where a terminal is too narrow, words are folded. Numbers are not, and nothing is ever cut.
    """
    console = _console()
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    body = [_safe(row) for row in rows]
    foot = [] if last is None else [_safe(last)]
    numbers = frozenset(right)
    narrowest = 0
    for place, heading in enumerate(headings):
        widest = max(
            cell.cell_len for cell in (Text(heading), *(row[place] for row in body + foot))
        )
        is_number = heading in numbers
        least = widest if is_number else min(widest, _FOLDED_FROM)
        justify: JustifyMethod = "right" if is_number else "left"
        table.add_column(
            heading, justify=justify, no_wrap=is_number, min_width=least, overflow="fold"
        )
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


def write_rows(columns: Sequence[Column], rows: Sequence[Any], otherwise: str) -> None:
    """Write a line for each of *rows*, or where there are none the sentence *otherwise*."""
    if rows:
        write_table(columns, rows)
    else:
        write_line(otherwise)


def write_pairs(pairs: Mapping[str, object], heading: str = "") -> None:
    """Write a table of names and their values."""
    write_table((Column(heading, itemgetter(0)), Column("", itemgetter(1))), pairs.items())


def _cell(value: Value, show: Callable[[Any], object] | None) -> Callable[[Any], object]:
    read = value if callable(value) else _member(value)
    return read if show is None else lambda row: show(read(row))


def _member(path: str) -> Callable[[Any], Any]:
    names = path.split(".")

    def read(row: Any) -> Any:
        for name in names:
            if row is None:
                return None
            row = row[name]
        return row

    return read


def _safe(row: Iterable[object]) -> list[Text]:
    # Text, because a plain string would be read as rich's markup.
    return [Text(shown(value)) for value in row]


def _console() -> Console:
    # A pipe has no width, and a cut cell would be lost data.
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else _PIPED_WIDTH)
