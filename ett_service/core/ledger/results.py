"""The shapes that the fold of a job's events gives: segments, attempts, recoveries, numbers.

Durations are integer microseconds (``_us``), instants integer microseconds since the Unix epoch
(``_at``); a ratio is taken by the reader, once, last.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ett_service.core.dimensions import Facts
from ett_service.core.failures.rule import Evidence, Override
from ett_service.core.intervals import Interval
from ett_service.core.words import (
    Basis,
    Category,
    Cause,
    HookState,
    JobState,
    Origin,
    Outcome,
    Owner,
    Period,
    Phase,
    WaitPart,
)

FORMULA_VERSION = 3
"""Changes when the same events would give other numbers."""


class Segment(NamedTuple):
    """A maximal interval ``[start_at, end_at)`` of one category, period and attempt."""

    start_at: int
    end_at: int
    category: Category
    period: Period
    number: int | None  #: of the attempt; None between attempts

    @property
    def us(self) -> int:
        """Its length in microseconds."""
        return self.end_at - self.start_at


class Share(NamedTuple):
    """Time of one category in one period, and who owned it as it was reported.

    ``phase`` is the owning phase (``train_loop`` for effective, repeated and silent-tail time),
    None where no span owned it. Shares of a job partition its E2E and add up over jobs.
    """

    category: Category
    period: Period
    phase: Phase | None
    us: int
    weighted_us: int | None  #: times accelerators; None while they are unknown
    gpu_us: int | None  #: the part of it during which accelerators were held


class Work(NamedTuple):
    """What a job reports to have done, in all; a teraflop is 10^12 operations."""

    samples: int = 0
    tokens: int = 0
    teraflops: int = 0  #: as reported, else 6 x parameters x tokens


NO_WORK = Work()


class WorkDone(NamedTuple):
    """By how much an attempt raised the job's running totals in an hour."""

    hour_at: int
    number: int
    work: Work


class StageSum(NamedTuple):
    """What an attempt's stream spent on a stage. Stages never own time of the ledger."""

    phase: Phase
    stage: str
    spans: int
    inclusive_us: int
    exclusive_us: int  #: while no stage that began later was open


class Checkpoint(NamedTuple):
    """A checkpoint that became durable."""

    id: str  #: of its event
    number: int  #: of the attempt
    saved_at: int
    step: int
    bytes: int | None
    duration_us: int | None


class Wait(NamedTuple):
    """An interval ``[start_at, end_at)`` between attempts, and whose accelerators it counts for."""

    start_at: int
    end_at: int
    period: Period
    number: int  #: of the attempt that ended last before it
    held: bool  #: whether its accelerators were held


class OwnedWait(NamedTuple):
    """An interval ``[start_at, end_at)`` of one owner."""

    start_at: int
    end_at: int
    part: WaitPart
    number: int | None  #: the attempt that it counts for; None in the queue
    owner: Owner

    @property
    def us(self) -> int:
        """Its length in microseconds."""
        return self.end_at - self.start_at


class WaitShare(NamedTuple):
    """What a job waited for an owner. Those of a part add up to it."""

    part: WaitPart
    owner: Owner
    us: int
    weighted_us: int | None  #: times accelerators; None in the queue, and while they are unknown


class Speed(NamedTuple):
    """Effective training by its speed; the three sum to it."""

    at_reference_us: int = 0  #: what the measured steps take at the reference
    slowed_us: int = 0  #: what they took beyond it
    unmeasured_us: int = 0  #: in no window of steps, or in one that has no reference

    @property
    def is_measured(self) -> bool:
        """Whether any step was compared with a reference."""
        return self.at_reference_us + self.slowed_us > 0

    @property
    def known_at_reference_us(self) -> int | None:
        """``at_reference_us``; None where nothing is measured."""
        return self.at_reference_us if self.is_measured else None

    @property
    def known_slowed_us(self) -> int | None:
        """``slowed_us``; None where nothing is measured."""
        return self.slowed_us if self.is_measured else None


NO_SPEED = Speed()


def summed_speed(speeds: Iterable[Speed]) -> Speed:
    """Add up speeds."""
    return Speed(*map(sum, zip(NO_SPEED, *speeds, strict=True)))


class DataWait(NamedTuple):
    """What a training loop waited for data; ``us`` is at most ``loop_us``."""

    us: int
    loop_us: int  #: effective, repeated and stalled time up to the last report

    @property
    def ratio(self) -> float | None:
        """The share of the loop time; None where there is none."""
        return self.us / self.loop_us if self.loop_us else None


class StepTime(NamedTuple):
    """The time of an attempt's steps on one day and at one number of tokens a step."""

    day: int  #: since the Unix epoch, UTC, on which the windows of steps ended
    tokens_a_step: int | None  #: its first two digits; None where not reported
    windows: int
    steps: int
    us: int  #: their effective time


class SpeedReference(NamedTuple):
    """The best sustained step time of a run at one number of accelerators and tokens a step."""

    gpus: int | None  #: None while unknown
    tokens_a_step: int | None  #: its first two digits; None where not reported
    step_ns: int  #: nanoseconds
    windows: int  #: how many were measured at this setting

    @property
    def step_seconds(self) -> float:
        """The step time in seconds."""
        return self.step_ns / 1e9


@dataclass(frozen=True, slots=True)
class Gap:
    """One thing that had to be inferred, or that is missing."""

    kind: str
    """``inferred_end end_without_begin clamped_span clock unattributed missing_phase
    unreported_restart restart_counts_disagree steps_went_back missing_hook``"""
    number: int | None  #: the attempt
    start_at: int | None  #: None, as ``end_at``, where it is of no instant
    end_at: int | None
    detail: str  #: what was inferred from which event, in words
    event_id: str | None = None  #: the event it was inferred from


@dataclass(frozen=True, slots=True)
class Quality:
    """What the numbers rest on; nothing is dropped in silence."""

    unattributed_us: int = 0
    inferred_ends: int = 0
    ends_without_begin: int = 0
    clamped_spans: int = 0
    clock_flags: int = 0
    unreported_restarts: int = 0  #: cycles that no sender counted
    restart_counts_disagree: int = 0  #: cycles that senders counted differently
    steps_went_back: int = 0  #: how often progress fell inside an attempt without a restore
    missing_phases: tuple[Phase, ...] = ()
    gpus_unknown: bool = True
    attempts_missing_hooks: int = 0  #: of which a sender reports a hook missing or failed
    gaps: tuple[Gap, ...] = ()  #: the first of them, in order; counts above are of all


@dataclass(frozen=True, slots=True)
class Recovery:
    """From the end of a loop to the start of the next loop of another attempt."""

    interrupted: int
    resumed: int | None  #: None while no loop was reached
    start_at: int
    end_at: int
    parts_us: Mapping[Category, int]  #: sums to ``us``
    stalled_us: int  #: the interrupted attempt's silent tail
    repeated_us: int  #: all repeated time of the resumed attempt
    outcome: Outcome  #: of the interrupted attempt
    owners_us: Mapping[Owner, int] = field(default_factory=dict)  #: sums to ``us``

    @property
    def us(self) -> int:
        """Length in microseconds."""
        return self.end_at - self.start_at


@dataclass(frozen=True, slots=True)
class AttemptLedger:
    """One life of the job's training processes."""

    number: int
    launch: str
    attempt: int
    cycle: int
    started_at: int
    ended_at: int  #: as-of while it runs
    outcome: Outcome
    origin: Origin | None  #: None unless it is a failure
    cause: Cause | None
    evidence: Evidence | None
    reason: str | None
    basis: Basis
    gpus: int | None
    code_version: str | None
    lead_rank: int | None
    loop_started_at: int | None  #: start of its first loop
    last_heard_at: int
    last_step: int | None
    unsaved_us: int  #: 0 unless it is a failure
    silent_tail_us: int
    categories_us: Mapping[Category, int]  #: only what is not 0
    preempted_by: str | None = None  #: the job that was given its accelerators
    stages: tuple[StageSum, ...] = ()
    verdict: Override | None = None  #: where it gives origin and cause
    speed: Speed = NO_SPEED
    data_wait: DataWait | None = None  #: None where the stream reports none
    telemetry_us: int | None = None  #: what recording cost the process that it cost most
    hooks: Mapping[str, HookState] = field(default_factory=dict)  #: the worst of any process
    step_times: tuple[StepTime, ...] = ()  #: in order of days, then of tokens a step
    compile_cache: str | None = None  #: ``cold``, ``warm``, ``mixed`` or ``disabled``; None: untold


@dataclass(frozen=True, slots=True)
class RunLedger:
    """One run of a job: it ends with a ``job_ended``, and a later launch begins the next."""

    number: int
    launches: tuple[str, ...]  #: in their order
    first_attempt: int  #: number of its first attempt
    attempts: int  #: how many of them have begun
    state: JobState
    outcome: Outcome | None  #: of a ``job_ended`` that stands
    sign_at: int  #: the first instant that any of its events names
    started_at: int | None  #: its first instant; None while none of its attempts began
    ended_at: int | None  #: end of its E2E; None likewise
    idle_before_us: int  #: from the end of the run before to ``sign_at``; in no run
    queue_wait_us: int
    effective_us: int
    time_to_start_us: int | None
    failures: int
    infra_failures: int
    unsaved_us: int
    speed: Speed = NO_SPEED
    speed_references: tuple[SpeedReference, ...] = ()
    queue_owners_us: Mapping[Owner, int] = field(default_factory=dict)  #: sums to the queue wait

    @property
    def e2e_us(self) -> int:
        """Its E2E wall time in microseconds."""
        if self.started_at is None or self.ended_at is None:
            return 0
        return self.ended_at - self.started_at

    def contains(self, number: int) -> bool:
        """Whether the attempt of this number is one of its attempts."""
        return self.first_attempt <= number < self.first_attempt + self.attempts


@dataclass(frozen=True, slots=True)
class JobLedger:
    """All results of one job's events at ``as_of``: sums over its runs, the state of the last."""

    state: JobState
    as_of: int
    facts: Facts
    started_at: int | None  #: the first instant; None while no attempt began
    ended_at: int | None  #: end of the last run's E2E (as-of of a running job); None likewise
    queue_wait_us: int
    outcome: Outcome | None  #: of a ``job_ended`` that stands
    segments: tuple[Segment, ...]
    shares: tuple[Share, ...]
    attempts: tuple[AttemptLedger, ...]
    recoveries: tuple[Recovery, ...]
    time_to_start_us: int | None
    failures: int
    infra_failures: int
    unsaved_us: int
    quality: Quality
    due_at: int | None  #: when a fold of the same events would first differ by more than length
    produced: Work = NO_WORK
    waits: tuple[Wait, ...] = ()
    owned_waits: tuple[OwnedWait, ...] = ()  #: inside runs, disjoint and in order
    wait_shares: tuple[WaitShare, ...] = ()
    work: tuple[WorkDone, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    runs: tuple[RunLedger, ...] = ()

    @property
    def provisional(self) -> bool:
        """Whether events to come are expected to change the numbers."""
        return self.state is not JobState.FINISHED

    @property
    def e2e_us(self) -> int:
        """E2E wall time in microseconds, summed over the runs."""
        return sum(end - start for start, end in self.spans)

    @property
    def speed(self) -> Speed:
        """Effective training by its speed, summed over the runs."""
        return summed_speed(run.speed for run in self.runs)

    @property
    def data_wait(self) -> DataWait | None:
        """What its loops waited for data, over the attempts that report it."""
        waits = [attempt.data_wait for attempt in self.attempts if attempt.data_wait]
        return DataWait(*map(sum, zip(*waits, strict=True))) if waits else None

    @property
    def reference_step_seconds(self) -> float | None:
        """Of the latest run that has one, at the setting with the most windows."""
        references = [run.speed_references for run in self.runs if run.speed_references]
        if not references:
            return None
        return max(references[-1], key=lambda reference: reference.windows).step_seconds

    @property
    def between_runs_us(self) -> int:
        """Time from each run's end to the first sign of the next, in microseconds."""
        return sum(run.idle_before_us for run in self.runs)

    @property
    def spans(self) -> tuple[Interval, ...]:
        """From start to end of each run in which an attempt began; none of them overlap."""
        if self.started_at is None or self.ended_at is None:
            return ()
        runs = tuple(
            (run.started_at, run.ended_at)
            for run in self.runs
            if run.started_at is not None and run.ended_at is not None
        )
        return runs or ((self.started_at, self.ended_at),)
