"""Entries of Google's goodput library as they lie in a file, kept small.

An entry has one instant, in seconds since the Unix epoch, under a key that says what it is of.
A step is recorded as it begins; its end is the begin of the next.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import le
from pathlib import Path
from typing import Final, NamedTuple, overload

import msgspec

from ett_service.core.intervals import SECOND_US
from ett_service.importers.files import json_objects
from ett_service.importers.importer import Report

_LAST_S: Final = 1e11  #: seconds; beyond lie milliseconds
_FIRST_S: Final = 946_684_800.0  #: 2000; before lie clocks that were never set
_MOST_STEP: Final = 2**53 - 1
_APART_US: Final = 10 * SECOND_US
"""Steps in a row are kept this far apart; their first and last are always kept."""

DENSE: Final = 6
"""Of a new life so many steps are kept whatever lies between them."""


class StepEntry(msgspec.Struct):
    """What is read of nearly all entries."""

    job_name: str = ""
    step_count: float | None = None
    step_start_time: float | None = None


class Entry(msgspec.Struct):
    """What is read of any entry; at most one of its instants is there."""

    job_name: str = ""
    step_count: float | None = None
    step_start_time: float | None = None
    job_start_time: float | None = None
    job_end_time: float | None = None
    tpu_init_start_time: float | None = None
    tpu_init_end_time: float | None = None
    training_prep_start_time: float | None = None
    training_prep_end_time: float | None = None
    data_loading_start_time: float | None = None
    data_loading_end_time: float | None = None
    custom_badput_event_type: str = "unknown"
    custom_badput_event_start_time: float | None = None
    custom_badput_event_end_time: float | None = None
    elastic_wait_event_type: str = "unknown"
    elastic_wait_start_time: float | None = None
    elastic_wait_end_time: float | None = None
    elastic_reinit_start_time: float | None = None
    elastic_reinit_end_time: float | None = None
    event_type: str = ""
    step: float | None = None
    synchronous: bool | None = None
    wait_for_prev_start_time: float | None = None
    wait_for_prev_duration_secs: float | None = None
    checkpoint_manager_blocking_start_time: float | None = None
    checkpoint_manager_blocking_duration_secs: float | None = None
    checkpoint_manager_start_time: float | None = None
    checkpoint_manager_duration_secs: float | None = None
    jsonPayload: "Entry | None" = None  # noqa: N815 - the name on the wire


_ONE_INSTANT: Final = (
    "job_start", "job_end", "tpu_init_start", "tpu_init_end", "training_prep_start",
    "training_prep_end", "data_loading_start", "data_loading_end", "custom_badput_event_start",
    "custom_badput_event_end", "elastic_wait_start", "elastic_wait_end", "elastic_reinit_start",
    "elastic_reinit_end",
)  # fmt: skip
_SAVE, _RESTORES = "save", ("restore", "emergency_restore")


class Mark(NamedTuple):
    """An entry that is no step, by its instant."""

    at_us: int
    line: int
    kind: str  #: the key without ``_time``; ``save`` or ``restore``
    word: str = ""  #: the type of a custom event or of an elastic wait
    end_us: int = 0  #: of a save or restore
    step: int | None = None  #: likewise
    durable_us: int | None = None  #: when a save had waited for the one before it
    is_synchronous: bool = False


class StepBegin(NamedTuple):
    """The begin of a step."""

    at_us: int
    number: int
    line: int
    waited_us: int  #: for data, since the first step of this life


class StepColumns(Sequence[StepBegin]):
    """Begins of steps, each of whose members lies in a column: a million take little memory."""

    def __init__(self) -> None:
        self._columns = (array("q"), array("q"), array("q"), array("q"))

    def append(self, step: tuple[int, int, int, int]) -> None:
        """Add a step at the end."""
        instants_us, numbers, lines, waits_us = self._columns
        instants_us.append(step[0])
        numbers.append(step[1])
        lines.append(step[2])
        waits_us.append(step[3])

    def __len__(self) -> int:
        return len(self._columns[0])

    @overload
    def __getitem__(self, place: int) -> StepBegin: ...
    @overload
    def __getitem__(self, place: slice) -> list[StepBegin]: ...
    def __getitem__(self, place: int | slice) -> StepBegin | list[StepBegin]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        instants_us, numbers, lines, waits_us = self._columns
        return StepBegin(instants_us[place], numbers[place], lines[place], waits_us[place])

    def __iter__(self) -> Iterator[StepBegin]:
        return map(StepBegin, *self._columns)

    @property
    def instants_us(self) -> Sequence[int]:
        """Their instants."""
        return self._columns[0]

    def by_instant(self) -> Iterator[StepBegin]:
        """Yield them by their instants, of equal ones by their lines."""
        instants_us, _, lines, _ = self._columns
        if all(map(le, instants_us, islice(instants_us, 1, None))):
            yield from self
            return
        order = sorted(range(len(self)), key=lambda place: (instants_us[place], lines[place]))
        yield from (self[place] for place in order)


class Steps:
    """Begins of steps in the order of the file, those of a steady stretch thinned out."""

    def __init__(self) -> None:
        self._kept = StepColumns()
        self._last = self._last_us = self._kept_us = 0
        self._held: tuple[int, int, int, int] | None = None
        self._dense = DENSE

    @property
    def kept(self) -> StepColumns:
        """Those that are kept, the last one included."""
        self._flush()
        return self._kept

    def add(self, at_us: int, number: int, line: int, waited_us: int) -> None:
        """Keep a step, or hold it until the next one shows whether it is needed."""
        gap_us = at_us - self._last_us
        if number != self._last + 1 or gap_us < 0:
            self.interrupt()
        elif self._dense == 0 and at_us - self._kept_us < _APART_US:
            self._last, self._last_us = number, at_us
            self._held = at_us, number, line, waited_us
            return
        elif gap_us >= _APART_US:
            self._flush()
        self._keep((at_us, number, line, waited_us))

    def interrupt(self) -> None:
        """Keep what is held: what follows may be another life."""
        self._flush()
        self._dense = DENSE

    def _flush(self) -> None:
        if self._held is not None:
            self._keep(self._held)

    def _keep(self, step: tuple[int, int, int, int]) -> None:
        self._kept.append(step)
        self._last_us, self._last, *_ = step
        self._held, self._kept_us = None, self._last_us
        self._dense = max(0, self._dense - 1)


@dataclass(slots=True)
class JobLog:
    """What a file says of one job."""

    name: str
    marks: list[Mark] = field(default_factory=list)
    steps: Steps = field(default_factory=Steps)
    line_in_other_unit: int | None = None
    has_step: bool = False  #: since its latest start
    loading_us: int | None = None  #: since when data is being loaded inside the loop
    waited_us: int = 0


def read_log(path: Path, report: Report) -> dict[str, JobLog]:
    """Read a file: a log for each job that its entries name.

    Raises:
        Unreadable: where it cannot be read to its end.
    """
    logs: dict[str, JobLog] = {}
    for line, read in json_objects(path, report, _decode):
        entry = read if isinstance(read, StepEntry) else read.jsonPayload or read
        log = logs.get(entry.job_name)
        if log is None:
            log = logs[entry.job_name] = JobLog(entry.job_name)
        try:
            is_entry = _add_step(log, entry, line) or _add(log, entry, line)
        except ValueError as error:
            report.skip(path, line, str(error))
            continue
        if is_entry:
            report.records += 1
        else:
            report.skip(path, line, "no entry of goodput that is known")
    return logs


_decode_step = msgspec.json.Decoder(StepEntry).decode
_decode_any = msgspec.json.Decoder(Entry).decode


def _decode(text: bytes) -> StepEntry | Entry:
    entry = _decode_step(text)
    return _decode_any(text) if entry.step_start_time is None else entry


def _add_step(log: JobLog, entry: StepEntry | Entry, line: int) -> bool:
    """Raises ``ValueError`` for what is no instant or no count."""
    if entry.step_start_time is None:
        return False
    at_us = _instant(log, entry.step_start_time, line)
    log.steps.add(at_us, _count(entry.step_count), line, log.waited_us)
    log.has_step = True
    return True


def _add(log: JobLog, entry: StepEntry | Entry, line: int) -> bool:
    """Keep an entry; False where it is of no known kind. Raises ``ValueError`` for no instant."""
    if isinstance(entry, StepEntry):
        return False
    if entry.event_type == _SAVE or entry.event_type in _RESTORES:
        mark = _checkpoint(log, entry, line)
        if mark is not None:
            log.marks.append(mark)
        return mark is not None
    for kind in _ONE_INSTANT:
        seconds = getattr(entry, kind + "_time")
        if seconds is not None:
            _add_mark(log, entry, kind, _instant(log, seconds, line), line)
            return True
    return False


def _add_mark(log: JobLog, entry: Entry, kind: str, at_us: int, line: int) -> None:
    if kind in ("job_start", "elastic_reinit_start"):
        log.steps.interrupt()
        log.has_step, log.loading_us, log.waited_us = False, None, 0
    if log.has_step and kind == "data_loading_start":
        log.loading_us = at_us
    elif log.has_step and kind == "data_loading_end":
        if log.loading_us is not None:
            log.waited_us += max(0, at_us - log.loading_us)
        log.loading_us = None
    else:
        is_wait = kind.startswith("elastic_wait")
        word = entry.elastic_wait_event_type if is_wait else entry.custom_badput_event_type
        log.marks.append(Mark(at_us, line, kind, word))


def _checkpoint(log: JobLog, entry: Entry, line: int) -> Mark | None:
    is_save = entry.event_type == _SAVE
    prefix = "checkpoint_manager_blocking" if is_save else "checkpoint_manager"
    start_s = getattr(entry, prefix + "_start_time")
    if start_s is None:
        return None
    start_us = _instant(log, start_s, line)
    waited_us = None
    if entry.wait_for_prev_start_time is not None:
        waited_us = _instant(log, entry.wait_for_prev_start_time, line)
        waited_us += _length(entry.wait_for_prev_duration_secs)
    return Mark(
        start_us,
        line,
        _SAVE if is_save else _RESTORES[0],
        end_us=start_us + _length(getattr(entry, prefix + "_duration_secs")),
        step=None if entry.step is None else _count(entry.step),
        durable_us=waited_us,
        is_synchronous=entry.synchronous is True,
    )


def _instant(log: JobLog, seconds: float, line: int) -> int:
    if seconds >= _LAST_S:
        log.line_in_other_unit = log.line_in_other_unit or line
    elif seconds < _FIRST_S:
        raise ValueError("a time before the year 2000")
    return round(min(seconds, _LAST_S) * SECOND_US)


def _length(seconds: float | None) -> int:
    return round(min(max(seconds or 0.0, 0.0), _LAST_S) * SECOND_US)


def _count(step: float | None) -> int:
    if step is None or not 0 <= step <= _MOST_STEP:
        raise ValueError("no step that can be counted")
    return int(step)
