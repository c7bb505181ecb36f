"""Which job took another one's place: of all that Slurm writes only its controller's log says so.

A line of ``slurmctld.log`` names both jobs as one is requeued or killed for the other, or is given
grace; ``sacct`` has the state ``PREEMPTED`` and no more.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ett_service.importers.files import Unreadable, blocks_of, lines_in, pieces_of
from ett_service.importers.slurm.clock import Clock
from ett_service.importers.slurm.record import Record

_MARK: Final = b" to reclaim resources for JobId="
_JOB: Final = rb"JobId=(\d{1,12})(?:_\S+?\((\d{1,12})\))?\S*"
_LINE: Final = re.compile(
    rb"^\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:?\d\d)?\].*"
    rb"preempt\w+ (?:grace time for )?" + _JOB + rb" (?:has been \w+ )?to reclaim resources for "
    + _JOB
)  # fmt: skip
_LOG: Final = re.compile(rb"^\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^\]]*\] ")
_SLACK_S: Final = 60
"""How long after the end of a life its line may stand: clocks of two machines, and a busy one."""


class Preemption(NamedTuple):
    """One job made way for another. The instant is in whole seconds since 1970."""

    at: int
    launch: str  #: of the job that had to go
    taker: str  #: the launch that got the place


def is_controller_log(path: Path) -> bool:
    """Whether a file begins as the log of ``slurmctld`` does."""
    try:
        _, line = next(pieces_of(path), (1, b""))
    except Unreadable:
        return False
    return _LOG.match(line) is not None


def preemptions_in(path: Path, clock: Clock) -> Iterator[Preemption]:
    """Yield the preemptions of a log.

    Raises:
        Unreadable: where it cannot be read to its end.
    """
    for first, block in blocks_of(path):
        if _MARK in block:
            yield from preemptions_of((line for _, line in lines_in(first, block)), clock)


def preemptions_of(lines: Iterable[bytes], clock: Clock) -> Iterator[Preemption]:
    """Yield the preemptions that lines name; a time without a zone is that of *clock*."""
    for line in lines:
        match = _LINE.match(line) if _MARK in line else None
        if match is None:
            continue
        when, zone, job, task, taker, task_of_taker = match.groups(b"")
        try:
            at = clock.times(((when + zone).decode(), "", "", ""), None).submit
        except ValueError:
            continue
        if at is not None:
            yield Preemption(at, (task or job).decode(), (task_of_taker or taker).decode())


class Preemptions:
    """All preemptions that are known, by the launch that had to go."""

    def __init__(self, preemptions: Iterable[Preemption] = ()) -> None:
        self._by_launch: dict[str, list[Preemption]] = {}
        self.takers: set[str] = set()  #: launches that got the place of another
        for preemption in preemptions:
            self.add(preemption)

    def add(self, preemption: Preemption) -> None:
        """Take in one."""
        self._by_launch.setdefault(preemption.launch, []).append(preemption)
        self.takers.add(preemption.taker)

    def takers_of(self, launch: str) -> list[str]:
        """Return the launches that got the place of one, in the order of the log."""
        return [each.taker for each in self._by_launch.get(launch, ())]

    def taker_of(self, record: Record) -> str:
        """Return the launch that got the place of a life, empty where that is not known."""
        if record.word != "PREEMPTED" or record.start is None or record.end is None:
            return ""
        latest = record.end + _SLACK_S
        within = [
            each
            for each in self._by_launch.get(record.launch, ())
            if record.start <= each.at <= latest
        ]
        return max(within).taker if within else ""
