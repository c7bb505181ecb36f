"""Accelerators: the weight of every second, and which of them were held and paid for."""

from collections.abc import Sequence

from ett_service.core.bounds import Life
from ett_service.core.interval import Interval, merged, outside
from ett_service.core.track import Track
from ett_service.core.vocabulary import Category, Phase

UNHELD = frozenset({Category.SCHEDULING, Category.RESTART_WAIT})
"""Categories of an attempt in which no accelerator was held."""


def started_with(track: Track) -> int | None:
    """Return the accelerators that the attempt's latest ``attempt_started`` names."""
    named = [(at, event.gpus) for at, event in track.starts if event.gpus is not None]
    return max(named)[1] if named else None


def accelerators(lives: Sequence[Life], job_gpus: int | None) -> list[int | None]:
    """Return each attempt's accelerators: its own, an earlier cycle's, else the job's."""
    found: list[int | None] = []
    inherited: dict[tuple[str, int], int] = {}
    for life in lives:
        allocation = life.track.key[:2]
        own = started_with(life.track)
        if own is not None:
            inherited[allocation] = own
        found.append(inherited.get(allocation, job_gpus))
    return found


def held_waits(lives: Sequence[Life]) -> list[Interval]:
    """Return when an allocation was still held between two of its cycles, disjoint."""
    found: list[Interval] = []
    latest: dict[tuple[str, int], Life] = {}
    for life in lives:
        allocation = life.track.key[:2]
        before = latest.get(allocation)
        latest[allocation] = life
        if before is not None and before.end < life.begin:
            queued = [
                (span.begin, min(span.end, life.end))
                for span in life.track.by_phase.get(Phase.QUEUED, ())
            ]
            found += outside((before.end, life.begin), queued)
    return merged(found)
