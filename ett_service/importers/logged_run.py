"""One run of MLPerf Training as its log tells it, nothing concluded yet.

Only what it may be asked for is kept, so that a long log needs little memory.
"""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct

LARGEST: Final = (1 << 53) - 1
"""Counts go no further."""

_MOST_COUNTS = 1 << 17

_ASKED: Final = frozenset(
    {
        "submission_benchmark", "submission_platform", "submission_org", "submission_division",
        "submission_status", "status", "seed", "global_batch_size",
    }
)  # fmt: skip
"""Keys whose first value is kept."""

_EDGES: Final = frozenset({"init_start", "run_start", "run_stop"})
_TRAINING: Final = frozenset(
    {"block_start", "block_stop", "epoch_start", "epoch_stop", "tracked_stats"}
)
TRAINING: Final = "training"
"""The key under which the instants of all records of training are kept."""

_PLACED: Final = _EDGES | {"eval_start", "eval_stop"}
_NUMBERS: Final = ("epoch_num", "samples_count", "step_num")

Trial = tuple[int, int]
"""Which run of its allocation, counted from 1, and of how many."""


class Moment(NamedTuple):
    """An instant in microseconds, and the line that names it."""

    at_us: int
    line: int


class LogLine(Struct, frozen=True, gc=False):
    """One ``:::MLLOG`` line; ``at_us`` is None where its timestamp says nothing."""

    at_us: int | None
    key: str
    value: Any
    metadata: Mapping[str, Any]
    line: int = 0
    in_seconds: bool = False  #: whether the timestamp would be one in seconds


class EvaluationEdge(NamedTuple):
    """The begin or end of an evaluation; edges order by time, begins first."""

    at_us: int
    is_stop: bool
    line: int
    number: tuple[str, float] | None  #: what it calls itself, such as its epoch


class Count(NamedTuple):
    """Samples and steps that the run had trained on; -1 where it does not say."""

    at_us: int
    samples: int
    step: int
    line: int


class Stop(NamedTuple):
    """What the latest ``run_stop`` says."""

    at_us: int  #: 0 where it has no instant
    status: Any
    value: Any


class Allocation(NamedTuple):
    """Where the launcher says that it runs; empty where it does not."""

    slurm_id: str = ""
    nodes: str = ""  #: the list of the allocation's nodes, as Slurm writes it
    system: str = ""  #: the launcher's name of the system


NOWHERE: Final = Allocation()
"""Where a run is of which no launcher says so."""


@dataclass(slots=True)
class Log:
    """One run as its log tells it, nothing concluded yet."""

    path: Path
    allocation: Allocation = NOWHERE
    next_allocation: Allocation = NOWHERE  #: of the run that follows in the file
    records: int = 0
    first: Moment | None = None  #: the first instant of a record that the file names
    values: dict[str, Any] = field(default_factory=dict)  #: the first of each key
    begins: dict[str, Moment] = field(default_factory=dict)  #: the earliest of each edge's key
    ends: dict[str, Moment] = field(default_factory=dict)  #: and the latest; "" is any key
    evaluations: list[EvaluationEdge] = field(default_factory=list)
    counts: "array[int]" = field(default_factory=lambda: array("q"))
    stop: Stop | None = None
    line_in_seconds: int | None = None  #: the first that names a time in seconds
    errors: list[str] = field(default_factory=list)  #: lines that speak of one, the first few
    last_errors: list[str] = field(default_factory=list)  #: those after the last record
    outer_start: Moment | None = None
    outer_stop: Moment | None = None
    trial: Trial | None = None
    sysjson: dict[str, Any] = field(default_factory=dict)
    began: bool = False  #: whether there is a run in it, and not only remarks
    has_loop: bool = False  #: whether it says that its loop began

    @property
    def stopped_us(self) -> int | None:
        """The instant after which what begins is the next run; None while this one goes on."""
        stop = self.outer_stop or self.ends.get("run_stop")
        return None if stop is None else stop.at_us

    def progress(self) -> list[Count]:
        """Return what records say of samples and steps, in order of time."""
        number = iter(self.counts)
        return sorted(map(Count._make, zip(number, number, number, number, strict=True)))

    def take(self, record: LogLine) -> None:
        """Add a record."""
        key, metadata = record.key, record.metadata
        self.records += 1
        self.last_errors.clear()
        if key in _ASKED:
            self.values.setdefault(key, record.value)
        if key in _PLACED:
            self.began |= key in ("init_start", "run_start")
            self.has_loop |= key == "run_start"
            if record.in_seconds and self.line_in_seconds is None:
                self.line_in_seconds = record.line
        if key == "run_stop":
            stop = Stop(record.at_us or 0, metadata.get("status"), record.value)
            self.stop = stop if self.stop is None else max(self.stop, stop, key=lambda s: s.at_us)
        if record.at_us is not None:
            self._take_instant(key, metadata, Moment(record.at_us, record.line))

    def _take_instant(self, key: str, metadata: Mapping[str, Any], at: Moment) -> None:
        self.first = self.first or at
        self._extend("", at)
        if key in _EDGES:
            self._extend(key, at)
        elif key in _TRAINING:
            self._extend(TRAINING, at)
        elif key in _PLACED:
            number = _number(metadata)
            self.evaluations.append(EvaluationEdge(at.at_us, key == "eval_stop", at.line, number))
        samples = count_of(metadata.get("samples_count"))
        step = count_of(metadata.get("step_num"))
        if samples is not None or step is not None:
            unknown = -1
            samples = unknown if samples is None else samples
            self._count(at.at_us, samples, unknown if step is None else step, at.line)

    def _extend(self, key: str, at: Moment) -> None:
        begin, end = self.begins.get(key), self.ends.get(key)
        if begin is None or at.at_us < begin.at_us:
            self.begins[key] = at
        if end is None or at.at_us > end.at_us:
            self.ends[key] = at

    def _count(self, *count: int) -> None:
        self.counts.extend(count)
        if len(self.counts) > _MOST_COUNTS * len(count):
            every_second = self.progress()[::2]
            self.counts = array("q", (number for each in every_second for number in each))

    def join(self, remarks: "Log") -> None:
        """Add what looked like a run of its own but never began."""
        self.records += remarks.records
        self.first = self.first or remarks.first
        self.values = {**remarks.values, **self.values}
        for moments in (remarks.begins, remarks.ends):
            for key, at in moments.items():
                self._extend(key, at)
        self.evaluations += remarks.evaluations
        self.counts.extend(remarks.counts)
        stops = [stop for stop in (self.stop, remarks.stop) if stop is not None]
        self.stop = max(stops, key=lambda stop: stop.at_us, default=None)
        self.line_in_seconds = self.line_in_seconds or remarks.line_in_seconds
        self.errors += remarks.errors
        self.last_errors = (
            remarks.last_errors if remarks.records else self.last_errors + remarks.last_errors
        )


def _number(metadata: Mapping[str, Any]) -> tuple[str, float] | None:
    for name in _NUMBERS:
        number = metadata.get(name)
        if isinstance(number, int | float) and not isinstance(number, bool):
            return name, number
    return None


def count_of(value: object) -> int | None:
    """Return a count as logs write it, an integer or ``1152.0``; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Its size first: what is not finite has no integer, and some integers are no float.
    return int(value) if 0 <= value <= LARGEST and value == int(value) else None
