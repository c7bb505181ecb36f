"""Rules for who was seen to die first, what follows from another's end, and what clears up."""

from ett_service.core.failures.rule import Rule, Strength
from ett_service.core.words import Cause, Origin

WITNESSED = (
    Rule(
        "killed_first",
        "text",
        Cause.UNKNOWN,
        ("killed from outside, the first of its node to die",),
        Strength.WITNESSED,
    ),
)

_ECHO = Strength.CONSEQUENCE
ECHOES = (
    Rule(
        "fabric_error",
        "text",
        Cause.NETWORK,
        (
            r"NET/(IB|Socket|OFI)\b.{0,120}(error|fail|completion|timeout)",
            "wc->status == IBV_WC_SUCCESS",
            r"ibv_\w{1,40} (failed|error|with error)",
            r"Call to ibv_\w{1,40} failed",
            "transport retry counter exceeded",
        ),
        _ECHO,
    ),
    Rule(
        "collective_timeout",
        "text",
        Cause.COLLECTIVE_TIMEOUT,
        (
            "watchdog (caught|timeout|got stuck)",
            "collective operation timeout",
            r"Timeout\(ms\)=",
            r"\bncclTimeout\b",
            r"Timed out waiting \d{1,9}ms for",
            "heartbeat monitor timed out",
            r"timed out in (all|reduce|broadcast|barrier|monitored)\w*",
            "failed to pass monitoredBarrier",
            "DEADLINE_EXCEEDED: Barrier timed out",
        ),
        _ECHO,
    ),
    Rule(
        "peer_gone",
        "text",
        Cause.UNKNOWN,
        (
            "remote process exited or there was a network error",
            r"\bncclRemoteError\b",
            "Connection (reset|closed) by (remote )?peer",
            "Broken pipe",
            r"\b(BrokenPipeError|ConnectionResetError)\b",
            "server has shut down too early",
            "recvValue failed",
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
            "Socket Timeout",
            "failed to connect to",
            r"timed out after \d{1,9}s while trying to connect",
            r"Connection\w{0,40}Error\b",
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
        "gpu_library_failed",
        "text",
        Cause.UNKNOWN,
        (r"\b(CUDNN|CUBLAS)_STATUS_(EXECUTION_FAILED|INTERNAL_ERROR)\b",),
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
TEARDOWNS = (
    Rule("slurm_cancelled", "state", Cause.UNKNOWN, ("^CANCELLED",), _END, origin=Origin.USER),
    Rule("interrupted", "signal", Cause.UNKNOWN, ("^2$",), _END, origin=Origin.USER),
    Rule("terminated", "signal", Cause.UNKNOWN, ("^(1|15)$",), _END),
)
