"""Rows of CSV and Parquet files to wire events, by a mapping."""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from ett_service.importers.files import Unreadable, runs_of, texts_of
from ett_service.importers.importer import ImportedRun, Report, clean
from ett_service.importers.logs.checked_events import ONLY_TEXT, NoEvent, fault_of
from ett_service.importers.logs.event_shapes import Column, Template, Values, whole
from ett_service.importers.logs.local_times import LocalTimes
from ett_service.importers.logs.mapped_events import (
    BadProfile,
    Becomes,
    Document,
    MadeOfLine,
    Maker,
    Name,
    Runs,
    loaded,
    references_of,
    templates,
)

_CSV_FILES: Final = ["*.csv", "*.csv.gz", "*.tsv"]
_PARQUET_FILES: Final = ["*.parquet"]
_ROWS: Final = 1_000
_AT_ONCE: Final = 128  #: rows that are made by columns: of more, events leave the processor's cache
_MOST_KNOWN: Final = 10_000

Rows = tuple[Sequence[int], Sequence[Column]]
"""Some rows: lines of a CSV file or numbers of rows of a Parquet file, from 1, and their columns:
those that the mapping names, in its order."""


class RowKind(Struct, forbid_unknown_fields=True):
    """A kind of row, and the events that it becomes."""

    name: Name
    becomes: Template | list[Template]
    when: dict[str, Any] = field(default_factory=dict)  #: values that columns must have


class CheckedRow(Struct, forbid_unknown_fields=True):
    """A row of the mapping's own test."""

    row: dict[str, Any]
    becomes: list[Template] = field(default_factory=list)


class TableDocument(Document, kw_only=True):
    """A mapping as its file has it."""

    delimiter: str = ","
    rows: list[RowKind]
    check: list[CheckedRow]


@dataclass(frozen=True, slots=True)
class _ReadyRow:
    """A kind of row that is ready for use."""

    when: dict[str, frozenset[str]]
    templates: list[Template]

    def fits(self, texts: dict[str, str]) -> bool:
        return all(texts[column] in wanted for column, wanted in self.when.items())


class Mapping:
    """A mapping that is ready for use."""

    def __init__(self, path: Path) -> None:
        """Read the mapping at *path*.

        Raises:
            BadProfile: where it cannot be used.
        """
        self.document, self.zone = loaded(path, TableDocument)
        if len(self.document.delimiter) != 1:
            raise BadProfile(f"{path}: the delimiter is one character")
        self.kinds = [
            _ReadyRow(
                {column: _wanted(value) for column, value in kind.when.items()},
                templates(kind.becomes, self.document.common, f"{path}: row {kind.name}"),
            )
            for kind in self.document.rows
        ]
        if not self.kinds:
            raise BadProfile(f"{path}: it has no rows")
        asked = {column for kind in self.kinds for column in kind.when}
        templates_of_all = [each for kind in self.kinds for each in kind.templates]
        self.columns = sorted({*asked, *references_of(templates_of_all)})
        self._places = {column: place for place, column in enumerate(self.columns)}
        self._asked = sorted(asked)
        self._places_asked = [self._places[column] for column in self._asked]
        self._fitting: dict[tuple[bool, ...], Becomes] = {}
        self._becomes: dict[tuple[str, ...], Becomes] = {}

    def failures(self) -> Iterator[str]:
        """Yield why each of the mapping's own rows is not what the mapping says of it."""
        for number, check in enumerate(self.document.check, 1):
            times = LocalTimes(Path("example"), self.zone, Report())
            maker = Maker(self.document.time, times, None, spare_job="-")
            row = tuple([check.row.get(column) for column in self.columns])
            try:
                events = maker.made(self.becomes_of(row), row, 1)
            except NoEvent as error:
                yield f"check {number}: {error}"
                continue
            fault = fault_of(events, check.becomes)
            if fault:
                yield f"check {number}: {fault}"

    def becomes_of(self, values: Values) -> Becomes:
        """Return what a row becomes, by the texts of the columns that `when` asks for."""
        return self._becomes_by(tuple([_text(values[place]) for place in self._places_asked]))

    def _becomes_by(self, texts: tuple[str, ...]) -> Becomes:
        becomes = self._becomes.get(texts)
        if becomes is None:
            if len(self._becomes) >= _MOST_KNOWN:
                self._becomes.clear()
            becomes = self._becomes[texts] = self._fit(dict(zip(self._asked, texts, strict=True)))
        return becomes

    def kinds_of(self, rows: Rows) -> list[Becomes]:
        """Return what each row becomes."""
        lines, columns = rows
        if not self._asked:
            return [self.becomes_of(())] * len(lines)
        asked = zip(*[_texts(columns[place]) for place in self._places_asked], strict=True)
        return list(map(self._becomes_by, asked))

    def _fit(self, texts: dict[str, str]) -> Becomes:
        fits = tuple(kind.fits(texts) for kind in self.kinds)
        becomes = self._fitting.get(fits)
        if becomes is None:
            kinds = compress(self.kinds, fits)
            made = [each for kind in kinds for each in kind.templates]
            becomes = Becomes(made, self._places)
            self._fitting[fits] = becomes
        return becomes


def _wanted(value: object) -> frozenset[str]:
    return frozenset(map(_text, value if isinstance(value, list) else [value]))


def _texts(column: Column) -> Iterable[str]:
    return column if ONLY_TEXT.issuperset(map(type, column)) else map(_text, column)


def _text(value: object) -> str:
    return "" if value is None else str(value)


def read_csv(
    paths: Sequence[Path],
    job: str | None = None,
    *,
    mapping: Mapping,
    zone: tzinfo | None = None,
) -> tuple[Iterator[ImportedRun], Report]:
    """Read CSV files and folders of them by *mapping*; *zone* goes before the mapping's."""
    of_file = partial(_of_file, rows_of=_csv_rows, job=job, mapping=mapping, zone=zone)
    return runs_of(paths, mapping.document.files or _CSV_FILES, of_file)


def read_parquet(
    paths: Sequence[Path],
    job: str | None = None,
    *,
    mapping: Mapping,
    zone: tzinfo | None = None,
) -> tuple[Iterator[ImportedRun], Report]:
    """Read Parquet files and folders of them by *mapping*; *zone* goes before the mapping's."""
    of_file = partial(_of_file, rows_of=_parquet_rows, job=job, mapping=mapping, zone=zone)
    return runs_of(paths, mapping.document.files or _PARQUET_FILES, of_file)


def _of_file(
    path: Path,
    report: Report,
    *,
    rows_of: Callable[[Path, Mapping, Report], Iterator[Rows]],
    job: str | None,
    mapping: Mapping,
    zone: tzinfo | None,
) -> Iterator[ImportedRun]:
    maker = Maker(mapping.document.time, LocalTimes(path, zone or mapping.zone, report), job)
    before = report.records
    rows = rows_of(path, mapping, report)
    yield from Runs(path, "table").of(_made(rows, path, report, mapping, maker))
    if report.records == before:
        report.miss(path, f"no row that mapping {mapping.document.name} makes an event of")
    else:
        report.files += 1


def _made(
    parts: Iterator[Rows], path: Path, report: Report, mapping: Mapping, maker: Maker
) -> Iterator[MadeOfLine]:
    """Yield the events of each row; one that is wrong is skipped."""
    for rows in parts:
        lines, columns = rows
        kinds = mapping.kinds_of(rows)
        made = maker.made_alike(kinds, columns)
        for place, line in enumerate(lines):
            events = made[place]
            if events is None:
                values = [column[place] for column in columns]
                try:
                    events = maker.made(kinds[place], values, line)
                except NoEvent as error:
                    report.skip(path, line, str(error))
                    continue
            else:
                maker.follow(events)
            report.records += bool(events)
            yield line, events


def _csv_rows(path: Path, mapping: Mapping, report: Report) -> Iterator[Rows]:
    """Yield the rows of a CSV file by the names in its head; those before a wrong one first."""
    # A quoted field may go over several lines, which the reader counts.
    reader = csv.reader(texts_of(path), delimiter=mapping.document.delimiter)
    names = _head(reader, path, report)
    if not names:
        return
    _require(names, mapping)
    place_of = {name: place for place, name in enumerate(names)}
    places = [place_of[column] for column in mapping.columns]
    is_read = False
    while not is_read:
        lines, rows, stop = _csv_part(reader, len(names))
        if lines:
            columns = list(zip(*rows, strict=True))
            yield lines, [columns[place] for place in places]
        if isinstance(stop, Unreadable):
            raise stop
        is_read = stop is None
        if stop:
            report.skip(path, reader.line_num, stop)


def _head(reader: Any, path: Path, report: Report) -> list[str]:
    while True:
        try:
            fields: list[str] = next((each for each in reader if each), [])
        except csv.Error as error:
            report.skip(path, reader.line_num, clean(str(error)))
        else:
            return [name.strip().removeprefix("\ufeff") for name in fields]


def _csv_part(
    reader: Any, width: int
) -> tuple[list[int], list[list[str]], str | Unreadable | None]:
    """Return rows, their lines, and what is wrong with the next; None at the end of the file."""
    lines: list[int] = []
    rows: list[list[str]] = []
    try:
        for fields in reader:
            if len(fields) == width:
                lines.append(reader.line_num)
                rows.append(fields)
                if len(lines) == _AT_ONCE:
                    return lines, rows, ""
            elif fields:
                why = f"it has {len(fields)} fields, and the head of the file {width}"
                return lines, rows, why
    except csv.Error as error:
        return lines, rows, clean(str(error))
    except Unreadable as error:
        return lines, rows, error
    return lines, rows, None


def _parquet_rows(path: Path, mapping: Mapping, _report: Report) -> Iterator[Rows]:
    """Yield the rows of a Parquet file; only the columns that the mapping names are read."""
    import pyarrow as pa  # noqa: PLC0415 -- it takes a while, and CSV needs it not
    from pyarrow import parquet  # noqa: PLC0415

    if path.exists() and not path.is_file():
        raise Unreadable("is not a file")
    names = mapping.columns
    first = 1
    try:
        with parquet.ParquetFile(path) as file:
            _require(file.schema_arrow.names, mapping)
            for batch in file.iter_batches(batch_size=_ROWS, columns=names):
                columns = [_column(batch.column(name)) for name in names]
                lines = range(first, first + batch.num_rows)
                first += batch.num_rows
                for start in range(0, batch.num_rows, _AT_ONCE):
                    some = slice(start, start + _AT_ONCE)
                    yield lines[some], [column[some] for column in columns]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Unreadable(f"it is no Parquet file, or damaged: {clean(str(error))}") from None


def _column(column: Any) -> list[Any]:
    """Return a column of a table; instants finer than microseconds are cut."""
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    values: list[Any] = column.to_pylist()
    return [*map(whole, values)] if pa.types.is_floating(column.type) else values


def _require(head: Sequence[str], mapping: Mapping) -> None:
    missing = sorted(set(mapping.columns) - set(head))
    if missing:
        raise Unreadable(f"it has no column {missing[0]!r}; it has {clean(', '.join(head))}")
