"""Which records are lives of one launch, and their numbers.

Slurm keeps a record for each time that it requeued a job, under the same id. Their place is the
number that the job itself sees as ``SLURM_RESTART_COUNT``.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from ett_service.core.words import SLURM_OUTCOMES
from ett_service.importers.slurm.record import Record

_RESIZED = "RESIZING"


class Numbered(NamedTuple):
    """A record and the number of its attempt."""

    attempt: int
    record: Record


def numbered(records: Iterable[Record]) -> Iterator[Numbered]:
    """Number the records of one launch, of which several may tell of one life."""
    components: dict[int, list[Record]] = {}
    for record in sorted(records, key=_order):
        components.setdefault(record.component, []).append(record)
    lives = [list(_lives(component)) for _, component in sorted(components.items())]
    first, *others = lives
    for attempt, record in enumerate(first):
        beside = [other[attempt] for other in others if attempt < len(other)]
        whole = _together([record, *beside]) if beside else record
        yield Numbered(int(whole.restarts) if whole.restarts.isdecimal() else attempt, whole)


def _order(record: Record) -> tuple[int, int, int, str]:
    """Order lives, and of one life what was printed later last."""
    begun, ended = record.start or 0, record.end or 0
    return (record.since, begun, ended if record.word in SLURM_OUTCOMES else 0, record.state)


def _lives(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the latest record of each life; one that was resized ends in its next record."""
    resized: Record | None = None
    for _, copies in groupby(records, key=lambda record: record.restarts or record.since):
        *_, record = copies
        if resized is not None:
            record = record._replace(
                submit=resized.submit, eligible=resized.eligible, start=resized.start
            )
        resized = record if record.word == _RESIZED else None
        if resized is None:
            yield record
    if resized is not None:
        yield resized


def _together(components: list[Record]) -> Record:
    """Join the components of a heterogeneous job, which begin and end together."""
    first = components[0]
    starts = [each.start for each in components if each.start is not None]
    ends = [each.end for each in components if each.end is not None]
    worst = max(components, key=lambda each: each.word not in ("COMPLETED", first.word))
    counts = [each.gpus for each in components]
    gpus = f"gres/gpu={sum(count or 0 for count in counts)}" if any(counts) else ""
    models = [f"gres/gpu:{each.hardware}=0" for each in components if each.hardware]
    return first._replace(
        start=min(starts, default=None),
        end=max(ends) if len(ends) == len(components) else None,
        state=worst.state if worst.word in SLURM_OUTCOMES else first.state,
        exit_code=worst.exit_code,
        nodes=str(sum(each.hosts or 0 for each in components) or ""),
        tres=",".join([gpus, *models]),
    )
