"""Slurm's accounting, as ``sacct`` prints it, to wire events.

A job of Slurm is a launch, each time that it was requeued an attempt of it, a step nothing of its
own. Files are read twice where they do not say how often a job was restarted, which then takes a
look at all of its records; no more is held than the records of jobs that have several.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from itertools import chain
from pathlib import Path
from sys import intern

from ett_service.importers.files import Unreadable, files_under, pieces_of
from ett_service.importers.importer import ImportedRun, Report
from ett_service.importers.instants import machine_zone
from ett_service.importers.slurm import document
from ett_service.importers.slurm.clock import Clock
from ett_service.importers.slurm.facts import DEFAULT_NAME, Naming, Taker, imported, numbered
from ett_service.importers.slurm.preemptions import (
    Preemptions,
    is_controller_log,
    preemptions_in,
)
from ett_service.importers.slurm.record import Record
from ett_service.importers.slurm.table import Header, Table

NAMES = ("*sacct*", "*slurmctld*", "*.txt", "*.psv", "*.json", "*.gz")
"""The files that are looked for in a folder."""

_MOST_COPIES = 1 << 18


@dataclass(slots=True)
class _Reading:
    """What has been read of one import."""

    naming: Naming
    clock: Clock
    report: Report
    several: set[int] = field(default_factory=set)  #: jobs of which there are several records
    held: dict[tuple[str, str], list[tuple[Path, Record]]] = field(default_factory=dict)
    copies: set[int] = field(default_factory=set)
    clusters: dict[int, str] = field(default_factory=dict)  #: of each launch of a job
    jobs: set[int] = field(default_factory=set)  #: that have begun or wait, as hashes
    given_up: list[tuple[Path, Record, int]] = field(default_factory=list)
    plain: frozenset[Path] = frozenset()  #: files that can be read twice
    preemptions: Preemptions = field(default_factory=Preemptions)
    preempted: list[tuple[Path, Record, int]] = field(default_factory=list)  #: for another job
    takers: dict[str, str] = field(default_factory=dict)  #: their jobs by launch


def read(
    paths: Sequence[Path],
    job: str | None = None,
    name: str = DEFAULT_NAME,
    zone: tzinfo | None = None,
) -> tuple[Iterator[ImportedRun], Report]:
    """Read files and folders of them; times without a zone are those of *zone*, or of this machine.

    With *job*, all are attempts of that one; else the template *name* says what each is called.
    """
    report = Report()
    clock = Clock(zone or machine_zone())
    return _runs(paths, _Reading(Naming(name, job), clock, report)), report


def _runs(paths: Sequence[Path], reading: _Reading) -> Iterator[ImportedRun]:
    files = list(files_under(paths, NAMES, reading.report))
    logs = [path for path in files if path.is_file() and is_controller_log(path)]
    for path in logs:
        _take_log(path, reading)
    files = [path for path in files if path not in logs]
    reading.plain = frozenset(filter(Path.is_file, files))
    reading.several = _with_several_records(reading.plain, reading.clock.anew())
    for path in files:
        yield from _of_file(path, reading)
    for records in reading.held.values():
        lives = numbered(record for _, record in records)
        places = {id(record): path for path, record in records}
        for attempt, record in lives:
            path = places.get(id(record), records[0][0])
            if (run := _run_of(path, record, attempt, reading)) is not None:
                yield run
    yield from _preempted(reading)
    yield from _given_up(reading)


def _take_log(path: Path, reading: _Reading) -> None:
    before = reading.report.records
    try:
        for preemption in preemptions_in(path, reading.clock):
            reading.preemptions.add(preemption)
            reading.report.records += 1
    except Unreadable as error:
        reading.report.miss(path, str(error))
        return
    if reading.report.records > before:
        reading.report.files += 1
    else:
        reading.report.miss(path, "a log of slurmctld in which no job preempts another")


def _of_file(path: Path, reading: _Reading) -> Iterator[ImportedRun]:
    report, clock, unread = reading.report, reading.clock, len(reading.report.unread)
    is_empty = True
    for record in _records(path, clock, report):
        is_empty = False
        if (run := _taken(path, record, reading)) is not None:
            yield run
    if not is_empty:
        report.files += 1
    elif len(report.unread) == unread:
        report.miss(path, "no job of sacct -P or --json in it")
    if clock.unsure:
        report.note(path, _UNSURE.format(clock.unsure))
        clock.unsure = None


_UNSURE = (
    "{} is shown twice or never where clocks are changed, and it is not certain which instant "
    "is meant: print with TZ=UTC sacct, and import with --timezone UTC"
)


def _records(path: Path, clock: Clock, report: Report) -> Iterator[Record]:
    try:
        pieces = pieces_of(path)
        first = next(pieces, None)
        if first is None:
            return
        every = chain([first], pieces)
        if first[1].lstrip().startswith(b"{"):
            yield from document.records(every, path, report)
        else:
            yield from Table(path, clock, report).records(every)
    except Unreadable as error:
        report.miss(path, str(error))


def _with_several_records(files: Iterable[Path], clock: Clock) -> set[int]:
    """Return the jobs of which lives have to be counted, as hashes of cluster and id."""
    first: dict[int, int] = {}
    several = set()
    for path in files:
        if _counts_restarts(path):
            continue
        for record in _records(path, clock, Report()):
            key = hash((record.cluster, record.launch))
            if not record.restarts and first.setdefault(key, record.since) != record.since:
                several.add(key)
    return several


def _counts_restarts(path: Path) -> bool:
    """Whether a file begins with a header that has the number of the attempt."""
    try:
        _, line = next(pieces_of(path), (1, b""))
    except Unreadable:
        return True
    header = Header.of(line.decode("utf-8", "replace").rstrip("\r\n"))
    return header is not None and header.counts_restarts


def _taken(path: Path, record: Record, reading: _Reading) -> ImportedRun | None:
    """Return what a record says, None where nothing or where others are to be read first."""
    if record.is_unsplit:
        return None
    copy = hash(record[1:])
    if copy in reading.copies:
        return None
    if len(reading.copies) >= _MOST_COPIES:
        reading.copies.clear()
    reading.copies.add(copy)
    key = (record.cluster, record.launch)
    is_one_of_several = "+" in record.job_id or (reading.several and hash(key) in reading.several)
    if is_one_of_several or path not in reading.plain:
        reading.held.setdefault(key, []).append((path, record))
        return None
    attempt = int(record.restarts) if record.restarts.isdecimal() else 0
    return _run_of(path, record, attempt, reading)


def _run_of(path: Path, record: Record, attempt: int, reading: _Reading) -> ImportedRun | None:
    job, launch = reading.naming.job_of(record), record.launch
    cluster = intern(record.cluster)  # one text for millions of jobs
    other = reading.clusters.setdefault(hash((job, launch)), cluster)
    if other != cluster:
        why = f"job {launch} is one of cluster {other}, too: tell them apart by --name"
        reading.report.refuse(path, record.line, f"{why} '{{cluster}}-{{name}}'")
        return None
    if record.was_given_up:
        reading.given_up.append((path, record, attempt))
        return None
    reading.jobs.add(hash(job))
    if launch in reading.preemptions.takers:
        reading.takers[launch] = job
    if reading.preemptions.taker_of(record):
        reading.preempted.append((path, record, attempt))
        return None
    run = imported(path, record, attempt, job)
    return run if run.facts else None


def _preempted(reading: _Reading) -> Iterator[ImportedRun]:
    for path, record, attempt in reading.preempted:
        launch = reading.preemptions.taker_of(record)
        taker = Taker(launch, reading.takers[launch]) if launch in reading.takers else None
        yield imported(path, record, attempt, reading.naming.job_of(record), taker=taker)


def _given_up(reading: _Reading) -> Iterator[ImportedRun]:
    for path, record, attempt in reading.given_up:
        job = reading.naming.job_of(record)
        run = imported(path, record, attempt, job, is_alone=hash(job) not in reading.jobs)
        if run.facts:
            yield run
