"""Slurm, as its accounting shows it: ``sacct`` lists jobs, ``squeue`` which of them still run.

``sacct`` is asked for UTC, for a window that ends now: from the last look that was sent, with some
overlap, and once an hour for all of it, as slurmdbd may hear of an end late.

Its controller's log is followed beside it: what was added since the last look.
"""

import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from ett_service.importers.files import Unreadable, opened
from ett_service.importers.importer import ImportedRun, Report
from ett_service.importers.instants import machine_zone
from ett_service.importers.slurm.clock import Clock, utc, written
from ett_service.importers.slurm.facts import (
    ALIVE_EVERY_S,
    Naming,
    Numbered,
    Taker,
    imported,
    numbered,
)
from ett_service.importers.slurm.preemptions import Preemptions, preemptions_of
from ett_service.importers.slurm.record import Record
from ett_service.importers.slurm.table import Table
from ett_service.watchers.watcher import Snapshot, Unavailable

_MOST_AT_FIRST: Final = 64 << 20  #: of a log that has grown for months
_AT_ONCE: Final = 1 << 20

DEFAULT_SINCE_S: Final = 86_400.0

_DELIMITER: Final = "\x1f"
_MARK: Final = _DELIMITER.encode()
_COLUMNS: Final = (
    "Cluster", "JobIDRaw", "JobID", "State", "Start", "Submit", "Eligible", "End", "JobName",
    "User", "Account", "Partition", "QOS", "Reason", "ExitCode", "NNodes", "AllocTRES",
    "NodeList", "Restarts",
)  # fmt: skip
_CLEANED_UP_IN_S: Final = 3600
_OVERLAP_S: Final = 600.0
_WHOLE_EVERY_S: Final = 3600.0
_IDS_AT_ONCE: Final = 500
_TIMEOUT_S: Final = 300.0
_PATH: Final = Path("sacct")
_LIVE: Final = "running,suspended,configuring,completing,stopped,signaling,stage_out"

Key = tuple[str, str]
"""Cluster and id of a job; of a heterogeneous one, that of its first component."""


def _local() -> Clock:
    return Clock(machine_zone())


@dataclass(slots=True)
class ControllerLog:
    """The preemptions in the log at *path*, if there is one; its times are of this machine."""

    path: Path | None = None
    preemptions: Preemptions = field(default_factory=Preemptions)
    _clock: Clock = field(default_factory=_local)
    _inode: int = 0
    _at: int = 0  #: up to where it was read: the begin of a line

    def read(self) -> str:
        """Read what is new; return why it cannot be read, empty where it can.

        A log that was rotated, or cut, is read from its begin.
        """
        if self.path is None:
            return ""
        try:
            self._read(self.path)
        except OSError as error:
            return f"{self.path}: {error.strerror or 'cannot be read'}"
        except Unreadable as error:
            return f"{self.path}: {error}"
        return ""

    def _read(self, path: Path) -> None:
        with opened(path) as file:
            state = path.stat()
            if state.st_ino != self._inode or state.st_size < self._at:
                is_first = not self._inode
                self._inode = state.st_ino
                self._at = max(0, state.st_size - _MOST_AT_FIRST) if is_first else 0
            file.seek(self._at)
            while block := file.read(_AT_ONCE):
                end = block.rfind(b"\n") + 1
                if not end and len(block) < _AT_ONCE:
                    return
                for preemption in preemptions_of(block[:end].split(b"\n"), self._clock):
                    self.preemptions.add(preemption)
                self._at += end or len(block)
                file.seek(self._at)


@dataclass(slots=True)
class Slurm:
    """The jobs of one Slurm, or of several *clusters* of it, back to *since_s* ago."""

    naming: Naming
    environment: Mapping[str, str]  #: of the commands
    since_s: float = DEFAULT_SINCE_S
    clusters: str | None = None
    log: ControllerLog = field(default_factory=ControllerLog)
    say: Callable[[str], None] = lambda _: None
    now: Callable[[], float] = time.time
    name: str = "Slurm"
    _columns: tuple[str, ...] = ()
    _from_s: int = 0  #: where the window of the latest look begins
    _sent_at: float = 0.0
    _whole_at: float = 0.0
    _rows: dict[Key, list[bytes]] = field(default_factory=dict)
    _live: frozenset[Key] | None = None
    _squeue_trouble: str = ""
    _log_trouble: str = ""
    _clock: Clock = field(default_factory=utc)

    def look(self) -> Snapshot:
        """Ask for the jobs of the window; see :class:`Look`.

        Raises:
            Unavailable: where ``sacct`` does not answer.
        """
        now = self.now()
        is_whole = now - self._whole_at >= _WHOLE_EVERY_S
        begin = now - self.since_s
        if not is_whole:
            begin = max(begin, self._sent_at - _OVERLAP_S)
        self._from_s = int(begin)
        rows = self._table_rows("--starttime", written(self._from_s).removesuffix("Z"))
        self._rows = _by_job(rows)
        self._live = self._running()
        self._read_log()
        marks = {key: self._mark(key, rows, now) for key, rows in self._rows.items()}
        return Snapshot(marks, is_whole, partial(self._note_sent, now, is_whole=is_whole))

    def _note_sent(self, at: float, *, is_whole: bool) -> None:
        self._sent_at = at
        self._whole_at = at if is_whole else self._whole_at

    def stop(self) -> None:
        """Nothing goes on between looks."""

    def runs(self, jobs: Iterable[Key]) -> list[ImportedRun]:
        """Return what *jobs* of the latest look say. Raises what :meth:`look` does."""
        rows = {job: self._rows[job] for job in jobs}
        rows |= self._histories([job for job, lines in rows.items() if self._may_lack(lines)])
        report = Report()
        lives = self._lives(rows, report)
        given_up = any(life.was_given_up for _, life in lives)
        others = self._jobs_that_go_on() if given_up else frozenset()
        runs = []
        for attempt, life in lives:
            job = self.naming.job_of(life)
            taker = self._taker(life)
            run = imported(_PATH, life, attempt, job, is_alone=job not in others, taker=taker)
            if run.facts:
                runs.append(run)
        for line in report.first_skipped:
            self.say(line)
        return runs

    def _read_log(self) -> None:
        trouble = self.log.read()
        if trouble and trouble != self._log_trouble:
            self.say(f"{trouble}; until it can be read no job is reported as preempted for another")
        self._log_trouble = trouble

    def _taker(self, life: Record) -> Taker | None:
        """Return who got the place of a life, None where that is not known, yet."""
        launch = self.log.preemptions.taker_of(life)
        if not launch:
            return None
        key = (life.cluster, launch)
        rows = {key: self._rows[key]} if key in self._rows else self._histories([key])
        records = (each for lives in self._records(rows, Report()).values() for each in lives)
        taker = next(records, None)
        return None if taker is None else Taker(launch, self.naming.job_of(taker))

    def _records(self, rows: dict[Key, list[bytes]], report: Report) -> dict[Key, list[Record]]:
        table = Table(_PATH, self._clock, report)
        header = _DELIMITER.join(self._columns).encode()
        lines = [row for rows_of_job in rows.values() for row in rows_of_job]
        records: dict[Key, list[Record]] = {}
        for record in table.records(enumerate([header, *lines], 1)):
            records.setdefault((record.cluster, record.launch), []).append(record)
        return records

    def _lives(self, rows: dict[Key, list[bytes]], report: Report) -> list[Numbered]:
        now = self.now()
        return [
            Numbered(attempt, self._aged(key, record, now))
            for key, records in self._records(rows, report).items()
            for attempt, record in numbered(records)
            if not record.is_unsplit
        ]

    def _jobs_that_go_on(self) -> frozenset[str]:
        """Return the jobs of the look of which something has begun or waits."""
        records = self._records(self._rows, Report()).values()
        return frozenset(
            self.naming.job_of(record)
            for lives in records
            for record in lives
            if not record.was_given_up
        )

    def _may_lack(self, rows: Sequence[bytes]) -> bool:
        """Whether earlier records of the job can lie before the window.

        A requeue is a submission, which comes once nodes have been cleaned up after the last life.
        """
        if "Restarts" in self._columns:
            return False
        submits = (row.split(_MARK, 6)[5] for row in rows)
        return min(submits) < written(self._from_s + _CLEANED_UP_IN_S)[:19].encode()

    def _histories(self, jobs: Sequence[Key]) -> dict[Key, list[bytes]]:
        """Return all records of *jobs*, whatever the window."""
        rows_of: dict[Key, list[bytes]] = {}
        wanted = set(jobs)
        ids = sorted({job_id for _, job_id in jobs})
        for first in range(0, len(ids), _IDS_AT_ONCE):
            some = ",".join(ids[first : first + _IDS_AT_ONCE])
            jobs_of_ids = _by_job(self._table_rows("--jobs", some))
            rows_of |= {key: rows for key, rows in jobs_of_ids.items() if key in wanted}
        return rows_of

    def _mark(self, key: Key, rows: Sequence[bytes], now: float) -> int:
        cluster, launch = key
        takers = self.log.preemptions.takers_of(launch)
        present = tuple(taker for taker in takers if (cluster, taker) in self._rows)
        return hash((*rows, self._age(key, rows[-1], now) // ALIVE_EVERY_S, present))

    def _age(self, key: Key, row: bytes, now: float) -> int:
        """Return for how long a job has been alive, 0 if it is not certain that it still is."""
        state, start = row.split(_MARK, 5)[3:5]
        if state == b"PENDING" or self._live is None or not _is_among(key, self._live):
            return 0
        try:
            begun = self._clock.times((start.decode(), "", "", ""), None).submit
        except ValueError:
            return 0
        return max(0, int(now) - begun) if begun is not None else 0

    def _aged(self, key: Key, record: Record, now: float) -> Record:
        if record.end is not None or record.start is None:
            return record
        is_live = self._live is not None and _is_among(key, self._live)
        return record._replace(elapsed=int(now) - record.start if is_live else None)

    def _table_rows(self, *window: str) -> list[bytes]:
        self._columns = self._columns or self._offered_columns()
        options = ["--duplicates", "--parsable2", "--allocations", "--allusers"]
        options += [f"--delimiter={_DELIMITER}", f"--format={','.join(self._columns)}"]
        header, *rows = self._output("sacct", *options, *self._of_clusters(), *window) or [b""]
        if header != _DELIMITER.join(self._columns).encode():
            raise Unavailable("sacct printed no table")
        return rows

    def _offered_columns(self) -> tuple[str, ...]:
        offered = set(b" ".join(self._output("sacct", "--helpformat")).decode().split())
        return tuple(column for column in _COLUMNS if column in offered)

    def _running(self) -> frozenset[Key] | None:
        """Return the jobs that run, None where Slurm's controller does not answer."""
        options = ["--noheader", "--all", f"--states={_LIVE}", "--format=%A"]
        try:
            lines = self._output("squeue", *options, *self._of_clusters())
        except Unavailable as error:
            if str(error) != self._squeue_trouble:
                self.say(f"{error}; until it answers, no job gets a heartbeat")
            self._squeue_trouble = str(error)
            return None
        self._squeue_trouble = ""
        return frozenset(_keys(line.decode() for line in lines))

    def _of_clusters(self) -> list[str]:
        return [f"--clusters={self.clusters}"] if self.clusters else []

    def _output(self, *command: str) -> list[bytes]:
        environment = {**self.environment, "TZ": "UTC", "LC_ALL": "C.UTF-8"}
        environment.pop("SLURM_TIME_FORMAT", None)
        try:
            done = subprocess.run(  # noqa: S603 -- no shell, and options of our own
                command, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                timeout=_TIMEOUT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{command[0]} did not answer in {_TIMEOUT_S:.0f} s") from None
        except OSError as error:
            raise Unavailable(f"{command[0]} cannot be run: {error.strerror}") from None
        if done.returncode != 0:
            why = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
            raise Unavailable(f"{command[0]} failed: {why[-1][:200]}")
        return done.stdout.split(b"\n")[:-1]


def _by_job(rows: Iterable[bytes]) -> dict[Key, list[bytes]]:
    jobs: dict[Key, list[bytes]] = {}
    key: Key | None = None
    for row in rows:
        fields = row.split(_MARK, 3)
        if len(fields) > 3:  # noqa: PLR2004 -- else the rest of a name that holds a line feed
            cluster, raw_id, job_id, _ = fields
            launch = job_id.partition(b"+")[0] if b"+" in job_id else raw_id
            key = (cluster.decode(), launch.decode())
        if key is not None:
            jobs.setdefault(key, []).append(row)
    return jobs


def _keys(lines: Iterable[str]) -> Iterator[Key]:
    cluster = ""
    for line in lines:
        if line.startswith("CLUSTER:"):
            cluster = line.removeprefix("CLUSTER:").strip()
        else:
            yield cluster, line.strip()


def _is_among(key: Key, live: frozenset[Key]) -> bool:
    return key in live or ("", key[1]) in live
