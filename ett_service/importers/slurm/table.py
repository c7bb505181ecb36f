"""Reads what ``sacct -P`` and ``-p`` print: a header, and a row for each job and each step."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Final

from ett_service.importers.importer import Report
from ett_service.importers.slurm.clock import Clock, seconds_of
from ett_service.importers.slurm.record import JOB_ID, Record

_COLUMNS: Final = (
    ("JobID",),
    ("JobIDRaw",),
    ("Cluster",),
    ("JobName",),
    ("User",),
    ("Account",),
    ("Partition",),
    ("QOS",),
    ("Submit",),
    ("Eligible",),
    ("Start",),
    ("End",),
    ("State",),
    ("Reason",),
    ("ExitCode",),
    ("NNodes", "AllocNodes"),
    ("AllocTRES",),
    ("NodeList",),
    ("Restarts",),
    ("ElapsedRaw", "Elapsed"),
)
"""Of each member of a record, the columns that say it; the first that is printed does."""

_NEEDED: Final = ("Start", "End")
_HEADER: Final = re.compile(r"\w+(\W+)\w", re.ASCII)
_MOST_PIECES: Final = 64


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of the rows that follow, and what stands between them."""

    delimiter: str
    mark: bytes  #: the delimiter
    width: int
    job_id: int  #: the column of the job's id
    picks: Callable[[list[str]], tuple[str, ...]]
    counts_restarts: bool
    missing: tuple[str, ...]  #: columns that are needed and not there

    @classmethod
    def of(cls, text: str) -> "Header | None":
        """Read a header; None where the line is none."""
        match = _HEADER.match(text) if "JobID" in text else None
        if match is None:
            return None
        names = text.split(match[1])
        if not {"JobID", "State"} <= set(names):
            return None
        last = len(names)  # rows get an empty field there, for what is not printed
        places = [
            next((names.index(name) for name in column if name in names), last)
            for column in _COLUMNS
        ]
        missing = tuple(name for name in _NEEDED if name not in names)
        return cls(
            match[1],
            match[1].encode(),
            last,
            names.index("JobID"),
            itemgetter(*places),
            "Restarts" in names,
            missing,
        )


class Table:
    """Reads one table, and remembers whether it says how often jobs were restarted."""

    def __init__(self, path: Path, clock: Clock, report: Report) -> None:
        self._path = path
        self._clock = clock
        self._report = report
        self.header: Header | None = None

    def records(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[Record]:
        """Yield the records of jobs; steps are only counted, what cannot be read is skipped."""
        rows, report, header = _Rows(self, self._path, self._report), self._report, self.header
        for number, line in lines:
            if header is not None and not rows.begun:
                # The row of a step, without a look at more of it than its id.
                before = line.split(header.mark, header.job_id + 1)
                is_step = len(before) > header.job_id and b"." in before[header.job_id]
                if is_step and line.count(header.mark) == header.width - 1:
                    report.records += 1
                    continue
            fields = rows.take(number, line.decode("utf-8", "replace"))
            header = self.header
            if fields is None or header is None:
                continue
            if "." in fields[header.job_id]:
                report.records += 1
                continue
            record = self._record(header, rows.number, fields)
            if record is not None:
                yield record
        rows.finish()

    def _record(self, header: Header, number: int, fields: list[str]) -> Record | None:
        fields.append("")
        picked = header.picks(fields)
        job_id = picked[0]
        if not job_id.isdigit() and JOB_ID.fullmatch(job_id) is None:
            self._report.skip(self._path, number, f"{job_id[:40]!r} is no id of a job")
            return None
        elapsed = seconds_of(picked[19])
        try:
            times = self._clock.times(picked[8:12], elapsed)
        except (ValueError, OverflowError):
            self._report.skip(self._path, number, f"no times: {' '.join(picked[8:12])[:100]!r}")
            return None
        self._report.records += 1
        return Record._make((number, *picked[:8], *times, *picked[12:19], elapsed))


class _Rows:
    """Splits lines into rows; a row may go on in the next line, as comments hold line feeds."""

    def __init__(self, table: Table, path: Path, report: Report) -> None:
        self._table = table
        self._path = path
        self._report = report
        self.begun: list[str] = []  #: the lines so far of a row that has too few fields
        self.number = 0  #: the line in which the latest row began

    def take(self, number: int, text: str) -> list[str] | None:
        """Return the fields of the row that ends with this line, None where none does."""
        text = text.rstrip("\r\n")
        header = self._table.header
        if header is not None:
            fields = text.split(header.delimiter)
            if len(fields) == header.width and fields[header.job_id] != "JobID":
                if self.begun:
                    self._give_up()
                self.number = number
                return fields
        return self._taken_oddly(number, text)

    def _taken_oddly(self, number: int, text: str) -> list[str] | None:
        if (header := Header.of(text)) is not None:
            self._give_up()
            self._table.header = header
            if header.missing:
                self._report.skip(
                    self._path, number, f"there is no column {', '.join(header.missing)}"
                )
        elif self._table.header is None:
            if text.strip():
                self._report.skip(self._path, number, "is before the header of sacct -P")
        else:
            return self._continued(number, text, self._table.header)
        return None

    def _continued(self, number: int, text: str, header: Header) -> list[str] | None:
        if not self.begun:
            if not text.strip():
                return None
            self.number = number
        self.begun.append(text)
        fields = "\n".join(self.begun).split(header.delimiter)
        if len(fields) == header.width:
            self.begun.clear()
            return fields
        if len(fields) > header.width or len(self.begun) > _MOST_PIECES:
            self._give_up()
        return None

    def _give_up(self) -> None:
        if self.begun and self._table.header is not None:
            fields = len("\n".join(self.begun).split(self._table.header.delimiter))
            why = f"{fields} fields, not the {self._table.header.width} of the header"
            self._report.skip(self._path, self.number, why)
            self.begun.clear()

    def finish(self) -> None:
        """Skip what is left of a row at the end of the file."""
        self._give_up()
