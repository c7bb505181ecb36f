"""Rows of CSV and Parquet files to wire events, by a mapping."""

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from itertools import chain, compress
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from ett_service.importers.files import Unreadable, runs_of, texts_of
from ett_service.importers.importer import ImportedRun, Report, clean
from ett_service.importers.logs.checked_events import NoEvent
from ett_service.importers.logs.event_shapes import Template, Values, whole
from ett_service.importers.logs.local_times import LocalTimes
from ett_service.importers.logs.mapped_events import (
    BadProfile,
    Becomes,
    Document,
    MadeOfLine,
    Maker,
    Name,
    Runs,
    fault_of,
    loaded,
    references_of,
    templates,
)

_CSV_FILES: Final = ["*.csv", "*.csv.gz", "*.tsv"]
_PARQUET_FILES: Final = ["*.parquet"]
_ROWS: Final = 1_000
_MOST_KNOWN: Final = 10_000

Row = tuple[int, Values]
"""A line of a CSV file or the number of a row of a Parquet file, from 1, and its columns: those
that the mapping names, in its order."""


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
        texts = tuple([_text(values[place]) for place in self._places_asked])
        becomes = self._becomes.get(texts)
        if becomes is None:
            if len(self._becomes) >= _MOST_KNOWN:
                self._becomes.clear()
            becomes = self._becomes[texts] = self._fit(dict(zip(self._asked, texts, strict=True)))
        return becomes

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
    rows_of: Callable[[Path, Mapping, Report], Iterator[Row]],
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
    rows: Iterator[Row], path: Path, report: Report, mapping: Mapping, maker: Maker
) -> Iterator[MadeOfLine]:
    """Yield the events of each row; one that is wrong is skipped."""
    for line, values in rows:
        try:
            events = maker.made(mapping.becomes_of(values), values, line)
        except NoEvent as error:
            report.skip(path, line, str(error))
            continue
        report.records += bool(events)
        yield line, events


def _csv_rows(path: Path, mapping: Mapping, report: Report) -> Iterator[Row]:
    """Yield the rows of a CSV file by the names in its head."""
    # A quoted field may go over several lines, which the reader counts.
    reader = csv.reader(texts_of(path), delimiter=mapping.document.delimiter)
    width, pick = -1, _picks([])
    while True:
        try:
            for fields in reader:
                if len(fields) == width:
                    yield reader.line_num, pick(fields)
                elif not fields:
                    continue
                elif width < 0:
                    names = [name.strip().removeprefix("\ufeff") for name in fields]
                    places = {name: place for place, name in enumerate(names)}
                    _require(names, mapping)
                    width, pick = len(names), _picks([places[column] for column in mapping.columns])
                else:
                    why = f"it has {len(fields)} fields, and the head of the file {width}"
                    report.skip(path, reader.line_num, why)
        except csv.Error as error:
            report.skip(path, reader.line_num, clean(str(error)))
        else:
            return


def _picks(places: Sequence[int]) -> Callable[[Sequence[str]], Sequence[str]]:
    """Return what takes the fields at these places."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda fields: [fields[place] for place in places]


def _parquet_rows(path: Path, mapping: Mapping, _report: Report) -> Iterator[Row]:
    """Yield the rows of a Parquet file; only the columns that the mapping names are read."""
    import pyarrow as pa  # noqa: PLC0415 -- it takes a while, and CSV needs it not
    from pyarrow import parquet  # noqa: PLC0415

    if path.exists() and not path.is_file():
        raise Unreadable("is not a file")
    columns = mapping.columns
    try:
        with parquet.ParquetFile(path) as file:
            _require(file.schema_arrow.names, mapping)
            rows = (
                zip(*[_column(batch.column(name)) for name in columns], strict=True)
                for batch in file.iter_batches(batch_size=_ROWS, columns=columns)
            )
            yield from enumerate(chain.from_iterable(rows), 1)
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
