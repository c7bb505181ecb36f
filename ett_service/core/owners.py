"""Whose wait it is: every second before the first step, and of every recovery, has one owner.

``OWNERS`` is the one list that says so, by what the second was owned by and the stage that was
open inside it. Stages are compared in lower case, with ``_`` for ``-`` and blanks.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

from ett_service.core.intervals import LARGEST_STORED, Interval
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


class Wait(NamedTuple):
    """An interval ``[start_at, end_at)`` between attempts, and whose accelerators it counts for."""

    start_at: int
    end_at: int
    period: Period
    number: int  #: of the attempt that ended last before it
    held: bool  #: whether its accelerators were held


class OwnedWait(NamedTuple):
    """An interval ``[start_at, end_at)`` of one owner."""

    start_at: int
    end_at: int
    part: WaitPart
    number: int | None  #: the attempt that it counts for; None in the queue
    owner: Owner

    @property
    def us(self) -> int:
        """Its length in microseconds."""
        return self.end_at - self.start_at


class WaitShare(NamedTuple):
    """What a job waited for an owner. Those of a part add up to it."""

    part: WaitPart
    owner: Owner
    us: int
    weighted_us: int | None  #: times accelerators; None in the queue, and while they are unknown


def waits_inside(span: Interval, waits: Sequence[OwnedWait]) -> Sequence[OwnedWait]:
    """Return the waits that begin inside the *span*; *waits* are in order."""
    return waits[bisect_left(waits, (span[0],)) : bisect_left(waits, (span[1],))]


def by_owner(waits: Iterable[OwnedWait]) -> Mapping[Owner, int]:
    """Return the microseconds of *waits* by owner, in their order; one without any is absent."""
    sums: dict[Owner, int] = {}
    for start, end, _, _, owner in waits:
        sums[owner] = sums.get(owner, 0) + end - start
    return {owner: sums[owner] for owner in Owner if owner in sums}


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
