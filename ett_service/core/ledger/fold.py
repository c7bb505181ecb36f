"""The fold: from a set of events to the ledger of their job.

``fold`` does it once. ``JobFold`` keeps its intermediate results, so that an event at the open
end of a job costs no more in a long job than in a short one.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from ett_service.core.dimensions import Facts
from ett_service.core.events import Event
from ett_service.core.ledger.attempt_results import (
    Setting,
    attempt_ledger,
    checkpoints,
    code_version,
)
from ett_service.core.ledger.attempt_segments import AttemptSegments, silent_from
from ett_service.core.ledger.attempts.attempt_events import AttemptIdentity
from ett_service.core.ledger.attempts.attempts import Attempts, Clocks, facts
from ett_service.core.ledger.attempts.lifetimes import (
    DEFAULT_LIMITS,
    Lifetime,
    Lifetimes,
    Limits,
    find_lifetimes,
    follows_clock,
    split_into_runs,
)
from ett_service.core.ledger.attempts.spans import NEVER
from ett_service.core.ledger.job_results import (
    accelerators,
    gaps,
    produced,
    quality,
    recoveries,
    shares,
    waits,
    work_done,
)
from ett_service.core.ledger.owned_waits import OwnedWaits, RunWaits, wait_shares
from ett_service.core.ledger.results import (
    AttemptLedger,
    Checkpoint,
    Gap,
    JobLedger,
    Recovery,
    Segment,
    Speed,
    StepTime,
    WorkDone,
)
from ett_service.core.ledger.runs import (
    AttemptPart,
    References,
    RunSegments,
    cut_run_segments,
    run_ledgers,
)
from ett_service.core.ledger.speed import attempt_speed, given_reference_ns, speed_references
from ett_service.core.words import Category, JobState, Outcome

T = TypeVar("T")


def fold(
    events: Iterable[Event],
    offsets: Mapping[str, int],
    as_of: int,
    limits: Limits = DEFAULT_LIMITS,
) -> JobLedger:
    """Return the ledger of the job that the set *events* describes.

    *offsets* maps a producer to the microseconds its clock is behind the server's; *as_of* is
    an instant in microseconds since the Unix epoch.
    """
    job = JobFold(limits)
    job.add(events, offsets)
    return job.ledger(as_of)


class JobFold:
    """One job's events, folded forward.

    Attributes:
        event_count: how many distinct events were added.
        changed_from: segments that begin at or after this instant may differ from those of
            the ledger before; None where all may.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.changed_from: int | None = None
        self._limits = limits
        self._ids: set[str] = set()
        self._clocks = Clocks()
        self._attempts = Attempts()
        self._facts = Facts()
        self._attempt_segments: defaultdict[AttemptIdentity, AttemptSegments] = defaultdict(
            AttemptSegments
        )
        self._attempt_results: dict[AttemptIdentity, tuple[object, AttemptLedger, list[Gap]]] = {}
        self._checkpoints_of: dict[AttemptIdentity, tuple[Checkpoint, ...]] = {}
        self._waits: Sequence[Segment] | None = None
        self._recoveries: tuple[Recovery, ...] = ()
        self._owned_waits = OwnedWaits()

    @property
    def event_count(self) -> int:
        """How many distinct events were added."""
        return len(self._ids)

    def add(self, events: Iterable[Event], offsets: Mapping[str, int]) -> bool:
        """Add events, duplicates being ignored; False if they do not fold forward.

        After False the object is to be thrown away, and all events to be added to a new one.
        """
        by_id = {event.id: event for event in events}
        fresh = [event for name, event in by_id.items() if name not in self._ids]
        self._ids.update(by_id)
        facts_before = len(self._attempts.facts)
        folds_forward = self._clocks.admit(fresh, offsets) and self._attempts.add(
            fresh, self._clocks, self._settled_at
        )
        if len(self._attempts.facts) > facts_before:
            self._facts = facts(self._attempts.facts)
        return folds_forward

    def _settled_at(self, key: AttemptIdentity) -> int:
        """Return the instant before which the attempt's ownership is settled."""
        segments = self._attempt_segments.get(key)
        return -NEVER if segments is None else segments.ownership.anchored_at

    def segments(self, as_of: int) -> tuple[Segment, ...]:
        """Return the job's segments alone, as :meth:`ledger` has them."""
        return _joined(run.segments for run in self._runs(as_of))

    def ledger(self, as_of: int) -> JobLedger:
        """Return the job's ledger at *as_of*, an instant in microseconds."""
        runs = self._runs(as_of)
        self.changed_from = self._first_change(runs)
        last = runs[-1].lifetimes
        parts = [part for run in runs for part in run.parts]
        lives = [part.owned.life for part in parts]
        gpus = accelerators(lives, self._facts.gpus)
        attempts, gaps_of = self._attempt_ledgers(parts, gpus)
        attempts, references = self._with_speeds(runs, attempts)
        waits_of = [waits(run) for run in runs]
        owned_waits_of = [
            self._owned_waits.cut(run, between, self._attempts.last_sign_at)
            for run, between in zip(runs, waits_of, strict=True)
        ]
        job_waits = _joined(waits_of)
        queues = [of_run.queue for of_run in owned_waits_of]
        owned_waits = _joined(of_run.inside for of_run in owned_waits_of)
        job_shares = shares(parts, job_waits, gpus)
        job_work = _joined(self._work_done(run) for run in runs)
        ledgers = run_ledgers(runs, attempts, references, queues, self._attempts.last_sign_at)
        begun = [run for run in ledgers if run.started_at is not None]
        starts = [run.time_to_start_us for run in ledgers if run.time_to_start_us is not None]
        return JobLedger(
            state=last.state,
            as_of=last.as_of if follows_clock(last) else runs[-1].ends,
            facts=self._facts,
            started_at=begun[0].started_at if begun else None,
            ended_at=begun[-1].ended_at if begun else None,
            queue_wait_us=sum(run.queue_wait_us for run in ledgers),
            outcome=last.standing.event.outcome if last.standing else None,
            segments=_joined(run.segments for run in runs),
            shares=job_shares,
            attempts=attempts,
            recoveries=self._recoveries_of(runs, owned_waits_of),
            time_to_start_us=sum(starts) if starts else None,
            failures=sum(run.failures for run in ledgers),
            infra_failures=sum(run.infra_failures for run in ledgers),
            unsaved_us=sum(run.unsaved_us for run in ledgers),
            quality=quality(
                [part.owned for part in parts],
                gaps_of,
                sum(share.us for share in job_shares if share.category is Category.UNATTRIBUTED),
                self._clocks.flagged,
                self._attempts.restarts(),
                gpus_unknown=None in gpus,
            ),
            due_at=self._due_at(last),
            produced=produced(job_work),
            waits=job_waits,
            owned_waits=owned_waits,
            wait_shares=wait_shares(chain(*queues, owned_waits), gpus),
            work=job_work,
            checkpoints=self._checkpoints(lives),
            runs=ledgers,
        )

    def _runs(self, as_of: int) -> list[RunSegments]:
        """Return the segments of each run; where a later one begins, an earlier one is over."""
        events, until = self._attempts, NEVER
        at = max(as_of, events.last_event_at)
        runs = []
        for run in reversed(split_into_runs(events.in_order(), events.job_ends)):
            lifetimes = find_lifetimes(run, at, events.last_sign_at, self._limits, until)
            until = until if lifetimes.first is None else lifetimes.first
            runs.append(cut_run_segments(lifetimes, self._attempt_segments))
        return runs[::-1]

    def _first_change(self, runs: Sequence[RunSegments]) -> int | None:
        """Find the instant from which segments may differ from those of the ledger before."""
        waited = [wait for run in runs for wait in run.waits]
        before, self._waits = self._waits, waited
        if before is None:
            return None
        changes = [part.attempt_segments.changed_from for run in runs for part in run.parts]
        changes += [wait.start_at for wait in set(before) ^ set(waited)]
        change = min(changes, default=NEVER)
        return None if change == -NEVER else change

    def _work_done(self, run: RunSegments) -> tuple[WorkDone, ...]:
        lifetimes = run.lifetimes
        hours = [life.events.work for life in lifetimes.lives]
        return work_done(hours, self._facts.parameters, lifetimes.run.first_number)

    def _attempt_ledgers(
        self, parts: Sequence[AttemptPart], weights: Sequence[int | None]
    ) -> tuple[tuple[AttemptLedger, ...], list[list[Gap]]]:
        """Return each attempt's ledger and gaps, built again only where something changed."""
        ledgers, gaps_of = [], []
        for part, gpus in zip(parts, weights, strict=True):
            life, segments = part.owned.life, part.attempt_segments
            version = code_version(life) or self._facts.code_version
            setting = Setting(gpus, version, part.basis)
            key = (segments.edition, life.signature, setting)
            cached = self._attempt_results.get(life.events.key)
            if cached is None or cached[0] != key:
                cached = (key, attempt_ledger(part, setting), gaps(part.owned, segments))
                self._attempt_results[life.events.key] = cached
            ledgers.append(cached[1])
            gaps_of.append(cached[2])
        return tuple(ledgers), gaps_of

    def _with_speeds(
        self, runs: Sequence[RunSegments], attempts: Sequence[AttemptLedger]
    ) -> tuple[tuple[AttemptLedger, ...], list[References]]:
        """Return the attempts with their speeds, and the references of each run."""
        given_ns = given_reference_ns(self._facts.labels)
        whole: list[AttemptLedger] = []
        references = []
        for run in runs:
            own = [attempts[life.number] for life in run.lifetimes.lives]
            windows = [part.attempt_segments.speed_windows for part in run.parts]
            sums_of = [each.sums for each in windows]
            measured = [(sums, attempt.gpus) for sums, attempt in zip(sums_of, own, strict=True)]
            references.append(speed_references(measured, given_ns))
            speeds = [
                attempt_speed(sums, references[-1], attempt)
                for sums, attempt in zip(sums_of, own, strict=True)
            ]
            whole += [
                self._with_speed(attempt, speed, each.step_times)
                for attempt, speed, each in zip(own, speeds, windows, strict=True)
            ]
        return tuple(whole), references

    def _with_speed(
        self, attempt: AttemptLedger, speed: Speed, step_times: tuple[StepTime, ...]
    ) -> AttemptLedger:
        """Return the attempt with its speed, and keep it for the next ledger."""
        if (attempt.speed, attempt.step_times) == (speed, step_times):
            return attempt
        attempt = replace(attempt, speed=speed, step_times=step_times)
        name = (attempt.launch, attempt.attempt, attempt.cycle)
        key, _, gaps_of = self._attempt_results[name]
        self._attempt_results[name] = (key, attempt, gaps_of)
        return attempt

    def _checkpoints(self, lives: Sequence[Lifetime]) -> tuple[Checkpoint, ...]:
        """Return the checkpoints by attempt and instant, built again only where one was added."""
        for life in lives:
            cached = self._checkpoints_of.get(life.events.key, ())
            if len(cached) != len(life.events.saves) or (
                cached and cached[0].number != life.number
            ):
                self._checkpoints_of[life.events.key] = checkpoints(life)
        return _joined(self._checkpoints_of.get(life.events.key, ()) for life in lives)

    def _recoveries_of(
        self, runs: Sequence[RunSegments], owned_waits_of: Sequence[RunWaits]
    ) -> tuple[Recovery, ...]:
        """Return the recoveries; parts of those before the first change are not summed again."""
        change = self.changed_from
        unchanged = {
            (recovery.start_at, recovery.end_at): recovery.parts_us
            for recovery in self._recoveries
            if change is not None and recovery.end_at < change
        }
        self._recoveries = _joined(
            recoveries(run, unchanged, of_run.inside)
            for run, of_run in zip(runs, owned_waits_of, strict=True)
        )
        return self._recoveries

    def _due_at(self, lifetimes: Lifetimes) -> int | None:
        """Return when a fold of the same events would first differ by more than length."""
        if lifetimes.state is JobState.QUEUED:
            return self._attempts.last_sign_at + self._limits.queue_lost_after_us
        silences = [
            instant
            for life in lifetimes.lives
            if life.outcome is Outcome.RUNNING
            for instant in (silent_from(life), life.events.heard + self._limits.lost_after_us)
            if lifetimes.as_of < instant < NEVER
        ]
        return min(silences, default=None)


def _joined(lists: Iterable[Iterable[T]]) -> tuple[T, ...]:
    several = list(lists)
    return tuple(several[0]) if len(several) == 1 else tuple(chain.from_iterable(several))
