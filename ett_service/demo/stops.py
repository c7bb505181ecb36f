"""What ends an attempt, the evidence it leaves, and what comes after."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from ett_service.core.words import Cause, Outcome
from ett_service.demo.calendar import DAY, HOUR, MINUTE, Almanac, Draws
from ett_service.demo.fleet import (
    CLUSTERS,
    LLAMA3_INFRA_SHARE,
    LLAMA3_UNEXPECTED,
    OUT_CLUSTER,
    PREEMPTIBLE_AFTER_HOURS,
)
from ett_service.demo.training import Job

Members = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Failure:
    """A root cause: what the rules make of it, and what an ending of it may say."""

    cause: Cause
    leaves: tuple[Members, ...]
    takes_node: bool = True  #: whether the job has to be scheduled anew, elsewhere
    hangs: bool = False  #: nobody notices for a while


def _xid(number: int, text: str) -> Members:
    return {
        "exit_code": 1,
        "exception": "torch.AcceleratorError",
        "message": f"NVRM: Xid (PCI:0000:9d:00): {number}, {text}",
    }


def _died(message: str, **members: object) -> Members:
    return {"exit_code": 134, "signal": 6, "message": message, **members}


OF_MACHINES: Mapping[str, Failure] = {
    "faulty_gpu": Failure(
        Cause.GPU_HARDWARE,
        (
            _xid(79, "GPU has fallen off the bus."),
            _xid(74, "NVLink: fatal error detected on link 3"),
            _died("CUDA error: uncorrectable NVLink error detected during the execution"),
            {"exit_code": 1, "message": "Unable to determine the device handle: GPU is lost"},
        ),
    ),
    "gpu_hbm3_memory": Failure(
        Cause.GPU_MEMORY,
        (
            _xid(95, "Uncontained ECC error"),
            _xid(63, "Row remapping event: remap pending"),
            _died("CUDA error: uncorrectable ECC error encountered"),
        ),
    ),
    "software_bug": Failure(
        Cause.USER_CODE,
        (
            {"exit_code": 1, "exception": "ValueError", "message": "shard 17 has no tensor wq"},
            {"exit_code": 1, "exception": "AssertionError", "message": "grad norm buckets differ"},
            {"exit_code": 139, "signal": 11, "message": "Segmentation fault"},
        ),
        takes_node=False,
    ),
    "network_switch_cable": Failure(
        Cause.NETWORK,
        (
            _died("mlx5_4: port error event, link is down"),
            _died("NET/IB : Got completion with error 12, opcode 0, vendor err 129"),
        ),
    ),
    "host_maintenance": Failure(Cause.HOST, ({"scheduler_state": "NODE_FAIL"},)),
    "gpu_sram_memory": Failure(Cause.GPU_MEMORY, (_xid(94, "Contained SRAM error in L2"),)),
    "gpu_system_processor": Failure(Cause.GPU_HARDWARE, (_xid(119, "Timeout waiting for GSP"),)),
    "nic": Failure(Cause.NETWORK, (_died("NIC rdma2 reset after a firmware failure"),)),
    "nccl_watchdog": Failure(
        Cause.COLLECTIVE_TIMEOUT,
        (
            _died(
                "Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, "
                "Timeout(ms)=600000) ran for 600031 milliseconds before timing out."
            ),
        ),
        takes_node=False,
        hangs=True,
    ),
    "silent_data_corruption": Failure(
        Cause.SILENT_CORRUPTION,
        ({"exit_code": 1, "message": "parameters differ across replicas 3 and 11"},),
    ),
    "gpu_thermal": Failure(Cause.GPU_HARDWARE, (_xid(62, "Internal micro-controller halt"),)),
    "ssd": Failure(
        Cause.STORAGE,
        ({"exit_code": 1, "exception": "OSError", "message": "[Errno 5] Input/output error"},),
    ),
    "power_supply": Failure(
        Cause.HOST, ({"scheduler_state": "NODE_FAIL", "message": "power supply failure, PSU 2"},)
    ),
    "server_chassis": Failure(Cause.HOST, ({"scheduler_state": "NODE_FAIL"},)),
    "io_expansion_board": Failure(
        Cause.HOST, (_died("[Hardware Error]: PCIe bus fatal, type: Transaction Layer"),)
    ),
    "dependency": Failure(
        Cause.DEPENDENCY,
        (
            {
                "exit_code": 1,
                "exception": "ImportError",
                "message": "libcudnn_graph.so.9: cannot open shared object file",
            },
        ),
        takes_node=False,
    ),
    "cpu": Failure(
        Cause.HOST, (_died("[Hardware Error]: Machine check: Processor context corrupt"),)
    ),
    "system_memory": Failure(Cause.HOST, (_died("kernel panic - not syncing: EDAC MC1: UE"),)),
}
"""By the names of the published table."""

OF_USERS: Mapping[str, Failure] = {
    "out_of_memory": Failure(
        Cause.OOM,
        (
            {
                "exit_code": 1,
                "exception": "torch.OutOfMemoryError",
                "message": "CUDA out of memory. Tried to allocate 2.50 GiB.",
            },
            {"exit_code": 137, "signal": 9, "scheduler_state": "OUT_OF_MEMORY"},
        ),
    ),
    "wrong_code": Failure(
        Cause.USER_CODE,
        (
            {"exit_code": 1, "exception": "KeyError", "message": "'optimizer.lr_scale'"},
            {"exit_code": 1, "exception": "TypeError", "message": "forward() got 3 arguments"},
            {"exit_code": 1, "exception": "RuntimeError", "message": "loss is nan at step 1204"},
        ),
    ),
    "bad_data": Failure(
        Cause.DATA,
        (
            {
                "exit_code": 1,
                "exception": "RuntimeError",
                "message": "Caught UnicodeDecodeError in DataLoader worker process 5.",
            },
        ),
    ),
    "full_quota": Failure(
        Cause.STORAGE,
        ({"exit_code": 1, "exception": "OSError", "message": "[Errno 122] Disk quota exceeded"},),
    ),
}
USERS_WEIGHTS = (30.0, 50.0, 15.0, 5.0)

OUTAGE = Failure(
    Cause.STORAGE, (_died("OSError: [Errno 107] Transport endpoint is not connected"),)
)
TIME_LIMIT = Failure(Cause.SCHEDULER_TIMEOUT, ({"scheduler_state": "TIMEOUT", "signal": 15},))
LOST = Failure(Cause.LOST_CONTACT, ())


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
