"""The parameters of a simulated fleet: cohorts, phases, spreads, shared noise, and their sources.

Durations are seconds here. A spread is the standard deviation of the logarithm within a day, a
cohort and a stratum. The spreads of phases lie between what machines do alone and what fleets do:
runs repeated in one allocation spread by 0.004 to 0.19 in launcher initialisation and by 0.02 in
hardware setup (MLPerf Training results v4.1 to v5.1), and queueing spreads by 2.3 and 2.4 (mean
over median of the Kalos and Philly traces, by ``sqrt(2 ln(mean/median))``; Hu et al., NSDI 2024).
No published trace has phases, so the values in between are chosen. So is every value without a
source here.
"""

from dataclasses import dataclass
from typing import Final

from ett_service.core.regressions.finding import Metric, SeriesCohort, Subject
from ett_service.core.words import Phase

DAYS: Final = 70  #: length of a fleet
CHANGED_ON: Final = 45  #: the day, from 0, on which the planted change begins

COHORTS: Final[tuple[SeriesCohort, ...]] = tuple(
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
COHORT_SHARES: Final = (0.30, 0.22, 0.17, 0.14, 0.10, 0.07)
"""The share of the jobs that each cohort starts; the smallest has 4 of 60 attempts a day."""

CLUSTER_OF: Final = (0, 1, 2, 0, 1, 0)
CLUSTERS: Final = ("alder", "birch", "cedar")


@dataclass(frozen=True, slots=True)
class PhaseModel:
    """How long one phase takes."""

    subject: Subject
    median_s: float
    spread: float
    by_size: float  #: added to the logarithm for each doubling of the accelerators
    restart: float  #: added to the logarithm where the attempt is a restart


def _phase(phase: Phase) -> Subject:
    return Subject(Metric.PHASE_SECONDS, phase=phase.value)


PHASES: Final = (
    PhaseModel(_phase(Phase.SCHEDULING), 30.0, 0.50, 0.06, 0.1),
    PhaseModel(_phase(Phase.HARDWARE_SETUP), 90.0, 0.35, 0.03, -0.2),
    PhaseModel(_phase(Phase.LAUNCHER_INIT), 240.0, 0.25, 0.04, 0.25),
    PhaseModel(_phase(Phase.PT2_COMPILE), 420.0, 0.25, 0.02, 0.0),
    PhaseModel(_phase(Phase.SHUTDOWN), 60.0, 0.35, 0.03, 0.0),
    PhaseModel(Subject(Metric.CHECKPOINT_BLOCKING_SECONDS), 15.0, 0.30, 0.05, 0.0),
)
"""In the order of an attempt's life. A save blocks for the 15 s of the ETT% write-up's example."""

MISSES: Final = {
    phase.subject: Subject(Metric.CACHE_MISS_RATIO, phase.subject.phase or phase.subject.metric)
    for phase in PHASES
}
"""The misses of each phase's cache, where its state is known."""

START_PHASES: Final = 4  #: the first of ``PHASES`` add up to the time to start
SCHEDULING: Final = 0  #: this and the next four are indices of ``PHASES``
LAUNCHER: Final = 2
COMPILE: Final = 3
SHUTDOWN: Final = 4
SAVING: Final = 5

TIME_TO_START: Final = Subject(Metric.TIME_TO_START_SECONDS)
TIME_TO_RECOVER: Final = Subject(Metric.TIME_TO_RECOVER_SECONDS)
UNSAVED_TIME: Final = Subject(Metric.UNSAVED_SECONDS)
FAILURES: Final = Subject(Metric.FAILURES_PER_GPU_HOUR)
FAILURES_BY_CAUSE: Final = tuple(
    Subject(Metric.FAILURES_PER_GPU_HOUR, cause=cause) for cause in ("infra", "user")
)
ETT: Final = Subject(Metric.ETT_RATIO)
STEPS: Final = Subject(Metric.STEP_SECONDS)

STEP_S: Final = 1.0  #: median seconds of a step
STEP_MODEL_SPREAD: Final = 1.0  #: from one cohort to the next
STEP_JOB_SPREAD: Final = 0.04  #: common to all days of a job, beside its setting
STEP_ATTEMPT_SPREAD: Final = 0.02  #: of where an attempt was placed
STEP_DAY_SPREAD: Final = 0.01  #: common to all jobs of a cluster on one day
STEP_TAIL_SHARE: Final = 0.03  #: of attempts have a slow host: 1.1 to 1.5 times as long
STEP_TAIL_FACTORS: Final = (1.1, 1.5)
LARGE_BATCH_SHARE: Final = 0.3  #: of jobs take twice the tokens a step, in twice the time
OUTAGE_STEP_FACTOR: Final = 1.3
FEWEST_STEPS: Final = 250  #: of a day, for a value

TAIL_SHARE: Final = 0.03  #: of the lengths; they are 3 to 20 times as long, log-uniformly
TAIL_FACTORS: Final = (3.0, 20.0)
JOB_SPREAD: Final = 0.10  #: common to all attempts of a job
SAVE_SPREAD: Final = 0.15  #: of the saves of one attempt
CLUSTER_DAY_SPREAD: Final = 0.06  #: common to all cohorts of a cluster on one day
COHORT_DAY_SPREAD: Final = 0.05  #: of one cohort on one day
COHORT_MEDIAN_SPREAD: Final = 0.30  #: of a phase's median from one cohort to the next

SATURDAY: Final = 5  #: from Monday, which is 0
WEEKDAY_LOAD: Final = (1.05, 1.10, 1.10, 1.05, 0.95, 0.90, 0.85)  #: of jobs, from Monday
WEEKDAY_QUEUEING: Final = (1.15, 1.10, 1.05, 1.05, 1.20, 0.75, 0.70)  #: factors of ``SCHEDULING``
MONTH_END_DAYS: Final = 3
MONTH_END_LOAD: Final = 1.3
MONTH_END_QUEUEING: Final = 1.5

SIZES: Final = (8, 32, 128, 512)  #: accelerators; each cohort has two
MAIN_SIZE_SHARE: Final = 0.7  #: of a cohort's jobs have the first of its two sizes
HARDWARE: Final = ("h100", "h200")
OTHER_HARDWARE_SHARE: Final = 0.15  #: of the jobs are not on their cluster's own hardware
SLOWER_HARDWARE: Final = 0.10  #: added to the logarithm there

RUN_S: Final = 9000.0  #: median of an attempt's training
RUN_SPREAD: Final = 1.0
LONGEST_RUN_S: Final = 3 * 86_400.0
SAVE_EVERY_S: Final = 1800.0
MOST_SAVES: Final = 6  #: of one attempt that are observed

FAILED_SHARE: Final = 0.26
PREEMPTED_SHARE: Final = 0.12
"""Attempts that fail and that are preempted; all others complete (RSC-1: 24 % and 10 %, and 60 %
completed; arXiv 2410.21680)."""
RETRIED_SHARE: Final = 0.7  #: of the failures, after which the job goes on
INFRA_SHARE: Final = 0.4  #: of the failures are caused by the infrastructure, the others by users
MOST_ATTEMPTS: Final = 6  #: of one job
RESTART_WAIT_S: Final = 600.0

WARM_CACHE_SHARE: Final = 0.6  #: of the attempts find a warm compile cache
WARM_CACHE_SAVES: Final = 0.40  #: of a compile (PyTorch compile-time write-up)
HANGING_SHARE: Final = 0.3
OUTAGE_FACTOR: Final = 3.0
OUTAGE_FAILED_SHARE: Final = 0.7
SLOW_WITHOUT_CAUSE: Final = 0.6  #: share of slower attempts where no value is the cause
SLOW_WITHOUT_VALUE: Final = 0.03  #: share of slower attempts among those without the slower value
DIMENSIONS: Final = ("code_version", "image", "host", "cache", "source")
"""What tells attempts apart beside their cohort: a change may be associated with a value of it."""
