"""Owned time: whose each second of a job was, and what it weighs."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ett_service.core.dimensions import Cohort
from ett_service.core.fleet.cohort import Frame
from ett_service.core.intervals import Interval, merged, outside
from ett_service.core.ledger.job_results import UNHELD
from ett_service.core.ledger.results import AttemptLedger, Exclusion, JobLedger, Segment, Wait
from ett_service.core.words import Category


class OwnedTime(NamedTuple):
    """Time ``[start_at, end_at)`` of one owner, and the accelerators that it counts for."""

    start_at: int
    end_at: int
    category: Category
    number: int | None  #: of the attempt; None between attempts
    gpus: int  #: 0 where its time carries no weight
    held: bool  #: whether they were held


def owned_time(
    ledger: JobLedger, window: Interval, exclusions: Sequence[Exclusion] = ()
) -> Iterator[tuple[Cohort, OwnedTime]]:
    """Yield the job's time inside the *window* with its cohort, in no order.

    The ledger needs its segments; it may be one that was stored. As in the fleet's sums, a job
    of unknown accelerators carries no weight, and one that lives for too long has no time.
    """
    frame = Frame(ledger, exclusions)
    if not frame.fits:
        return
    edges = sorted({edge for one in exclusions for edge in one if edge is not None} | {*window})
    for stretch, number in _owned(ledger):
        begin, end = max(stretch.start_at, window[0]), min(stretch.end_at, window[1])
        if begin >= end:
            continue
        inside = edges[bisect_right(edges, begin) : bisect_left(edges, end)]
        for start, stop in pairwise([begin, *inside, end]):
            yield (
                frame.cohort(number, start),
                stretch._replace(start_at=start, end_at=stop, gpus=frame.weights[number]),
            )


def _owned(ledger: JobLedger) -> Iterator[tuple[OwnedTime, int]]:
    """Yield every stretch with the attempt whose accelerators it counts for."""
    for start, end, category, _, number in ledger.segments:
        if number is not None:
            yield OwnedTime(start, end, category, number, 0, category not in UNHELD), number
    for wait in waits_between(ledger.attempts, ledger.segments):
        yield (
            OwnedTime(wait.start_at, wait.end_at, Category.RESTART_WAIT, None, 0, wait.held),
            wait.number,
        )


def waits_between(attempts: Sequence[AttemptLedger], segments: Sequence[Segment]) -> Iterator[Wait]:
    """Cut the time between *attempts* where the attempt changes whose accelerators it counts for.

    What the fold tells as the ledger's ``waits``, from what is stored. Whether the next cycle
    queued is not: between two cycles of one allocation all accelerators count as held.
    """
    ended = sorted((one.ended_at, one.number) for one in attempts)
    held = merged(_between_cycles(attempts))
    for start, stop, _, period, number in segments:
        if number is not None:
            continue
        place = bisect_right(ended, start, key=_instant)
        last = bisect_left(ended, stop, key=_instant)
        cuts = [start, *(at for at, _ in ended[place:last]), stop]
        for span, (_, latest) in zip(pairwise(cuts), ended[place - 1 : last], strict=True):
            free = outside(span, held)
            pieces = [(one, False) for one in free] + [(one, True) for one in outside(span, free)]
            for piece, is_held in sorted(pieces):
                yield Wait(*piece, period, latest, is_held)


def _instant(ended: tuple[int, int]) -> int:
    return ended[0]


def _between_cycles(attempts: Sequence[AttemptLedger]) -> Iterator[Interval]:
    latest: dict[tuple[str, int], AttemptLedger] = {}
    for attempt in attempts:
        before = latest.get((attempt.launch, attempt.attempt))
        latest[attempt.launch, attempt.attempt] = attempt
        if before is not None and before.ended_at < attempt.started_at:
            yield before.ended_at, attempt.started_at
