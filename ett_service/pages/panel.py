"""Panels: a title, a chart, its table, where its numbers came from. Every chart has a table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ett_service.charts.svg import Markup
from ett_service.pages.ask import Question

ARROW = "→"
"""Between a value before and one after."""

FEW = 8
"""Fewer values than these say little."""

_SHORT, _SHORT_NAME = 22, 32


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in a cell, where it leads, and whether too few values are behind it."""

    text: str
    href: str = ""
    title: str = ""
    is_faint: bool = False
    swatch: str = ""  #: a category, whose colour is shown

    def style(self, column: "Column") -> str:
        """Return the classes of the cell; a short text stays on its line."""
        is_short = len(self.text) <= (_SHORT_NAME if self.href else _SHORT)
        number, faint = "number " if column.is_number else "", "faint " if self.is_faint else ""
        return f"{number}{faint}{'short' if is_short else ''}".rstrip()


@dataclass(frozen=True, slots=True)
class Column:
    """The head of a column; numbers stand at its right. ``sort`` orders by it."""

    name: str
    is_number: bool = False
    href: str = ""
    order: str = ""  #: ``ascending`` or ``descending`` where the table is in its order


@dataclass(frozen=True, slots=True)
class Table:
    """Cells in rows."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """A part of a page."""

    ident: str
    title: str
    before: Sequence[str] = ()
    chart: Markup | None = None
    table: Table | None = None
    after: Sequence[str] = ()
    listed: Sequence[Cell] = ()  #: what letters in the chart stand for
    more: Cell | None = None  #: leads to the rest of the table
    question: Question | None = None  #: what its numbers answer
    is_wide: bool = False  #: over the whole page
    is_table_open: bool = field(default=False)  #: shown without being asked for


@dataclass(frozen=True, slots=True)
class Fact:
    """One of the numbers at the head of a page: its term, value, and change."""

    term: str
    value: str
    note: str
    change: str = ""
    is_faint: bool = False  #: too few values are behind it


def table(columns: str, rows: Iterable[Sequence[Cell | str]]) -> Table | None:
    """Return a table of columns ``a|#b``, where ``#`` marks numbers; None without a row."""
    cells = tuple(
        tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in row) for row in rows
    )
    if not cells:
        return None
    heads = [name.strip() for name in columns.split("|")]
    return Table(
        tuple(Column(name.removeprefix("#"), name.startswith("#")) for name in heads), cells
    )


def counted(text: str, n: int) -> Cell:
    """Show a number that *n* values are behind; one of too few is faint and says so."""
    if n >= FEW:
        return Cell(text)
    shown = text if text == f"{n:,}" else f"{text} (n={n})"
    return Cell(shown, title="Too few values to compare.", is_faint=True)


def so_far(text: str, *, is_over: bool) -> Cell:
    """Show a number of a job, which is provisional until it is over."""
    return Cell(text if is_over else f"{text} so far", is_faint=not is_over)
