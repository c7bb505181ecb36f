"""Whose wait it is: a job's queue, its time to start and its recoveries, cut by owner.

Every second before the first step, and of every recovery, has one owner. ``OWNERS`` is the one
list that says so, by what the second was owned by and the stage that was open inside it. Stages
are compared in lower case, with ``_`` for ``-`` and blanks.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import takewhile
from operator import itemgetter
from typing import NamedTuple

from ett_service.core.intervals import LARGEST_STORED, Interval
from ett_service.core.ledger.attempts.attempt_events import AttemptEvents, AttemptIdentity
from ett_service.core.ledger.attempts.lifetimes import Lifetimes, queued_spans
from ett_service.core.ledger.attempts.spans import innermost
from ett_service.core.ledger.results import OwnedWait, Segment, Wait, WaitShare
from ett_service.core.ledger.runs import AttemptPart, RunSegments
from ett_service.core.words import CATEGORIES_OF, Category, Owner, Period, Phase, WaitPart

NEXT_CYCLE = "next_cycle"
REQUEUED = "requeued"
RESUBMITTED = "resubmitted"
"""What followed a wait between attempts in which none queued: it stands in place of a stage."""

#: Schedulers report the same reasons in each of them.
_BEFORE_PROCESSES = (Phase.QUEUED, Phase.SCHEDULING, Phase.HARDWARE_SETUP)

_NOT_OF_THE_TRAINER = (
    *_BEFORE_PROCESSES,
    Phase.LAUNCHER_INIT,
    Phase.EVALUATION,
    Phase.STALLED,
    Phase.SHUTDOWN,
)
_OF_THE_TRAINER = tuple(phase for phase in Phase if phase not in _NOT_OF_THE_TRAINER)


class OwnerRule(NamedTuple):
    """Whose a second of one of the *phases* is whose stage has one of the names."""

    phases: tuple[Phase | None, ...]  #: None where no phase was open
    stages: tuple[str, ...]  #: ``*`` stands for any characters, as a whole for no stage, too
    owner: Owner


def _rule(phases: tuple[Phase | None, ...], stages: str, owner: Owner) -> OwnerRule:
    return OwnerRule(phases, tuple(stages.split()), owner)


OWNERS: tuple[OwnerRule, ...] = (
    _rule(_BEFORE_PROCESSES, "*quota* qos* assoc* max*peraccount accountingpolicy licenses",
          Owner.QUOTA),
    _rule(_BEFORE_PROCESSES, "dependency* deferred begintime jobhelduser suspended *arraytask* "
          "invalid* badconstraints partition*limit init_container*", Owner.USER),
    _rule(_BEFORE_PROCESSES, "*image* container*", Owner.IMAGE),
    _rule(_BEFORE_PROCESSES, "*network* *volume* mount* cni* burstbuffer* stage_in*",
          Owner.NETWORK),
    _rule(_BEFORE_PROCESSES, "*node* partitiondown partitioninactive prolog* boot* provision* "
          "scale_up* health_check* gpu_* launch*failed*", Owner.NODE),
    _rule(_BEFORE_PROCESSES, "admission* preempt* priority resources reservation jobheldadmin "
          "unschedulable scheduling* queued", Owner.SCHEDULER),
    _rule((Phase.QUEUED, Phase.SCHEDULING), "*", Owner.SCHEDULER),
    _rule((Phase.HARDWARE_SETUP,), "*", Owner.NODE),
    _rule((Phase.LAUNCHER_INIT,), "device_init health_check pre_check* gpu_*", Owner.NODE),
    _rule((Phase.LAUNCHER_INIT,), "rendezvous process_group_init await_round *network*",
          Owner.NETWORK),
    _rule((Phase.LAUNCHER_INIT,), "preproc_creation get_first_batch_data pre_train", Owner.USER),
    _rule((Phase.LAUNCHER_INIT,), "*", Owner.FRAMEWORK),
    _rule(_OF_THE_TRAINER, "*", Owner.FRAMEWORK),
    _rule((Phase.EVALUATION, Phase.STALLED), "*", Owner.USER),
    _rule((Phase.SHUTDOWN,), "cleanup_tail epilog*", Owner.NODE),
    _rule((Phase.SHUTDOWN,), "model_publish", Owner.USER),
    _rule((Phase.SHUTDOWN,), "*", Owner.FRAMEWORK),
    _rule((None,), NEXT_CYCLE, Owner.FRAMEWORK),
    _rule((None,), REQUEUED, Owner.SCHEDULER),
    _rule((None,), "*", Owner.USER),
)  # fmt: skip
"""Of the rules of a phase the first whose stages match holds; the last of each matches all.

Of no phase are ``unattributed`` time, in which the job's own code ran and reported nothing, and
waits between attempts: a launcher begins the next cycle, a scheduler requeues what it had started,
and what is submitted anew waited for the user, or for the user's own tools.
"""

STAGED = frozenset(
    phase for rule in OWNERS if rule.stages != ("*",) for phase in rule.phases if phase is not None
)
"""Phases of which a stage can have another owner than the rest."""


@lru_cache(maxsize=4096)
def owner_of(phase: Phase | None, stage: str = "") -> Owner:
    """Return whose wait it is while the innermost open stage of *phase* is *stage*."""
    name = stage.lower().replace("-", "_").replace(" ", "_")
    return next(
        rule.owner
        for rule in OWNERS
        if phase in rule.phases and any(fnmatchcase(name, pattern) for pattern in rule.stages)
    )


PHASE_OF: Mapping[Category, Phase | None] = {
    **dict.fromkeys(Category),
    **{category: phase for phase, owned in CATEGORIES_OF.items() for category in owned},
    Category.RESTART_WAIT: Phase.QUEUED,
}
"""The phase that owns an attempt's second of a category."""

PARTS: Mapping[Period, WaitPart] = {
    Period.SCHEDULING: WaitPart.SCHEDULING,
    Period.STARTING: WaitPart.STARTING,
    Period.RECOVERING: WaitPart.RECOVERING,
}
"""The periods whose every second has an owner."""


Staging = Sequence[tuple[int, int, str]]
"""``(start, end, stage)``: disjoint, in order; the stage is empty where none was open."""


class RunWaits(NamedTuple):
    """The waits of a run, each in order and without overlap."""

    queue: tuple[OwnedWait, ...]  #: before its first instant: an earlier run may still go on
    inside: tuple[OwnedWait, ...]


class OwnedWaits:
    """The waits of a job's runs; those inside an attempt are cut anew only where it changed."""

    def __init__(self) -> None:
        self._inside: dict[AttemptIdentity, tuple[object, list[OwnedWait]]] = {}

    def cut(self, run: RunSegments, between: Iterable[Wait], last_sign_at: int) -> RunWaits:
        """Return a run's waits; *between* are those between its attempts."""
        queue = _queue(run.lifetimes, last_sign_at)
        waits = [*_between(run.lifetimes, between, queue)]
        for part in run.parts:
            waits += self._of_attempt(part)
        waits.sort(key=itemgetter(0))
        return RunWaits(tuple(_before(run.first, queue)), tuple(waits))

    def _of_attempt(self, part: AttemptPart) -> list[OwnedWait]:
        events = part.owned.life.events
        key = (part.attempt_segments.edition, part.owned.life.number, part.periods)
        cached = self._inside.get(events.key)
        if cached is None or cached[0] != key:
            cached = self._inside[events.key] = (key, list(_joined(_inside(part))))
        return cached[1]


def wait_shares(waits: Iterable[OwnedWait], gpus: Sequence[int | None]) -> tuple[WaitShare, ...]:
    """Sum the waits by part and owner, in order; *gpus* are the accelerators of each attempt."""
    all_known = None not in gpus
    counts = [count or 0 for count in gpus]
    sums: dict[tuple[WaitPart, Owner], list[int]] = {}
    for start, end, part, number, owner in waits:
        row = sums.setdefault((part, owner), [0, 0])
        row[0] += end - start
        row[1] += (end - start) * (0 if number is None else counts[number])
    return tuple(
        WaitShare(
            *key,
            us,
            min(weighted_us, LARGEST_STORED) if all_known and key[0] in _WEIGHTED else None,
        )
        for key, (us, weighted_us) in sorted(sums.items())
    )


_WEIGHTED = frozenset(PARTS.values())


def _queue(lifetimes: Lifetimes, last_sign_at: int) -> Staging:
    """Return when anything queued, and its stage: of several spans the one that began last."""
    attempts: list[AttemptEvents] = []
    spans = []
    for attempt, start, end in queued_spans(lifetimes, last_sign_at):
        spans.append((start, end, len(attempts)))
        attempts.append(attempt)
    return [
        piece
        for start, end, place in innermost(sorted(spans))
        for piece in _by_stage(start, end, _staging(attempts[place], Phase.QUEUED))
    ]


def _staging(attempt: AttemptEvents, phase: Phase) -> Staging:
    return attempt.staged.innermost(phase, attempt.by_phase.get(phase, ()))


def _by_stage(start: int, end: int, staging: Staging) -> Iterator[tuple[int, int, str]]:
    """Cut ``[start, end)`` at the stages, and name what lies between them ``""``."""
    for since, until, stage in _inside_of((start, end), staging):
        if start < since:
            yield start, since, ""
        yield since, until, stage
        start = until
    if start < end:
        yield start, end, ""


def _inside_of(span: Interval, staging: Staging) -> Iterator[tuple[int, int, str]]:
    """Yield what of *staging* lies inside the *span*."""
    for place in range(bisect_right(staging, span[0], key=itemgetter(1)), len(staging)):
        since, until, stage = staging[place]
        if since >= span[1]:
            return
        yield max(since, span[0]), min(until, span[1]), stage


def _before(first: int, queue: Staging) -> Iterator[OwnedWait]:
    """Yield the queue before the run's first instant."""
    waits = (
        OwnedWait(start, min(end, first), WaitPart.QUEUE, None, owner_of(Phase.QUEUED, stage))
        for start, end, stage in queue
        if start < first
    )
    return _joined(waits)


def _between(lifetimes: Lifetimes, waits: Iterable[Wait], queue: Staging) -> Iterator[OwnedWait]:
    """Yield the waits between attempts: the queue's, and whoever had to begin the next one."""
    following = _Following(lifetimes)
    for start, end, period, number, _ in waits:
        if (part := PARTS.get(period)) is None:
            continue
        at = start
        for since, until, stage in _inside_of((start, end), queue):
            if at < since:
                yield OwnedWait(at, since, part, number, following.owner(number, since))
            yield OwnedWait(since, until, part, number, owner_of(Phase.QUEUED, stage))
            at = until
        if at < end:
            yield OwnedWait(at, end, part, number, following.owner(number, end))


class _Following:
    """What follows the waits of a run."""

    def __init__(self, lifetimes: Lifetimes) -> None:
        lives = sorted((life.begin, life.number, life.events.key) for life in lifetimes.lives)
        self._begins = [begin for begin, _, _ in lives]
        self._keys = [key for _, _, key in lives]
        self._keys += [attempt.key for attempt in lifetimes.waiting[-1:]]
        self._key_of = {number: key for _, number, key in lives}

    def owner(self, number: int, until: int) -> Owner:
        """Return who had to begin what follows the attempt *number* after a wait up to *until*."""
        place = bisect_left(self._begins, until)
        launch, attempt, _ = self._key_of[number]
        if place == len(self._keys):
            return owner_of(None, RESUBMITTED)
        key = self._keys[place]
        if key[:2] == (launch, attempt):
            return owner_of(None, NEXT_CYCLE)
        return owner_of(None, REQUEUED if key[0] == launch else RESUBMITTED)


def _inside(part: AttemptPart) -> Iterator[OwnedWait]:
    """Yield an attempt's own waits, unjoined."""
    events = part.owned.life.events
    stagings: dict[Phase | None, Staging] = {phase: _staging(events, phase) for phase in STAGED}
    for start, end, category, period, number in _waiting(part):
        phase = PHASE_OF[category]
        for since, until, stage in _by_stage(start, end, stagings.get(phase, ())):
            yield OwnedWait(since, until, PARTS[period], number, owner_of(phase, stage))


def _waiting(part: AttemptPart) -> Sequence[Segment]:
    """Return the attempt's segments in the periods of waits.

    A loop may hold any number of segments: of a single window only both ends are looked at.
    """
    segments = part.attempt_segments.segments
    if len(part.owned.windows) > 1:
        return [segment for segment in segments if segment.period in PARTS]
    before = [*takewhile(_waits, segments)]
    if len(before) == len(segments):
        return before
    return before + [*takewhile(_waits, reversed(segments))][::-1]


def _waits(segment: Segment) -> bool:
    return segment.period in PARTS


def _joined(waits: Iterable[OwnedWait]) -> Iterator[OwnedWait]:
    """Join neighbours of one owner; those of no length vanish."""
    last: OwnedWait | None = None
    for wait in waits:
        if last is not None and last.end_at == wait.start_at and last[2:] == wait[2:]:
            last = last._replace(end_at=wait.end_at)
            continue
        if last is not None:
            yield last
        last = wait if wait.us else last
    if last is not None:
        yield last
