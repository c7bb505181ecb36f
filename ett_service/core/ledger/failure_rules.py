"""The failure taxonomy: ordered rules from evidence to origin and cause.

Of one event the first rule that matches speaks. Between events the stronger rule wins, then the
earlier instant: what follows from another rank's death never outranks what began it.
"""

import re
from dataclasses import dataclass, field
from enum import IntEnum, auto
from typing import Literal

from ett_service.core.words import Cause, Origin


class Strength(IntEnum):
    """How much a piece of evidence says about what came first."""

    INITIATING = auto()  #: names what broke
    CONSEQUENCE = auto()  #: may as well echo another rank's end, or says only that one ended
    TEARDOWN = auto()  #: the launcher or the scheduler clears away the rest


LooksAt = Literal["text", "state", "signal", "exit"]
"""``text`` is exception type and message; ``signal`` is read from exit codes, too."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Where one of the *patterns* is found in what the rule *looks_at*, *cause* broke."""

    name: str
    looks_at: LooksAt
    cause: Cause
    patterns: tuple[str, ...]  #: regular expressions; letter case does not matter
    strength: Strength = Strength.INITIATING
    origin: Origin | None = None  #: None: that of the cause
    regex: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the patterns into one, once."""
        object.__setattr__(self, "regex", re.compile("|".join(self.patterns), re.IGNORECASE))


_XID = r"\bXid\b(?: error)?(?: \([^)]{0,40}\))?:? "

_SCHEDULER = (
    Rule(
        "slurm_node_fail",
        "state",
        Cause.HOST,
        ("^(NODE_FAIL|BOOT_FAIL|RECONFIG_FAIL|LAUNCH_FAILED)",),
    ),
    Rule("slurm_out_of_memory", "state", Cause.OOM, ("^OUT_OF_ME",)),
    Rule("slurm_time_limit", "state", Cause.SCHEDULER_TIMEOUT, ("^(TIMEOUT|DEADLINE)",)),
    Rule("slurm_preempted", "state", Cause.PREEMPTION, ("^PREEMPT",)),
    Rule("kubernetes_oom_killed", "state", Cause.OOM, ("^OOMKilled$",)),
    Rule(
        "kubernetes_node",
        "state",
        Cause.HOST,
        ("^(Evicted|Node(Lost|Shutdown|NotReady)|TerminationByKubelet)$",),
    ),
    Rule(
        "kubernetes_image",
        "state",
        Cause.DEPENDENCY,
        (r"^(ErrImagePull|ImagePullBackOff|CreateContainer\w*Error)$",),
    ),
    Rule("step_time_limit", "text", Cause.SCHEDULER_TIMEOUT, (r"\bDUE TO TIME LIMIT\b",)),
    Rule("step_preempted", "text", Cause.PREEMPTION, (r"\bDUE TO PREEMPTION\b",)),
    Rule(
        "step_node_failure",
        "text",
        Cause.HOST,
        (
            r"\bDUE TO NODE FAIL",
            r"\bNode failure on ",
        ),
    ),
)

_GPU = (
    Rule("xid_memory", "text", Cause.GPU_MEMORY, (_XID + r"(48|6[34]|92|9[45]|140|160|17[12])\b",)),
    Rule("xid_application", "text", Cause.USER_CODE, (_XID + r"(13|31|43|69)\b",)),
    Rule("xid_hardware", "text", Cause.GPU_HARDWARE, (_XID + r"(?!45\b)\d+\b",)),
    Rule(
        "gpu_ecc",
        "text",
        Cause.GPU_MEMORY,
        (
            r"\b(uncorrectable|double.bit) ECC\b",
            r"\buncorrectable memory error\b",
            r"\brow.?remap\w* (failure|failed|pending)",
            r"\bHBM\d?e? (memory )?(error|failure)",
        ),
    ),
    Rule(
        "gpu_lost",
        "text",
        Cause.GPU_HARDWARE,
        (
            "GPU has fallen off the bus",
            r"\bGPU is lost\b",
            "no CUDA-capable device",
            r"CUDA-capable device\(s\) is/are busy",
            "system not yet initialized",
            "uncorrectable NVLink error",
            "CUDA error: hardware stack error",
            "HSA_STATUS_ERROR_EXCEPTION",
        ),
    ),
    Rule(
        "gpu_out_of_memory",
        "text",
        Cause.OOM,
        (
            "(CUDA|HIP) out of memory",
            r"\bOutOfMemoryError\b",
            "CUBLAS_STATUS_ALLOC_FAILED",
            "CUDA error: out of memory",
            "RESOURCE_EXHAUSTED: (Out of memory|Attempting to allocate)",
        ),
    ),
    Rule(
        "gpu_fault_of_kernel",
        "text",
        Cause.USER_CODE,
        (
            "an illegal memory access was encountered",
            "unspecified launch failure",
            "device-side assert",
            "misaligned address",
            "illegal instruction was encountered",
            "invalid device function",
            "Memory access fault by GPU",
        ),
    ),
)

_HOST = (
    Rule(
        "host_out_of_memory",
        "text",
        Cause.OOM,
        (
            "oom[-_ ]?kill",
            "Out of memory: Kill",
            "Cannot allocate memory",
            "can't allocate memory",
            "std::bad_alloc",
            r"\bMemoryError\b",
        ),
    ),
    Rule(
        "shared_memory_full",
        "text",
        Cause.OOM,
        (
            "insufficient shared memory",
            "out of shared memory",
        ),
    ),
    Rule(
        "host_fault",
        "text",
        Cause.HOST,
        (
            r"\bmachine check\b",
            r"(?-i:\bMCE\b).{0,80}error",
            r"\[Hardware Error\]",
            "kernel panic",
            "soft lockup",
            "thermal (shutdown|trip)",
            "power supply fail",
        ),
    ),
    Rule(
        "network_link",
        "text",
        Cause.NETWORK,
        (
            r"\blink (is )?down\b",
            r"\bport[ _]error",
            r"(?-i:\bNIC\b).{0,80}(fail|error|reset)",
            "mlx5_.{0,80}(fatal|health compromised|error)",
            "No route to host",
            "Network is unreachable",
        ),
    ),
    Rule(
        "disk_full",
        "text",
        Cause.STORAGE,
        (
            "No space left on device",
            r"\bENOSPC\b",
            r"\[Errno 28\]",
        ),
    ),
    Rule(
        "disk_quota",
        "text",
        Cause.STORAGE,
        (
            "Disk quota exceeded",
            r"\[Errno 122\]",
        ),
        origin=Origin.USER,
    ),
    Rule(
        "storage_fault",
        "text",
        Cause.STORAGE,
        (
            "Input/output error",
            r"\[Errno 5\]",
            "Stale (NFS )?file handle",
            "Read-only file system",
            "Remote I/O error",
            "Transport endpoint is not connected",
            "PytorchStreamWriter failed",
            r"nfs: server \S{1,80} not responding",
            r"\bLustre(Error)?: .{0,120}(error|evicted)",
        ),
    ),
)

_PROGRAM = (
    Rule(
        "silent_corruption",
        "text",
        Cause.SILENT_CORRUPTION,
        (
            "silent (data )?corruption",
            r"(?-i:\bSDC\b)",
            r"(weights|parameters|gradients) (differ|diverge|mismatch)\w* (across|between)",
        ),
    ),
    Rule(
        "not_a_number",
        "text",
        Cause.USER_CODE,
        (
            r"\bFloatingPointError\b",
            r"\b(loss|grad\w*( norm)?) (is|was|became|=) *(nan|inf)",
            r"found (nan|inf)\b",
            "(nan|inf) (in|detected in) (the )?(loss|grad)",
        ),
    ),
    Rule(
        "import_error",
        "text",
        Cause.DEPENDENCY,
        (
            r"\b(ModuleNotFoundError|ImportError)\b",
            "error while loading shared libraries",
            "cannot open shared object file",
            r"version `\S{1,40}' not found",
        ),
    ),
    Rule(
        "download_failed",
        "text",
        Cause.DEPENDENCY,
        (
            r"\b(HfHubHTTPError|LocalEntryNotFoundError)\b",
            "Could not resolve host",
            "Temporary failure in name resolution",
            "Max retries exceeded with url",
        ),
    ),
    Rule(
        "data_worker",
        "text",
        Cause.DATA,
        (
            "DataLoader worker.{0,80}(exited unexpectedly|is killed by signal|timed out)",
            r"Caught \w{1,60} in DataLoader worker",
        ),
    ),
    Rule(
        "bad_data",
        "text",
        Cause.DATA,
        (
            r"\b(UnpicklingError|UnidentifiedImageError|ArrowInvalid|BadZipFile|UnicodeDecodeError|JSONDecodeError)\b",
        ),
    ),
    Rule(
        "programming_error",
        "text",
        Cause.USER_CODE,
        (
            r"\b(TypeError|ValueError|KeyError|IndexError|AttributeError|NameError|UnboundLocalError|AssertionError|ZeroDivisionError|NotImplementedError|SyntaxError|RecursionError|FileNotFoundError|PermissionError|IsADirectoryError)\b",
        ),
    ),
    Rule("native_crash", "signal", Cause.USER_CODE, ("^(4|8|11)$",)),
)

_ECHO = Strength.CONSEQUENCE
_ECHOES = (
    Rule(
        "collective_timeout",
        "text",
        Cause.COLLECTIVE_TIMEOUT,
        (
            "watchdog (caught|thread terminated|timeout|got stuck)",
            "collective operation timeout",
            r"Timeout\(ms\)=",
            r"\bncclTimeout\b",
            r"Timed out waiting \d{1,9}ms for",
            "heartbeat monitor timed out",
            r"timed out in (all|reduce|broadcast|barrier|monitored)\w*",
        ),
        _ECHO,
    ),
    Rule(
        "fabric_error",
        "text",
        Cause.NETWORK,
        (
            r"\bncclRemoteError\b",
            "NET/(IB|Socket|OFI) ?: .{0,120}(error|fail|completion|timeout)",
            r"ibv_\w{1,40} (failed|error|with error)",
            r"Call to ibv_\w{1,40} failed",
            "transport retry counter exceeded",
        ),
        _ECHO,
    ),
    Rule(
        "collective_failed",
        "text",
        Cause.COLLECTIVE_TIMEOUT,
        (
            r"\b(DistBackendError|DistNetworkError|DistStoreError)\b",
            r"\bnccl(System|Internal|Unhandled\w*)Error\b",
            "unhandled (system|cuda|internal) error",
            "NCCL communicator was aborted",
            r"\bNCCL error\b",
        ),
        _ECHO,
    ),
    Rule(
        "connection_lost",
        "text",
        Cause.NETWORK,
        (
            "Connection (reset|closed|refused|timed out|aborted)",
            "Broken pipe",
            "Socket Timeout",
            "failed to connect to",
            "recvValue failed",
            r"\b(Connection\w*Error|BrokenPipeError)\b",
        ),
        _ECHO,
    ),
    Rule(
        "launcher_summary",
        "text",
        Cause.UNKNOWN,
        (
            r"\b(ChildFailedError|ProcessRaisedException|ProcessExitedException|SignalException|RendezvousClosedError|RendezvousTimeoutError)\b",
        ),
        _ECHO,
    ),
    Rule(
        "uncaught_exception",
        "text",
        Cause.USER_CODE,
        (r"^\s*[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt|Failure|Fault)\b",),
        _ECHO,
    ),
    Rule("aborted", "signal", Cause.USER_CODE, ("^6$",), _ECHO),
    Rule("killed", "signal", Cause.UNKNOWN, ("^9$",), _ECHO),
    Rule("exit_1", "exit", Cause.USER_CODE, ("^[12]$",), _ECHO),
    Rule("command_not_run", "exit", Cause.USER_CODE, ("^12[67]$",), _ECHO),
)

_END = Strength.TEARDOWN
_TEARDOWNS = (
    Rule("slurm_cancelled", "state", Cause.UNKNOWN, ("^CANCELLED",), _END, origin=Origin.USER),
    Rule("interrupted", "signal", Cause.UNKNOWN, ("^2$",), _END, origin=Origin.USER),
    Rule("terminated", "signal", Cause.UNKNOWN, ("^(1|15)$",), _END),
)

RULES = (*_SCHEDULER, *_GPU, *_HOST, *_PROGRAM, *_ECHOES, *_TEARDOWNS)
"""The table, in the order in which the rules are tried."""
