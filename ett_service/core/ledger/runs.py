"""Runs: a job's attempts, cut where a completed job is begun again under its name."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ett_service.core.events import JobEnded
from ett_service.core.ledger.attempt_events import AttemptEvents
from ett_service.core.ledger.spans import NEVER
from ett_service.core.words import Outcome

JobEnds = Sequence[tuple[int, JobEnded]]
"""The ``job_ended`` events with their corrected instants."""


@dataclass(frozen=True, slots=True)
class RunEvents:
    """The attempts of one run in their order, and the ends of the job that came in it."""

    attempts: Sequence[AttemptEvents]
    job_ends: JobEnds
    first_number: int = 0  #: of its first attempt that has begun
    is_over: bool = False  #: whether another run follows

    @property
    def sign_at(self) -> int:
        """The first instant that any of its events names."""
        return min((attempt.sign_at for attempt in self.attempts), default=NEVER)


def split_into_runs(attempts: Sequence[AttemptEvents], job_ends: JobEnds) -> list[RunEvents]:
    """Cut the *attempts* of a job, which come in order, into its runs; there is always one."""
    cuts = _boundaries(attempts, job_ends) if job_ends else []
    if not cuts:
        return [RunEvents(attempts, job_ends)]
    signs = _first_signs(attempts)
    groups: list[list[AttemptEvents]] = [[] for _ in range(len(cuts) + 1)]
    for attempt in attempts:
        groups[bisect_left(cuts, signs[attempt.key[0]][0])].append(attempt)
    return list(_numbered(groups, job_ends))


def _first_signs(attempts: Sequence[AttemptEvents]) -> dict[str, tuple[int, int]]:
    """Return each launch's first instant, and its first outside ``queued`` (else ``NEVER``)."""
    signs: dict[str, tuple[int, int]] = {}
    for attempt in attempts:
        sign_at, began_at = signs.get(attempt.key[0], (NEVER, NEVER))
        first = NEVER if attempt.first is None else attempt.first
        signs[attempt.key[0]] = (min(sign_at, attempt.sign_at), min(began_at, first))
    return signs


def _boundaries(attempts: Sequence[AttemptEvents], job_ends: JobEnds) -> list[int]:
    """Return the instants after which another run begins, one for each, in order.

    A job that completes ends its run where a launch gives its first sign later. A launch that
    waited then, and began later, went on with the run: the job had not ended.
    """
    launches = sorted(_first_signs(attempts).values())
    signs = [sign_at for sign_at, _ in launches]
    begun = accumulate((-NEVER if at == NEVER else at for _, at in launches), max)
    latest_begun = list(begun)
    boundaries: dict[int, int] = {}
    for at, event in job_ends:
        place = bisect_right(signs, at)
        if event.outcome is not Outcome.COMPLETED or not 0 < place < len(launches):
            continue
        if latest_begun[place - 1] <= at:
            boundaries[place] = max(at, boundaries.get(place, at))
    return sorted(boundaries.values())


def _numbered(groups: Sequence[Sequence[AttemptEvents]], job_ends: JobEnds) -> Iterator[RunEvents]:
    signs = [min(attempt.sign_at for attempt in group) for group in groups]
    number = 0
    for place, group in enumerate(groups):
        since = signs[place] if place else -NEVER
        until = signs[place + 1] if place + 1 < len(groups) else NEVER
        ends = [end for end in job_ends if since <= end[0] < until]
        yield RunEvents(group, ends, number, is_over=until < NEVER)
        number += sum(attempt.first is not None for attempt in group)
