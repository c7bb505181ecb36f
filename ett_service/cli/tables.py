"""Tables for people: columns that know what they show of a row, plain when piped.

On a terminal a table is as wide as the terminal at most. Headings are folded first, then words at
their spaces; names and numbers never are. Where that is not enough, spare columns are left out,
and a line below names them; then words are folded behind ``_``, ``:`` and ``/``. Nothing is ever
cut. Styles of cells are those of rich, which shows no colour in a pipe or where ``NO_COLOR`` is
set, and ``FORCE_COLOR`` wherever it is; the words say the same without them.
"""

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from operator import itemgetter
from textwrap import fill
from typing import Any, TypeAlias

from rich import box
from rich.console import Console, JustifyMethod
from rich.style import Style
from rich.table import Table
from rich.text import Text

from ett_service.cli.output import shown, write_line

_BAD, _DOUBTFUL, _GOOD, _QUIET = "red", "yellow", "green", "dim"

_STYLES: Mapping[str, str] = {
    # outcomes of attempts, states of jobs
    "completed": _GOOD,
    "failed": _BAD,
    "lost": _BAD,
    "preempted": _DOUBTFUL,
    "interrupted": _DOUBTFUL,
    "cancelled": _QUIET,
    "queued": _QUIET,
    "running": "cyan",
    # states of findings, their verdicts and severity, what a comparison says
    "firing": _BAD,
    "pending": _DOUBTFUL,
    "resolved": _GOOD,
    "inactive": _QUIET,
    "regression": _BAD,
    "improvement": _GOOD,
    "high": f"bold {_BAD}",
    "medium": _DOUBTFUL,
    "worse": _BAD,
    "better": _GOOD,
    "too few": _QUIET,
    # deliveries and receivers
    "dead": _BAD,
    "failing": _BAD,
    "disabled": _BAD,
    "sent": _GOOD,
}

_BETWEEN = 2
_LEAST_PROSE = 16
_JOINTS = re.compile(r"(?<=[_:/])(?=.)")

Answer: TypeAlias = Mapping[str, Any]
"""What the API answers, or a part of it."""

Value: TypeAlias = str | Callable[[Any], Any]
"""A member of a row (``impact.gpu_hours``: of a member of it), or a function of the row."""

Show: TypeAlias = Callable[[Any], object] | None
"""How a value is shown; as it is where None."""


def outcome(cell: str) -> str:
    """Return the style of an outcome, a state, a verdict or a severity: ``firing (muted)``."""
    return _STYLES.get(cell.partition(" (")[0].strip(), "")


def gain(cell: str) -> str:
    """Return the style of a signed difference of which more is better, such as of ETT%."""
    return _signed(cell, _GOOD, _BAD)


def loss(cell: str) -> str:
    """Return the style of a signed difference of which more is worse, such as of a duration."""
    return _signed(cell, _BAD, _GOOD)


def difference(cell: str) -> str:
    """Return the style of a signed difference: of points more is better, of durations worse."""
    return gain(cell) if cell.endswith("pt") else loss(cell)


def _signed(cell: str, more: str, less: str) -> str:
    if cell.startswith("+"):
        return more
    return less if cell.startswith("-") and len(cell) > 1 else ""


class _Kind(Enum):
    """How the cells of a column may be folded."""

    NUMBER = auto()  #: not at all; they line up at the right
    NAME = auto()  #: not at all
    WORDS = auto()  #: at spaces, and in need within long words
    PROSE = auto()  #: at spaces, and long words anywhere


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, the cell of a row, how that may be folded, and its style."""

    heading: str
    cell: Callable[[Any], object]
    kind: _Kind = _Kind.WORDS
    style: Callable[[str], str] = lambda _cell: ""
    is_spare: bool = False  #: left out where the terminal is too narrow


def text(heading: str, value: Value = "", show: Show = None) -> Column:
    """Return a column of words; *value* is the member of the heading's name unless given."""
    return Column(heading, _cell(value or heading, show))


def identifier(heading: str, value: Value = "", show: Show = None) -> Column:
    """Return a column of ids or names, which people copy: they are never folded."""
    return Column(heading, _cell(value or heading, show), _Kind.NAME)


def prose(heading: str, value: Value = "", show: Show = None) -> Column:
    """Return a column of sentences and messages, whose long words may be broken."""
    return Column(heading, _cell(value or heading, show), _Kind.PROSE)


def number(heading: str, value: Value = "", show: Show = None) -> Column:
    """Return a column of numbers, which line up at the right and are never folded."""
    return Column(heading, _cell(value or heading, show), _Kind.NUMBER)


def spare(column: Column) -> Column:
    """Let *column* be left out where the terminal is too narrow."""
    return replace(column, is_spare=True)


def styled(column: Column, style: Callable[[str], str]) -> Column:
    """Give each cell of *column* the style that its text has, such as ``red``."""
    return replace(column, style=style)


def cells(columns: Iterable[Column], row: Any) -> list[object]:
    """Return what *columns* show of *row*."""
    return [column.cell(row) for column in columns]


def write_table(
    columns: Sequence[Column], rows: Iterable[Any], last: Sequence[object] | None = None
) -> None:
    """Write a line for each of *rows*; *last* are the cells of a line of sums."""
    console = Console(file=sys.stdout)
    body = [_texts(columns, cells(columns, row)) for row in rows]
    foot = [] if last is None else [_texts(columns, last)]
    width = _width(console)
    layout = _layout(columns, [*body, *foot], width)
    table = _table(columns, layout, is_boxed=console.is_terminal)
    for row in body:
        table.add_row(*(_folded(row[place], width) for place, width in layout.items()))
    if foot:
        table.add_section()
        table.add_row(*(foot[0][place] for place in layout), style="bold")
    console.width = _taken(layout.values())
    with console.capture() as written:
        console.print(table)
    for line in written.get().splitlines():
        print(line.rstrip())
    left_out = [columns[place].heading for place in range(len(columns)) if place not in layout]
    if left_out:
        note = f"(too narrow for: {', '.join(left_out)}; a pipe and --json have them)"
        print(fill(note, width or len(note), subsequent_indent=" ", break_on_hyphens=False))


def write_cells(
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Iterable[str] = (),
    last: Sequence[object] | None = None,
) -> None:
    """Write a table of cells; the headings in *right* are those of numbers."""
    numbers = frozenset(right)
    columns = [
        Column(heading, itemgetter(place), _Kind.NUMBER if heading in numbers else _Kind.WORDS)
        for place, heading in enumerate(headings)
    ]
    write_table(columns, rows, last)


def write_rows(columns: Sequence[Column], rows: Sequence[Any], otherwise: str) -> None:
    """Write a line for each of *rows*, or where there are none the sentence *otherwise*."""
    if rows:
        write_table(columns, rows)
    else:
        write_line(otherwise)


def write_pairs(pairs: Mapping[str, object], heading: str = "") -> None:
    """Write a table of names and their values."""
    write_table((Column(heading, itemgetter(0)), Column("", itemgetter(1))), pairs.items())


def _cell(value: Value, show: Show) -> Callable[[Any], object]:
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


def _texts(columns: Sequence[Column], row: Iterable[object]) -> list[Text]:
    # Text, because a plain string would be read as rich's markup.
    plain = [shown(value) for value in row]
    return [
        Text(cell, Style.parse(column.style(cell)))
        for column, cell in zip(columns, plain, strict=True)
    ]


def _width(console: Console) -> int | None:
    """Return what a table may take; None for a pipe: it has no width, and a cut is lost data."""
    return console.width if sys.stdout.isatty() else None


def _table(columns: Sequence[Column], layout: Mapping[int, int], *, is_boxed: bool) -> Table:
    padding = (0, _BETWEEN - 1 if is_boxed else _BETWEEN, 0, 0)  # a box has a space in between
    table = Table(
        box=box.SIMPLE_HEAD if is_boxed else None, padding=padding, pad_edge=False, show_edge=False
    )
    for place, width in layout.items():
        justify: JustifyMethod = "right" if columns[place].kind is _Kind.NUMBER else "left"
        table.add_column(columns[place].heading, justify=justify, width=width, overflow="fold")
    return table


def _layout(
    columns: Sequence[Column], rows: Sequence[Sequence[Text]], width: int | None
) -> dict[int, int]:
    """Return how wide each column is that fits, by its place."""
    stacks = [[row[place] for row in rows] for place in range(len(columns))]
    wide = {place: _widest(column, stacks[place]) for place, column in enumerate(columns)}
    if width is None:
        return wide
    least = {place: _narrowest(column, stacks[place]) for place, column in enumerate(columns)}
    kept = _kept(columns, least, width)
    if _taken(least[place] for place in kept) > width:
        least |= {place: _narrowest(columns[place], stacks[place], _JOINTS) for place in kept}
    free = width - _taken(least[place] for place in kept)
    widths = {}
    for left, place in enumerate(sorted(kept, key=lambda place: wide[place] - least[place])):
        more = min(wide[place] - least[place], max(free, 0) // (len(kept) - left))
        free -= more
        widths[place] = least[place] + more
    return {place: widths[place] for place in kept}


def _kept(columns: Sequence[Column], least: Mapping[int, int], width: int) -> list[int]:
    """Leave out spare columns, from the right, until the others fit."""
    kept = [*least]
    for place in reversed(least):
        if columns[place].is_spare and _taken(least[each] for each in kept) > width:
            kept.remove(place)
    return kept


def _taken(widths: Iterable[int]) -> int:
    parts = list(widths)
    return sum(parts) + _BETWEEN * (len(parts) - 1)


def _widest(column: Column, stack: Sequence[Text]) -> int:
    return max(each.cell_len for each in (Text(column.heading), *stack))


def _narrowest(column: Column, stack: Sequence[Text], joints: re.Pattern[str] | None = None) -> int:
    heading = max((Text(word).cell_len for word in column.heading.split()), default=0)
    if column.kind in (_Kind.NUMBER, _Kind.NAME):
        return max([heading, *(cell.cell_len for cell in stack)])
    words = [word for cell in stack for word in cell.plain.split()]
    parts = [part for word in words for part in (joints.split(word) if joints else [word])]
    longest = max((Text(part).cell_len for part in parts), default=0)
    return max(heading, longest if column.kind is _Kind.WORDS else min(longest, _LEAST_PROSE))


def _folded(cell: Text, width: int) -> Text:
    """Fold the words that are wider than the column behind their joints."""
    if cell.cell_len <= width:
        return cell
    lines = [""]
    for word in cell.plain.split(" "):
        parts = [word] if Text(word).cell_len <= width else _JOINTS.split(word)
        for place, part in enumerate(parts):
            joined = f"{lines[-1]}{'' if place else ' '}{part}"
            begins_line = not lines[-1] or (len(parts) > 1 and not place)
            if not begins_line and Text(joined).cell_len <= width:
                lines[-1] = joined
            else:
                lines.append(part)
    return Text("\n".join(lines[1:]), cell.style)
