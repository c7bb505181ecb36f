"""What ends an attempt before its work is done, and what comes after."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from ett_service.core.vocabulary import Cause, Outcome
from ett_service.demo.almanac import Almanac
from ett_service.demo.draws import Draws
from ett_service.demo.evidence import (
    LOST,
    OF_MACHINES,
    OF_USERS,
    OUTAGE,
    TIME_LIMIT,
    USERS_WEIGHTS,
    Failure,
)
from ett_service.demo.fleet import CLUSTERS
from ett_service.demo.planted import OUT_CLUSTER
from ett_service.demo.published import (
    LLAMA3_INFRA_SHARE,
    LLAMA3_UNEXPECTED,
    PREEMPTIBLE_AFTER_HOURS,
)
from ett_service.demo.units import DAY, HOUR, MINUTE
from ett_service.demo.work import Job

_USERS_FAIL = {"eval": 0.15, "finetune": 0.2, "ablation": 0.24, "retrain": 0.12, "pretrain": 0.0}
_GIVES_WAY = 0.4  #: to one that goes first
_CANCELLED = 0.02
_LOST = 0.03
_IN_PLACE = 0.7  #: of what leaves the nodes whole
_LIMIT_US = {"pretrain": 7 * DAY}
_SHORT_LIMIT_US = 24 * HOUR


class Then(Enum):
    """What becomes of the job."""

    CYCLE = auto()  #: the launcher starts its processes anew, where they were
    REQUEUE = auto()  #: the scheduler starts it anew
    RESUBMIT = auto()  #: it is submitted anew
    OVER = auto()


@dataclass(frozen=True, slots=True)
class Stop:
    """When and how an attempt ends; *outcome* is None where nobody says so."""

    at: int
    then: Then
    outcome: Outcome | None = Outcome.FAILED
    members: Mapping[str, object] = field(default_factory=dict)
    cause: Cause | None = None  #: None where it is no failure
    row: str | None = None  #: of the published table
    hangs: bool = False


@dataclass(frozen=True, slots=True)
class Taking:
    """A job that goes first takes accelerators at an instant."""

    at: int
    job: str


def next_stop(
    draws: Draws, almanac: Almanac, takings: Sequence[Taking], job: Job, at: int, tries: int
) -> Stop:
    """Return the first of all that may stop an attempt that begins at an instant.

    *takings* are those of its cluster in order of time; *tries* counts earlier failures of the
    same job for which its user was to blame.
    """
    stops = [_broken(draws, job, at), _timed_out(job, at), *_closed(draws, almanac, job, at)]
    if draws.chance(_USERS_FAIL[job.kind] * 0.4**tries):
        stops.append(_blundered(draws, at))
    if job.kind != "pretrain" and draws.chance(_CANCELLED):
        stops.append(_cancelled(draws, at))
    if not job.is_urgent:
        stops += _given_way(draws, takings, at)
    return min(stops, key=lambda stop: stop.at)


def _broken(draws: Draws, job: Job, at: int) -> Stop:
    """Return the next unexpected interruption, at the cluster's rate, by the published causes."""
    between = CLUSTERS[job.model.cluster].between_failures_us(job.gpus)
    at += draws.wait(between * LLAMA3_INFRA_SHARE * (1 - _LOST))  # those lost have no known origin
    row = draws.pick(list(LLAMA3_UNEXPECTED), list(LLAMA3_UNEXPECTED.values()))
    failure = OF_MACHINES[row]
    members = draws.pick(failure.leaves)
    is_lost, in_place = draws.chance(_LOST), draws.chance(_IN_PLACE)
    if failure.takes_node and is_lost:
        return Stop(at, Then.REQUEUE, None, cause=LOST.cause)
    then = Then.CYCLE if in_place and not failure.takes_node else Then.REQUEUE
    return _failed(failure, members, at, then, row)


def _timed_out(job: Job, at: int) -> Stop:
    at += _LIMIT_US.get(job.kind, _SHORT_LIMIT_US)
    return _failed(TIME_LIMIT, TIME_LIMIT.leaves[0], at, Then.RESUBMIT)


def _closed(draws: Draws, almanac: Almanac, job: Job, at: int) -> list[Stop]:
    """Return the outage and the maintenance that lie ahead."""
    stops = [
        Stop(window.from_us, Then.REQUEUE, Outcome.CANCELLED, {"reason": "maintenance"})
        for window in almanac.maintenance[job.model.cluster]
        if window.from_us > at
    ]
    late = almanac.outage.from_us + draws.about(MINUTE, 0.5)
    if job.model.cluster == OUT_CLUSTER and late > at:
        stops.append(_failed(OUTAGE, OUTAGE.leaves[0], late, Then.REQUEUE))
    return stops


def _blundered(draws: Draws, at: int) -> Stop:
    failure = draws.pick(list(OF_USERS.values()), USERS_WEIGHTS)
    then = Then.RESUBMIT if draws.chance(0.75) else Then.OVER
    return _failed(failure, draws.pick(failure.leaves), at + draws.about(12 * MINUTE, 0.9), then)


def _cancelled(draws: Draws, at: int) -> Stop:
    return Stop(at + draws.wait(3 * HOUR), Then.OVER, Outcome.CANCELLED, {"reason": "by its user"})


def _given_way(draws: Draws, takings: Sequence[Taking], at: int) -> list[Stop]:
    since, until = at + PREEMPTIBLE_AFTER_HOURS * HOUR, at + _SHORT_LIMIT_US
    spared = draws.misses(_GIVES_WAY)  # one draw, however many takings are known
    ahead = [taking for taking in takings if since <= taking.at < until]
    return [
        Stop(
            taking.at,
            Then.REQUEUE,
            Outcome.PREEMPTED,
            {"scheduler_state": "PREEMPTED", "preempted_by": taking.job},
            Cause.PREEMPTION,
        )
        for taking in ahead[spared : spared + 1]
    ]


def _failed(
    failure: Failure, members: Mapping[str, object], at: int, then: Then, row: str | None = None
) -> Stop:
    return Stop(at, then, Outcome.FAILED, members, failure.cause, row, failure.hangs)
