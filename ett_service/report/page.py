"""What a report is made of, whatever it is written in: sections of text, tables and charts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ett_service.charts.svg import Markup
from ett_service.report.week import Week

Answer = Mapping[str, Any]
"""A JSON object that the API answered with."""


@dataclass(frozen=True, slots=True)
class Column:
    """The head of a column; numbers stand at its right."""

    name: str
    number: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as they are shown."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report. A chart repeats what its table says."""

    title: str
    before: tuple[str, ...] = ()  #: paragraphs in front of the table
    chart: Markup | None = None
    table: Table | None = None
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """A week of the fleet."""

    week: Week
    sentence: str
    sections: tuple[Section, ...]
    as_of: str  #: RFC 3339
    ett_ratio: float | None  #: the week's headline; None where no time has a weight


def table(columns: str, rows: Sequence[tuple[str, ...]]) -> Table | None:
    """Return a table of ``columns``, named ``a | #b``: a number's name begins with ``#``.

    None where there is no row; raises ValueError where one is not as wide as the columns.
    """
    if not rows:
        return None
    names = [name.strip() for name in columns.split("|")]
    heads = tuple(Column(name.removeprefix("#"), name.startswith("#")) for name in names)
    if any(len(row) != len(heads) for row in rows):
        raise ValueError(f"a row is not as wide as its columns: {columns}")
    return Table(heads, tuple(rows))
