"""The failure taxonomy: ordered rules from evidence to origin and cause.

Of one event the first rule that matches speaks. Between events the stronger rule wins, then the
earlier instant: what follows from another rank's death never outranks what began it.
"""

from ett_service.core.ledger.failure_echoes import ECHOES, TEARDOWNS
from ett_service.core.ledger.failure_rule import Rule
from ett_service.core.words import Cause, Origin

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

RULES = (*_SCHEDULER, *_GPU, *_HOST, *_PROGRAM, *ECHOES, *TEARDOWNS)
"""The table, in the order in which the rules are tried."""
