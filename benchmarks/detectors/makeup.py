"""What made-up fleets are made of: cohorts, phases, spreads, shocks, and where these come from.

Durations are seconds here. A spread is the standard deviation of the logarithm within a day, a
cohort and a stratum. It lies between what machines do alone and what fleets do: runs repeated in
one allocation spread by 0.004 to 0.19 in launcher initialisation and by 0.02 in hardware setup
(MLPerf Training results v4.1 to v5.1), while queueing spreads by 2.3 and 2.4 (mean over median of
the Kalos and Philly traces, by ``sqrt(2 ln(mean/median))``; Hu et al., NSDI 2024). No published
trace has phases, so the figures between are chosen, and so is everything else that names no source.
"""

from dataclasses import dataclass
from typing import Final

from ett_service.core.regressions.finding import Cohort, Metric, Subject
from ett_service.core.words import Phase

COHORTS: Final[tuple[Cohort, ...]] = tuple(
    (("cluster", cluster), ("model", model))
    for cluster, model in (
        ("alder", "llm-70b"),
        ("birch", "ranking"),
        ("cedar", "vision"),
        ("alder", "llm-8b"),
        ("birch", "speech"),
        ("alder", "moe-52b"),
    )
)
WEIGHTS: Final = (0.30, 0.22, 0.17, 0.14, 0.10, 0.07)
"""The part of the jobs that each cohort starts; the smallest has 4 of 60 attempts a day."""

CLUSTER_OF: Final = (0, 1, 2, 0, 1, 0)
CLUSTERS: Final = ("alder", "birch", "cedar")


@dataclass(frozen=True, slots=True)
class Made:
    """How long one phase takes."""

    subject: Subject
    median_s: float
    spread: float
    by_size: float  #: added to the logarithm for each doubling of the accelerators
    restart: float  #: added to the logarithm where the attempt is a restart


def _phase(phase: Phase) -> Subject:
    return Subject(Metric.PHASE_SECONDS, phase=phase.value)


PHASES: Final = (
    Made(_phase(Phase.SCHEDULING), 30.0, 0.50, 0.06, 0.1),
    Made(_phase(Phase.HARDWARE_SETUP), 90.0, 0.35, 0.03, -0.2),
    Made(_phase(Phase.LAUNCHER_INIT), 240.0, 0.25, 0.04, 0.25),
    Made(_phase(Phase.PT2_COMPILE), 420.0, 0.25, 0.02, 0.0),
    Made(_phase(Phase.SHUTDOWN), 60.0, 0.35, 0.03, 0.0),
    Made(Subject(Metric.CHECKPOINT_BLOCKING_SECONDS), 15.0, 0.30, 0.05, 0.0),
)
"""In the order of an attempt's life. A save blocks for the 15 s of the ETT% write-up's example."""

STARTING: Final = 4  #: the first of ``PHASES`` add up to the time to start
SHUTDOWN: Final = 4  #: places in ``PHASES``
SAVING: Final = 5
COMPILE: Final = 3
LAUNCHER: Final = 2
SCHEDULING: Final = 0

TIME_TO_START: Final = Subject(Metric.TIME_TO_START_SECONDS)
TIME_TO_RECOVER: Final = Subject(Metric.TIME_TO_RECOVER_SECONDS)
UNSAVED: Final = Subject(Metric.UNSAVED_SECONDS)
FAILURES: Final = Subject(Metric.FAILURES_PER_GPU_HOUR)
FAILURES_BY_CAUSE: Final = tuple(
    Subject(Metric.FAILURES_PER_GPU_HOUR, cause=cause) for cause in ("infra", "user")
)
ETT: Final = Subject(Metric.ETT_RATIO)

TAIL: Final = 0.03  #: part of the lengths that are 3 to 20 times as long, log-uniformly
TAIL_FACTORS: Final = (3.0, 20.0)
OF_JOB: Final = 0.10  #: spread that all attempts of a job share
OF_SAVE: Final = 0.15  #: spread of the saves of an attempt
OF_CLUSTER: Final = 0.06  #: spread that all cohorts of a cluster share on a day
OF_COHORT: Final = 0.05  #: spread that a cohort has for itself on a day
OF_FLEET: Final = 0.30  #: spread of a phase's median from one cohort to the next

LOAD: Final = (1.05, 1.10, 1.10, 1.05, 0.95, 0.90, 0.85)  #: jobs by day of the week, from Monday
QUEUEING: Final = (1.15, 1.10, 1.05, 1.05, 1.20, 0.75, 0.70)  #: factors of ``SCHEDULING``
MONTH_END_DAYS: Final = 3
MONTH_END_LOAD: Final = 1.3
MONTH_END_QUEUEING: Final = 1.5

SIZES: Final = (8, 32, 128, 512)  #: accelerators; each cohort has two
MAIN_SIZE: Final = 0.7  #: part of the jobs that have the first of these
HARDWARE: Final = ("h100", "h200")
OTHER_HARDWARE: Final = 0.15  #: part of the jobs that are not on their cluster's own
SLOWER_HARDWARE: Final = 0.10  #: added to the logarithm there

RUN_S: Final = 9000.0  #: median of an attempt's training
RUN_SPREAD: Final = 1.0
LONGEST_RUN_S: Final = 3 * 86_400.0
SAVE_EVERY_S: Final = 1800.0
MOST_SAVES: Final = 6  #: of one attempt, that are told

FAILED: Final = 0.26
PREEMPTED: Final = 0.12
"""Attempts that fail and that are preempted; of the rest all complete (RSC-1: 24 % and 10 %, and
60 % completed; arXiv 2410.21680)."""
RETRIED: Final = 0.7  #: part of the failures after which the job goes on
INFRA: Final = 0.4  #: part of the failures that are not the user's
MOST_ATTEMPTS: Final = 6  #: of one job
RESTART_WAIT_S: Final = 600.0

WARM: Final = 0.6  #: part of the attempts that find a warm compile cache
MEGACACHE_SAVES: Final = 0.40  #: what that takes off a compile (PyTorch compile-time write-up)
HANGING: Final = 0.3
OUTAGE_SLOWS: Final = 3.0
OUTAGE_FAILED: Final = 0.7
SPREAD_CAUSE: Final = 0.6  #: part of the attempts that are slower with the cause ``none``
DOUBTFUL: Final = 0.03  #: part of the attempts that are slower without the value that is slower
DIMENSIONS: Final = ("code_version", "image", "host", "cache", "source")
"""What attempts are told apart by beside their cohort: what a change may be associated with."""
