"""What NVRx's in-process restarts log: each rank says with its instant why it left the function.

All ranks restart together, behind a barrier, so that a rank that leaves the function again is in
the next iteration, which is the next cycle.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

from ett_service.core.intervals import rfc3339
from ett_service.importers.importer import Fact, clean
from ett_service.importers.instants import microseconds

MARK: Final = b"_ex: "
"""What every line has that may be a record."""

_RECORD: Final = re.compile(
    rb"\[(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6})\] rank=(?P<rank>\d{1,9}) "
    rb"(?P<name>[a-z]+_ex): (?P<what>.*)"
)
_TYPE: Final = re.compile(r"([A-Za-z_][\w.]{0,99})\(")
_FAULTS: Final = ("fn_ex", "init_ex")
_LEFT: Final = "term_ex"
_BACK: Final = "restart_ex"
_GONE: Final = "exit_ex"
_LONGEST: Final = 2000


class RankException(NamedTuple):
    """An exception that a rank met."""

    at_us: int
    line: int
    rank: int
    name: str  #: ``fn_ex`` of the function, ``term_ex`` as it is left, ``restart_ex``, ``exit_ex``
    what: str  #: the exception as Python prints it


def record_of(line: int, piece: bytes) -> RankException | None:
    """Read a line; None where it is no record, or names no instant."""
    match = _RECORD.search(piece)
    if match is None:
        return None
    try:
        at = datetime.fromisoformat(f"{match['at'].decode()}+00:00")
    except ValueError:
        return None
    what = clean(match["what"].decode("utf-8", "replace"), _LONGEST)
    return RankException(microseconds(at), line, int(match["rank"]), match["name"].decode(), what)


def restarts(records: Iterable[RankException]) -> Iterator[Fact]:
    """Yield what the iterations say: how each ended, its teardown, and the begin of the next."""
    iterations = list(_iterations(sorted(records)))
    for cycle, iteration in enumerate(iterations):
        goes_on = cycle + 1 < len(iterations) or _goes_on(iteration)
        yield from _iteration(cycle, iteration, goes_on=goes_on)


def _iterations(records: Iterable[RankException]) -> Iterator[list[RankException]]:
    iteration: list[RankException] = []
    over: set[int] = set()  #: ranks that have left the function
    for record in records:
        if record.rank in over and record.name in (*_FAULTS, _LEFT):
            yield iteration
            iteration, over = [], set()
        if record.name in (_LEFT, _GONE):
            over.add(record.rank)
        iteration.append(record)
    if iteration:
        yield iteration


def _goes_on(iteration: Iterable[RankException]) -> bool:
    """Whether a rank is left that leaves the function to call it again."""
    last = {record.rank: record.name for record in iteration}
    return any(name in (_LEFT, _BACK) for name in last.values())


def _iteration(cycle: int, iteration: list[RankException], *, goes_on: bool) -> Iterator[Fact]:
    names = (*_FAULTS, _LEFT, _GONE)
    ends = [record for record in iteration if record.name in names]
    if not ends:
        return
    fault = min(ends, key=lambda record: (record.name not in _FAULTS, record.at_us))
    last = max(record.at_us for record in iteration)
    yield Fact(_ended(cycle, fault, fault.at_us), fault.line)
    if last > fault.at_us:
        for stage in ({}, {"stage": "teardown"}):
            span = {"type": "span", "start": rfc3339(fault.at_us), "at": rfc3339(last)}
            yield Fact({**span, "cycle": cycle, "phase": "shutdown", **stage}, fault.line)
        yield Fact(_ended(cycle, fault, last), fault.line)
    if goes_on:
        begin = {"type": "attempt_started", "at": rfc3339(last), "cycle": cycle + 1}
        yield Fact({**begin, "reason": "NVRx: restarted in process"}, fault.line)


def _ended(cycle: int, fault: RankException, at_us: int) -> dict[str, Any]:
    kind = _TYPE.match(fault.what)
    return {
        "type": "attempt_ended",
        "at": rfc3339(at_us),
        "cycle": cycle,
        "outcome": "failed",
        "reason": f"NVRx: rank {fault.rank} left the function ({fault.name})",
        **({"exception": kind[1]} if kind else {}),
        **({"message": fault.what} if fault.name != _LEFT else {}),
    }
