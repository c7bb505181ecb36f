"""Rows of CSV and Parquet files to wire events, by a mapping."""

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from ett_service.importers.files import Unreadable, lines_of, runs_of
from ett_service.importers.importer import ImportedRun, Report, WireEvent, clean
from ett_service.importers.logs.checked_events import NoEvent
from ett_service.importers.logs.event_shapes import Template, Values
from ett_service.importers.logs.local_times import LocalTimes
from ett_service.importers.logs.mapped_events import (
    BadProfile,
    Document,
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
_ROWS: Final = 10_000

Row = tuple[int, Values]
"""A line of a CSV file or the number of a row of a Parquet file, from 1, and its columns."""


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

    name: str
    when: dict[str, frozenset[str]]
    templates: list[Template]

    def fits(self, values: Values) -> bool:
        return not self.when or all(
            _text(values.get(column)) in wanted for column, wanted in self.when.items()
        )


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
                kind.name,
                {column: _wanted(value) for column, value in kind.when.items()},
                templates(kind.becomes, self.document.common, f"{path}: row {kind.name}"),
            )
            for kind in self.document.rows
        ]
        if not self.kinds:
            raise BadProfile(f"{path}: it has no rows")
        self.columns = {column for kind in self.kinds for column in kind.when}
        for kind in self.kinds:
            self.columns |= references_of(kind.templates)

    def failures(self) -> Iterator[str]:
        """Yield why each of the mapping's own rows is not what the mapping says of it."""
        for number, check in enumerate(self.document.check, 1):
            times = LocalTimes(Path("example"), self.zone, Report())
            maker = Maker(self.document.time, times, None, spare_job="-")
            try:
                events = list(self.events_of(maker, check.row, 1))
            except NoEvent as error:
                yield f"check {number}: {error}"
                continue
            fault = fault_of(events, check.becomes)
            if fault:
                yield f"check {number}: {fault}"

    def events_of(self, maker: Maker, values: Values, line: int) -> Iterator[WireEvent]:
        """Yield the events of a row.

        Raises:
            NoEvent: where the service would refuse one.
        """
        for kind in self.kinds:
            if kind.fits(values):
                for template in kind.templates:
                    event = maker.made(template, values, line)
                    if event is not None:
                        yield event


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
    runs = Runs(path, "table")
    maker = Maker(mapping.document.time, LocalTimes(path, zone or mapping.zone, report), job)
    before = report.records
    for line, values in rows_of(path, mapping, report):
        try:
            events = list(mapping.events_of(maker, values, line))
        except NoEvent as error:
            report.skip(path, line, str(error))
            continue
        report.records += bool(events)
        for event in events:
            if (run := runs.add(event, line)) is not None:
                yield run
    yield from runs.finish()
    if report.records == before:
        report.miss(path, f"no row that mapping {mapping.document.name} makes an event of")
    else:
        report.files += 1


def _csv_rows(path: Path, mapping: Mapping, report: Report) -> Iterator[Row]:
    """Yield the rows of a CSV file by the names in its head."""
    # A quoted field may go over several lines, which the reader counts.
    reader = csv.reader(
        (line.text for line in lines_of(path)), delimiter=mapping.document.delimiter
    )
    head: list[str] | None = None
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            report.skip(path, reader.line_num, clean(str(error)))
            continue
        if fields is None:
            return
        if not fields:
            continue
        if head is None:
            head = [name.strip().removeprefix("\ufeff") for name in fields]
            _require(head, mapping)
        elif len(fields) != len(head):
            why = f"it has {len(fields)} fields, and the head of the file {len(head)}"
            report.skip(path, reader.line_num, why)
        else:
            yield reader.line_num, dict(zip(head, fields, strict=True))


def _parquet_rows(path: Path, mapping: Mapping, _report: Report) -> Iterator[Row]:
    """Yield the rows of a Parquet file; only the columns that the mapping names are read."""
    import pyarrow as pa  # noqa: PLC0415 -- it takes a while, and CSV needs it not
    from pyarrow import parquet  # noqa: PLC0415

    if path.exists() and not path.is_file():
        raise Unreadable("is not a file")
    try:
        with parquet.ParquetFile(path) as file:
            _require(file.schema_arrow.names, mapping)
            columns = sorted(mapping.columns)
            number = 0
            for batch in file.iter_batches(batch_size=_ROWS, columns=columns):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Unreadable(f"it is no Parquet file, or damaged: {clean(str(error))}") from None


def _require(head: Sequence[str], mapping: Mapping) -> None:
    missing = sorted(mapping.columns - set(head))
    if missing:
        raise Unreadable(f"it has no column {missing[0]!r}; it has {clean(', '.join(head))}")
