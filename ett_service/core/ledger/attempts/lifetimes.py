"""A job's runs, when and how the attempts of each began and ended, and the state of it."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from ett_service.core.events import AttemptEnded, Ending, JobEnded
from ett_service.core.ledger.attempts.attempt_events import AttemptEvents
from ett_service.core.ledger.attempts.spans import NEVER
from ett_service.core.words import (
    ORIGIN_OF_CAUSE,
    Cause,
    JobState,
    Origin,
    Outcome,
    Phase,
)

_OUTCOMES = (Outcome.FAILED, Outcome.PREEMPTED, Outcome.CANCELLED, Outcome.COMPLETED)
_ORIGINS = (Origin.INFRA, Origin.USER, Origin.PREEMPTION, Origin.UNKNOWN)
_INTERRUPTED = (Outcome.FAILED, Outcome.PREEMPTED, Outcome.LOST)
_OVERRULED_WITHIN_US = 60_000_000

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


@dataclass(frozen=True, slots=True)
class Limits:
    """The two silences after which something is given up as lost."""

    lost_after_us: int = 900_000_000  #: an attempt of which nothing was heard
    queue_lost_after_us: int = 7 * 86_400_000_000  #: a queued job that gave no sign


DEFAULT_LIMITS = Limits()


@dataclass(slots=True)
class Lifetime:
    """One attempt that has begun, from its begin to its end."""

    events: AttemptEvents
    later: Sequence[AttemptEvents]  #: the attempts after it, those that have only queued included
    number: int
    begin: int
    end: int = 0
    outcome: Outcome = Outcome.RUNNING
    deciding: Ending | None = None  #: the event that gives outcome, origin and cause

    @property
    def signature(self) -> tuple[int, int, int, Outcome, str | None]:
        """Number, begin, end, outcome and the id of the deciding event."""
        event_id = None if self.deciding is None else self.deciding.id
        return (self.number, self.begin, self.end, self.outcome, event_id)

    def contains(self, begin: int) -> bool:
        """Whether a span that begins at *begin* exists: one at the end or later does not."""
        return begin < self.end


@dataclass(frozen=True, slots=True)
class StandingJobEnd:
    """The ``job_ended`` that no attempt contradicts."""

    at: int
    event: JobEnded


@dataclass(slots=True)
class Lifetimes:
    """What :func:`find_lifetimes` finds."""

    run: RunEvents
    as_of: int
    until: int  #: where the next run begins, ``NEVER`` in the last: nothing of this one is later
    lives: list[Lifetime]  #: of the attempts that have begun
    first: int | None = None  #: the run's first instant
    standing: StandingJobEnd | None = None
    state: JobState = JobState.FINISHED

    @property
    def waiting(self) -> list[AttemptEvents]:
        """The attempts that have only queued so far."""
        return [attempt for attempt in self.run.attempts if attempt.first is None]

    def life(self, number: int) -> Lifetime:
        """Return the attempt of this number."""
        return self.lives[number - self.run.first_number]


def _decides_before(end: tuple[int, Ending]) -> tuple[int, int, int, str]:
    at, event = end
    origin = event.origin or ORIGIN_OF_CAUSE[event.cause or Cause.UNKNOWN]
    if event.outcome is Outcome.PREEMPTED:
        origin = Origin.PREEMPTION
    return (at, _OUTCOMES.index(event.outcome), _ORIGINS.index(origin), event.id)


def _ends_it(attempt: AttemptEvents, at: int, event: AttemptEnded) -> bool:
    in_stream = event.rank is None or event.rank == attempt.lead
    return in_stream or attempt.stream_heard <= at


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


def deciding_end(attempt: AttemptEvents) -> tuple[int | None, AttemptEnded | None]:
    """Return where the attempt's own events end it, and the event that decides how.

    Either may be None: ``failed`` of a rank that did not end it gives origin and cause only.
    """
    ending = [at for at, event in attempt.ends if _ends_it(attempt, at, event)]
    deciding = sorted(
        (
            (at, event)
            for at, event in attempt.ends
            if event.outcome is Outcome.FAILED or _ends_it(attempt, at, event)
        ),
        key=_decides_before,
    )
    if not deciding:
        return None, None
    first_at, decisive = deciding[0]
    if decisive.outcome is Outcome.FAILED:
        overruling = (
            event
            for at, event in deciding
            if event.rank is None
            and event.outcome in (Outcome.PREEMPTED, Outcome.CANCELLED)
            and at - first_at <= _OVERRULED_WITHIN_US
        )
        decisive = next(overruling, decisive)
    return max(ending, default=None), decisive


def _lost(
    attempt: AttemptEvents, later: Iterable[AttemptEvents], first: int, limits: Limits
) -> bool:
    """Whether *later* attempts show that the attempt had ended when it was last heard."""
    return any(
        other.heard - attempt.heard >= limits.lost_after_us
        or (
            other.first is not None
            and (max(other.first, first) >= attempt.heard or other.key[:2] == attempt.key[:2])
        )
        for other in later
    )


def _queue_begins(attempts: Sequence[AttemptEvents], first: int, limits: Limits) -> Iterable[int]:
    """Yield the begins of queued spans, but for those that their attempt's end cuts away."""
    for place, attempt in enumerate(attempts):
        spans = attempt.by_phase.get(Phase.QUEUED)
        if not spans:
            continue
        end, _ = deciding_end(attempt)
        if end is None and attempt.first is not None:
            is_lost = _lost(attempt, attempts[place + 1 :], first, limits)
            end = attempt.heard if is_lost else None
        yield from (span.begin for span in spans if end is None or span.begin < end)


def standing_end(
    job_ends: JobEnds, attempts: Sequence[AttemptEvents], first: int, limits: Limits
) -> StandingJobEnd | None:
    """Return the ``job_ended`` after which nothing begins: latest instant, first outcome."""
    if not job_ends:
        return None
    begins = [max(attempt.first, first) for attempt in attempts if attempt.first is not None]
    latest_begin = max([*begins, *_queue_begins(attempts, first, limits)], default=-NEVER)
    standing = [end for end in job_ends if end[0] >= latest_begin]
    if not standing:
        return None
    _, event = min(standing, key=_decides_before)
    return StandingJobEnd(max(at for at, _ in standing), event)


def _close(life: Lifetime, lifetimes: Lifetimes, limits: Limits, first: int) -> None:
    attempt, heard = life.events, life.events.heard
    end, life.deciding = deciding_end(attempt)
    standing = lifetimes.standing
    if end is not None:
        assert life.deciding is not None
        life.end, life.outcome = end, life.deciding.outcome
    elif _lost(attempt, life.later, first, limits):
        life.end, life.outcome = heard, Outcome.LOST
    elif standing is not None and life.begin <= standing.at:
        life.end, life.outcome = max(standing.at, heard), standing.event.outcome
        life.deciding = life.deciding or standing.event
    elif lifetimes.run.is_over or lifetimes.as_of - heard >= limits.lost_after_us:
        life.end, life.outcome = heard, Outcome.LOST
    else:
        life.end, life.outcome = lifetimes.as_of, Outcome.RUNNING
    life.end = min(max(life.end, life.begin), lifetimes.until)


def _close_lives(lifetimes: Lifetimes, limits: Limits, first: int) -> None:
    """Set begin, end and outcome of every attempt, given the run's first instant."""
    run = lifetimes.run
    lifetimes.standing = standing_end(run.job_ends, run.attempts, first, limits)
    for life in lifetimes.lives:
        life.begin = min(max(life.begin, first), lifetimes.until)
    for life in lifetimes.lives:
        _close(life, lifetimes, limits, first)


def _state(lifetimes: Lifetimes, last_sign_at: int, limits: Limits) -> JobState:
    lives = lifetimes.lives
    if any(life.outcome is Outcome.RUNNING for life in lives):
        return JobState.RUNNING
    if lifetimes.standing is not None or lifetimes.run.is_over:
        return JobState.FINISHED
    latest_end = max((life.end for life in lives), default=-NEVER)
    queues = not lives or any(attempt.heard >= latest_end for attempt in lifetimes.waiting)
    if queues and lifetimes.as_of - last_sign_at < limits.queue_lost_after_us:
        return JobState.QUEUED
    if not lives:
        return JobState.FINISHED
    ended_last = max(lives, key=lambda life: (life.end, life.number))
    return JobState.INTERRUPTED if ended_last.outcome in _INTERRUPTED else JobState.FINISHED


def _first_instant(lifetimes: Lifetimes, limits: Limits) -> int:
    earliest = min(life.begin for life in lifetimes.lives)
    zero = lifetimes.lives[0]
    scheduling = zero.events.by_phase.get(Phase.SCHEDULING)
    if not scheduling or scheduling[0].begin == earliest:
        return earliest
    candidate = scheduling[0].begin
    trial = replace(lifetimes, lives=[replace(life) for life in lifetimes.lives])
    _close_lives(trial, limits, candidate)
    earlier = any(
        life.events.phase_began < candidate and life.contains(life.events.phase_began)
        for life in trial.lives
    )
    return candidate if trial.lives[0].contains(candidate) and not earlier else earliest


def find_lifetimes(
    run: RunEvents, as_of: int, last_sign_at: int, limits: Limits, until: int = NEVER
) -> Lifetimes:
    """Find when and how each attempt of *run* began and ended; the next run begins at *until*."""
    lives: list[Lifetime] = []
    for place, attempt in enumerate(run.attempts):
        if attempt.first is not None:
            later, number = run.attempts[place + 1 :], run.first_number + len(lives)
            lives.append(Lifetime(attempt, later, number, attempt.first))
    lifetimes = Lifetimes(run, as_of, until, lives)
    if lives:
        lifetimes.first = _first_instant(lifetimes, limits)
    _close_lives(lifetimes, limits, -NEVER if lifetimes.first is None else lifetimes.first)
    lifetimes.state = _state(lifetimes, last_sign_at, limits)
    return lifetimes


def follows_clock(lifetimes: Lifetimes) -> bool:
    """Whether the run's numbers run with the clock."""
    return lifetimes.state in (JobState.RUNNING, JobState.QUEUED)


def end_of_e2e(lifetimes: Lifetimes) -> int:
    """Return where E2E ends; of a run without attempts that is where it begins."""
    if not lifetimes.lives or follows_clock(lifetimes):
        return min(lifetimes.as_of, lifetimes.until)
    return max(life.end for life in lifetimes.lives)


def queued_spans(
    lifetimes: Lifetimes, last_sign_at: int
) -> Iterator[tuple[AttemptEvents, int, int]]:
    """Yield when an attempt had a ``queued`` span open, whether or not it then began."""
    for life in lifetimes.lives:
        for span in life.events.by_phase.get(Phase.QUEUED, ()):
            yield life.events, span.begin, min(span.end, life.end)
    still = lifetimes.as_of if lifetimes.state is JobState.QUEUED else last_sign_at
    for attempt in lifetimes.waiting:
        end = still if lifetimes.standing is None else max(lifetimes.standing.at, attempt.heard)
        for span in attempt.by_phase.get(Phase.QUEUED, ()):
            yield attempt, span.begin, min(span.end, end)
