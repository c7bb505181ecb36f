"""A report: sections of text, tables and charts on one ISO week, as Markdown or HTML."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ett_service.charts.palette import STYLE
from ett_service.charts.svg import Markup

_WRITTEN = re.compile(r"(\d{4})-?W(\d{1,2})", re.ASCII)
_SEVEN_DAYS = timedelta(days=7)


@dataclass(frozen=True, slots=True, order=True)
class Week:
    """One ISO week, known by its Monday."""

    begin: datetime

    @classmethod
    def parse(cls, text: str) -> "Week":
        """Read ``2026-W47``.

        Raises ValueError where that is no ISO week.
        """
        written = _WRITTEN.fullmatch(text.strip())
        if written is None:
            raise ValueError(f"{text!r} is not an ISO week, such as 2026-W47")
        year, number = map(int, written.groups())
        return cls(datetime.fromisocalendar(year, number, 1).replace(tzinfo=UTC))

    @classmethod
    def holding(cls, instant: datetime) -> "Week":
        """Return the week that *instant*, which has a zone, lies in."""
        year, number, _ = instant.astimezone(UTC).isocalendar()
        return cls.parse(f"{year:04}-W{number}")

    def before(self, weeks: int = 1) -> "Week":
        """Return the week so many weeks earlier."""
        return Week(self.begin - weeks * _SEVEN_DAYS)

    @property
    def end(self) -> datetime:
        """The first instant after it."""
        return self.begin + _SEVEN_DAYS

    @property
    def name(self) -> str:
        """``2026-W47``."""
        year, number, _ = self.begin.isocalendar()
        return f"{year:04}-W{number:02}"

    @property
    def days(self) -> str:
        """``16 to 22 November 2026``, as much of it as is not the same at both ends."""
        first, last = self.begin, self.end - timedelta(days=1)
        begin = f"{first.day}"
        if first.month != last.month:
            begin += f" {first:%B}"
        if first.year != last.year:
            begin += f" {first.year}"
        return f"{begin} to {last.day} {last:%B} {last.year}"

    @property
    def bounds(self) -> tuple[str, str]:
        """Begin and end as the API takes them."""
        return _written(self.begin), _written(self.end)


def _written(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


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


_MARKS = re.compile(r"([\\`*\[\]<>|#~&])")
_EMPHASIS = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_BREAKS = re.compile(r"[\r\n\u2028\u2029\x85]+")


def markdown(report: Report) -> str:
    """Write *report* as Markdown; its charts, which repeat the tables, are left out."""
    return _environment("md").get_template("report.md").render(report=report)


def html(report: Report) -> str:
    """Write *report* as one HTML file, without a script and without anything to load."""
    return _environment("html").get_template("report.html").render(report=report, style=STYLE)


def plain(value: object) -> object:
    """Escape what a template writes into Markdown, so that no name can be markup there."""
    if not isinstance(value, str):
        return value
    line = _BREAKS.sub(" ", value)
    return _EMPHASIS.sub(r"\\_", _MARKS.sub(r"\\\1", line))


@cache
def _environment(kind: str) -> Environment:
    return Environment(
        loader=PackageLoader("ett_service.report"),
        autoescape=kind == "html",  # noqa: S701 -- Markdown is escaped by `plain`
        finalize=plain if kind == "md" else None,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
