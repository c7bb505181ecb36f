"""The failure taxonomy: ordered rules from evidence to origin and cause.

Of one event the first rule that matches speaks. Between events the stronger rule wins, then the
earlier instant: what follows from another rank's death never outranks what began it.

The numbers of NVIDIA's driver errors (Xid) are as its public catalogue explains them; what stands
in neither table is a fault of the GPU, its links or its driver.
"""

from collections.abc import Iterable, Mapping

from ett_service.core.failures.echoes import ECHOES, TEARDOWNS, WITNESSED
from ett_service.core.failures.rule import Rule
from ett_service.core.words import Cause, Origin

XIDS: Mapping[Cause, Mapping[int, str]] = {
    Cause.GPU_MEMORY: {
        48: "double-bit ECC error",
        63: "row remapping or page retirement recorded",
        64: "row remapping or page retirement failed",
        92: "many single-bit ECC errors",
        94: "contained ECC error",
        95: "uncontained ECC error",
        140: "unrecovered ECC error",
        160: "memory channel retired",
        161: "memory channel not retired",
        171: "uncorrectable error in DRAM",
        172: "uncorrectable error in SRAM",
    },
    Cause.USER_CODE: {
        13: "exception of a kernel",
        31: "access to an address without a page",
        43: "channel stopped by an error of the program",
        69: "wrong class or method in a channel",
        137: "access without privilege over NVLink",
    },
}
"""Numbers that do not name the GPU itself."""

FOLLOWING_XIDS: Mapping[int, str] = {
    45: "channels removed after another error",
    154: "recovery that another error calls for",
}
"""Numbers that say nothing about what came first."""

_XID = r"\bXid\b(?: error)?(?: \([^)]{0,40}\))?:? "
_PACKAGES = "numpy|scipy|pandas|torch|jax|tensorflow|transformers"


def _any_of(numbers: Iterable[int]) -> str:
    return rf"({'|'.join(map(str, numbers))})\b"


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
    Rule("node_disk_pressure", "text", Cause.STORAGE, (r"\bDiskPressure\b",)),
    Rule("node_memory_pressure", "text", Cause.OOM, (r"\bMemoryPressure\b",)),
    Rule(
        "kubernetes_node",
        "state",
        Cause.HOST,
        (
            "^(Evicted|Node(Lost|Shutdown|NotReady|Failures)|TerminationByKubelet)$",
            "^DeletionBy(TaintManager|PodGC)$",
        ),
    ),
    Rule(
        "kubernetes_image",
        "state",
        Cause.DEPENDENCY,
        (r"^(ErrImagePull|ImagePullBackOff|CreateContainer\w*Error)$",),
    ),
    Rule(
        "step_time_limit",
        "text",
        Cause.SCHEDULER_TIMEOUT,
        (
            r"\bDUE TO TIME LIMIT\b",
            r"\bwalltime \d{1,12} exceeded limit\b",
            r"\b(exceeded|reached|due to) (its |the )?wall ?(time|clock) limit\b",
        ),
    ),
    Rule("step_preempted", "text", Cause.PREEMPTION, (r"\bDUE TO PREEMPTION\b",)),
    Rule(
        "preemption_notice",
        "text",
        Cause.PREEMPTION,
        (
            "Preempted to accommodate",
            r"\bspot (instance )?interruption (payload|notice|warning) received",
            r"\binstance (is going to|will) be (interrupted|preempted|reclaimed)",
        ),
    ),
    Rule(
        "step_node_failure",
        "text",
        Cause.HOST,
        (
            r"\bDUE TO NODE FAIL",
            r"\b(Node|Prolog) failure on ",
            r"\blaunch failed requeued\b",
        ),
    ),
)

_GPU = (
    Rule("xid_memory", "text", Cause.GPU_MEMORY, (_XID + _any_of(XIDS[Cause.GPU_MEMORY]),)),
    Rule("xid_application", "text", Cause.USER_CODE, (_XID + _any_of(XIDS[Cause.USER_CODE]),)),
    Rule(
        "xid_hardware", "text", Cause.GPU_HARDWARE, (_XID + rf"(?!{_any_of(FOLLOWING_XIDS)})\d+\b",)
    ),
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
            "fallen off the bus",
            r"\bGPU is lost\b",
            "Unable to determine the device handle for GPU",
            r"\bRmInitAdapter failed|\brm_init_adapter failed",
            r"\bGSP Timeout\b",
            "no CUDA-capable device",
            "No devices were found",
            r"CUDA-capable device\(s\) is/are busy",
            "uncorrectable NVLink error",
            r"\buncorrectable hardware error\b",
            "CUDA error: hardware stack error",
        ),
    ),
    Rule(
        "gpu_out_of_memory",
        "text",
        Cause.OOM,
        (
            "(CUDA|HIP) out of memory",
            r"\bOutOfMemoryError\b",
            r"\b(CUBLAS|CUDNN)_STATUS_ALLOC_FAILED",
            "CUDA error: out of memory",
            "RESOURCE[_ ]EXHAUSTED: (Out of memory|Attempting to allocate)",
            "HSA_STATUS_ERROR_OUT_OF_RESOURCES",
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
            "HSA_STATUS_ERROR_EXCEPTION",
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
            "DefaultCPUAllocator: not enough memory",
            "killed due to memory pressure",
            r"\btasks? [\d,-]{1,80}: Out Of Memory",
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
            "Unable to contact slurm controller",
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
            "after transport endpoint shutdown",
            r"(?-i:\bSlowDown\b)",
            r"\b503:? Slow Down\b",
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
            r"\bundefined symbol\b",
            "error while loading shared libraries",
            "Could not load dynamic library",
            "cannot open shared object file",
            r"version `\S{1,40}' not found",
        ),
    ),
    Rule(
        "version_mismatch",
        "text",
        Cause.DEPENDENCY,
        (
            "driver version is insufficient",
            "no kernel image is available",
            "system not yet initialized",
            rf"module '({_PACKAGES})(\.[\w.]{{1,80}})?' has no attribute",
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
            r"Can't load (tokenizer|image processor|the configuration|the model) (of|for) '",
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
            "PytorchStreamReader failed",
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
    Rule(
        "native_crash_text",
        "text",
        Cause.USER_CODE,
        (
            r"\bSegmentation fault\b",
            r"\bSignals?[ .](\d{1,2} \()?SIG(SEGV|ILL|FPE)\b",
            r"\b(exit ?code|return code) {0,8}[:=] {0,8}-(4|8|11)\b",
        ),
    ),
    Rule("native_crash", "signal", Cause.USER_CODE, ("^(4|8|11)$",)),
)

RULES = (*_SCHEDULER, *_GPU, *_HOST, *_PROGRAM, *WITNESSED, *ECHOES, *TEARDOWNS)
"""The table, in the order in which the rules are tried."""
