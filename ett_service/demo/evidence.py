"""What failures leave behind: exit codes, signals, messages and the scheduler's words.

The cause is never spelled out; the rules of :mod:`ett_service.core.failure_rules` find it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ett_service.core.vocabulary import Cause

Members = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Failure:
    """A root cause: what the rules make of it, and what an ending of it may say."""

    cause: Cause
    leaves: tuple[Members, ...]
    takes_node: bool = True  #: whether the job has to be scheduled anew, elsewhere
    hangs: bool = False  #: nobody notices for a while


def _xid(number: int, said: str) -> Members:
    return {
        "exit_code": 1,
        "exception": "torch.AcceleratorError",
        "message": f"NVRM: Xid (PCI:0000:9d:00): {number}, {said}",
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
