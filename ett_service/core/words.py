"""The closed lists of words that events, ledgers and answers are written in, and label values."""

import re
from collections.abc import Mapping
from enum import StrEnum, auto


class Word(StrEnum):
    """A word of a closed list."""

    # Sums are keyed by words, and the hash of an ``Enum`` is a call of a Python function.
    __hash__ = str.__hash__


class Phase(Word):
    """What an attempt is doing; the order decides between phases that began together."""

    QUEUED = auto()  #: waiting while no resources are available
    SCHEDULING = auto()
    HARDWARE_SETUP = auto()
    LAUNCHER_INIT = auto()
    TRAIN_LOOP = auto()
    PT2_COMPILE = auto()
    CHECKPOINT_BLOCKING = auto()
    EVALUATION = auto()
    STALLED = auto()  #: blocked inside the loop: data starvation or a hang
    SHUTDOWN = auto()


STATIONS = (
    Phase.QUEUED,
    Phase.SCHEDULING,
    Phase.HARDWARE_SETUP,
    Phase.LAUNCHER_INIT,
    Phase.TRAIN_LOOP,
    Phase.SHUTDOWN,
)
"""The phases of an attempt's life, in the order in which they come."""

ACTIVITIES = (Phase.PT2_COMPILE, Phase.CHECKPOINT_BLOCKING, Phase.EVALUATION, Phase.STALLED)
"""The phases that live inside stations."""

KNOWN_STAGES: dict[Phase, tuple[str, ...]] = {
    Phase.LAUNCHER_INIT: (
        "stop_workers",
        "rendezvous",
        "start_workers",
        "interpreter",
        "imports",
        "device_init",
        "process_group_init",
        "preproc_creation",
        "train_module_creation",
        "init_plugins",
        "pre_train",
        "checkpoint_restore",
        "get_first_batch_data",
    ),
    Phase.PT2_COMPILE: (
        "dynamo",
        "aot_dispatch",
        "inductor",
        "async_compile_wait",
        "autotune",
        "cache_load",
    ),
    Phase.CHECKPOINT_BLOCKING: ("staging", "save"),
    Phase.SHUTDOWN: ("final_checkpoint", "model_publish", "teardown", "process_exit"),
}
"""Named parts of a phase (L3). Users may send others."""


class Category(Word):
    """What a second was spent on (L2). Only ``EFFECTIVE_TRAINING`` is effective."""

    SCHEDULING = auto()
    HARDWARE_SETUP = auto()
    LAUNCHER_INIT = auto()
    PT2_COMPILE = auto()
    EFFECTIVE_TRAINING = auto()  #: loop time that consumed new data
    REPEATED_TRAINING = auto()  #: loop time that consumed data the job had consumed before
    CHECKPOINT_BLOCKING = auto()
    RECOMPILE = auto()
    EVALUATION = auto()
    STALLED = auto()  #: reported stalls and silent tails
    SHUTDOWN = auto()
    RESTART_WAIT = auto()  #: between attempts, and queued after the job's first instant
    UNATTRIBUTED = auto()  #: inside an attempt, covered by no span


WASTED = frozenset(
    {
        Category.REPEATED_TRAINING,
        Category.CHECKPOINT_BLOCKING,
        Category.RECOMPILE,
        Category.EVALUATION,
        Category.STALLED,
    }
)
"""Categories that count as wasted inside the period ``training``."""

BEFORE_THE_LOOP = (
    Category.SCHEDULING,
    Category.HARDWARE_SETUP,
    Category.LAUNCHER_INIT,
    Category.PT2_COMPILE,
)
"""What an attempt passes through before its training loop, in this order."""

TIMED = (*BEFORE_THE_LOOP, Category.SHUTDOWN)
"""The phases whose durations are counted, one an attempt, once the attempt has left them."""

_PHASE_OF: Mapping[str, Phase] = {
    Category.EFFECTIVE_TRAINING: Phase.TRAIN_LOOP,
    Category.REPEATED_TRAINING: Phase.TRAIN_LOOP,
    Category.RECOMPILE: Phase.PT2_COMPILE,
}

CATEGORIES_OF: Mapping[Phase, tuple[Category, ...]] = {
    phase: tuple(category for category in Category if _PHASE_OF.get(category, category) == phase)
    for phase in Phase
}
"""The categories that a phase's own time falls in: mostly the one of its name."""


class Period(Word):
    """Where in the job's life a second lies (L1)."""

    SCHEDULING = auto()
    STARTING = auto()
    TRAINING = auto()
    RECOVERING = auto()
    ENDING = auto()


CATEGORY_BY_NAME: Mapping[str, Category] = {category.value: category for category in Category}
PERIOD_BY_NAME: Mapping[str, Period] = {period.value: period for period in Period}
"""To call the class takes many times as long, and a job has thousands of segments."""


class WaitPart(Word):
    """Where a job waits: before its first instant, and in the periods that hold no loop."""

    QUEUE = auto()  #: queued before the first instant; no part of E2E
    SCHEDULING = auto()
    STARTING = auto()
    RECOVERING = auto()


class Owner(Word):
    """Whose wait a second is before the first step, and of a recovery."""

    QUOTA = auto()  #: a limit on what the team may use
    SCHEDULER = auto()
    IMAGE = auto()
    NODE = auto()
    NETWORK = auto()
    FRAMEWORK = auto()  #: launcher, trainer and compiler
    USER = auto()  #: the job's own code and orders


class Outcome(Word):
    """How an attempt or a job ended, or that it has not."""

    COMPLETED = auto()
    FAILED = auto()
    PREEMPTED = auto()
    CANCELLED = auto()
    LOST = auto()  #: nothing more was heard; never sent, always inferred
    RUNNING = auto()  #: has not ended; never sent


SLURM_OUTCOMES: Mapping[str, Outcome] = {
    "COMPLETED": Outcome.COMPLETED,
    "PREEMPTED": Outcome.PREEMPTED,
    "CANCELLED": Outcome.CANCELLED,
    "REVOKED": Outcome.CANCELLED,
    "REQUEUED": Outcome.CANCELLED,  # by hand: what Slurm requeues itself has the state of its end
    "REQUEUE_HOLD": Outcome.CANCELLED,
    "SPECIAL_EXIT": Outcome.CANCELLED,
    "FAILED": Outcome.FAILED,
    "BOOT_FAIL": Outcome.FAILED,
    "DEADLINE": Outcome.FAILED,
    "LAUNCH_FAILED": Outcome.FAILED,
    "NODE_FAIL": Outcome.FAILED,
    "OUT_OF_MEMORY": Outcome.FAILED,
    "RECONFIG_FAIL": Outcome.FAILED,
    "TIMEOUT": Outcome.FAILED,
}
"""By the first word of Slurm's state of a job; another one, as ``RUNNING``, ends nothing."""

FAILURES = frozenset({Outcome.FAILED, Outcome.PREEMPTED, Outcome.LOST})
"""Outcomes that count as failures."""


class JobState(Word):
    """What the job as a whole is doing."""

    QUEUED = auto()
    RUNNING = auto()
    INTERRUPTED = auto()  #: the last attempt failed and no further one began
    FINISHED = auto()


class Origin(Word):
    """Who a failure belongs to."""

    INFRA = auto()
    USER = auto()
    PREEMPTION = auto()
    UNKNOWN = auto()


INFRA_ORIGINS = frozenset({Origin.INFRA, Origin.PREEMPTION})
"""Origins of a failure that counts as an infra failure."""


class Cause(Word):
    """What broke."""

    GPU_HARDWARE = auto()
    GPU_MEMORY = auto()
    HOST = auto()
    NETWORK = auto()
    STORAGE = auto()
    COLLECTIVE_TIMEOUT = auto()
    OOM = auto()
    SCHEDULER_TIMEOUT = auto()
    PREEMPTION = auto()
    DATA = auto()
    USER_CODE = auto()
    DEPENDENCY = auto()
    SILENT_CORRUPTION = auto()
    LOST_CONTACT = auto()
    UNKNOWN = auto()


ORIGIN_OF_CAUSE: dict[Cause, Origin] = {
    Cause.GPU_HARDWARE: Origin.INFRA,
    Cause.GPU_MEMORY: Origin.INFRA,
    Cause.HOST: Origin.INFRA,
    Cause.NETWORK: Origin.INFRA,
    Cause.STORAGE: Origin.INFRA,
    Cause.COLLECTIVE_TIMEOUT: Origin.INFRA,
    Cause.DEPENDENCY: Origin.INFRA,
    Cause.SILENT_CORRUPTION: Origin.INFRA,
    Cause.OOM: Origin.USER,
    Cause.DATA: Origin.USER,
    Cause.USER_CODE: Origin.USER,
    Cause.SCHEDULER_TIMEOUT: Origin.USER,
    Cause.PREEMPTION: Origin.PREEMPTION,
    Cause.LOST_CONTACT: Origin.UNKNOWN,
    Cause.UNKNOWN: Origin.UNKNOWN,
}
"""The origin of a cause where no better evidence names one."""


class HookState(Word):
    """Whether a hook into PyTorch or a framework is in place; a later one prevails."""

    WAITING = auto()  #: nothing has imported yet what it is put into
    OK = auto()
    MISSING = auto()  #: this version has no such place
    ERROR = auto()


BROKEN_HOOKS = frozenset({HookState.MISSING, HookState.ERROR})
"""States of a hook whose data is missing."""


class Basis(Word):
    """What repeated training of an attempt was derived from."""

    STEPS = auto()
    CHECKPOINTS = auto()
    NONE = auto()


UNKNOWN = "unknown"
OTHER = "other"

_LONGEST = 128
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\ud800-\udfff]")
