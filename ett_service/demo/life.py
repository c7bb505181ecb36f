"""The life of one job: its attempts, what stops them, and its events."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ett_service.core.intervals import rfc3339
from ett_service.core.words import Cause, Outcome
from ett_service.demo.calendar import HOUR, MINUTE, SECOND, Almanac, Draws, Tape, WireEvent
from ett_service.demo.fleet import Planted
from ett_service.demo.stops import Stop, Taking, Then, next_stop
from ett_service.demo.training import Job, Loop, Start, Trained, start_up

_HANG = 10 * MINUTE  #: what a collective waits before its watchdog ends the process
_WARM = 0.65  #: of first attempts find compiled code in the shared cache
_LIMITED = 0.3  #: of waits in the queue begin at a limit of the user's
_OUTRANKED = 0.4  #: of others wait for jobs that go first, the rest for free nodes
_PUBLISHES = frozenset({"pretrain", "finetune", "retrain"})
_SECONDS_A_LAUNCH = 7


@dataclass(frozen=True, slots=True)
class Running:
    """An attempt that runs at the end of the fleet, and the last whole step that it took."""

    job: Job
    named: Mapping[str, object]  #: what its events are placed by
    step: int | None  #: None where it has not come to its loop
    at: int

    def sign(self, now: int) -> WireEvent:
        """Return what the attempt reports of itself at a later instant."""
        tape = Tape(self.job.name, now, **self.named)
        if self.step is None:
            tape.record("heartbeat", now)
        else:
            more = (now - self.at) // self.job.step_us
            step = self.step + more
            at = self.at + more * self.job.step_us
            tape.record("progress", at, step=step, **self.job.totals(step))
        return tape.events[0]


@dataclass(slots=True)
class Story:
    """The events of one job, and what only the generator knows of it."""

    job: Job
    events: list[WireEvent]
    attempts: int = 0
    ended_at: int | None = None  #: None while it goes on
    running: Running | None = None
    causes: Counter[Cause] = field(default_factory=Counter)  #: of its failures
    rows: Counter[str] = field(default_factory=Counter)  #: of the published table
    taken_at: list[int] = field(default_factory=list)  #: when it took accelerators


@dataclass(slots=True)
class _Place:
    """Where the next attempt stands among the job's attempts."""

    launch: str
    attempt: int = 0
    cycle: int = 0

    def members(self) -> dict[str, object]:
        return {"launch": self.launch, "attempt": self.attempt, "cycle": self.cycle}


class Life:
    """Lives one job up to the end of the fleet."""

    def __init__(
        self, seed: int, almanac: Almanac, planted: Planted, takings: Sequence[Taking], job: Job
    ) -> None:
        self._draws = Draws(seed, job.name)
        self._reasons = Draws(seed, f"{job.name}/reasons")
        self._almanac = almanac
        self._planted = planted
        self._takings = takings
        self._job = job
        self._place = _Place(self._launch(job.submitted_at))
        self._durable = 0
        self._tries = 0
        self._compiled = ""  #: the code version that the cache has this job's compile of
        version = almanac.code_version(job.submitted_at)
        facts = job.facts(rfc3339(job.submitted_at), version)
        self.story = Story(job, [facts])

    def live(self) -> Story:
        """Return all that happens to the job before the end of the fleet."""
        at = self._queue(self._job.submitted_at, self._first_wait())
        stop: Stop | None = None
        while at <= self._almanac.end_us:
            stop = self._attempt(at, stop)
            if stop is None or stop.then is Then.OVER:
                break
            at = self._next(stop)
        return self.story

    def _attempt(self, at: int, before: Stop | None) -> Stop | None:
        """Live one attempt; return what stopped it, None if nothing did."""
        almanac, job = self._almanac, self._job
        stop = next_stop(self._draws, almanac, self._takings, job, at, self._tries)
        quiet = stop.at - _HANG if stop.hangs else stop.at
        tape = Tape(job.name, min(quiet, almanac.end_us), **self._place.members())
        self.story.attempts += 1
        self.story.taken_at.append(at)
        begins = start_up(tape, self._draws, self._planted, self._start(at, before), at)
        trained = Loop(tape, self._draws, self._planted, job).run(begins, self._durable)
        self._durable = trained.durable
        done = trained.step == job.steps and trained.at <= tape.until_us
        tape.until_us = almanac.end_us
        if done:
            self._shut_down(tape, trained)
        elif stop.at <= almanac.end_us:
            if stop.hangs and begins <= quiet:
                tape.record("phase_started", quiet, phase="stalled")
            self._stop(tape, stop)
        else:
            self._go_on(tape, trained.at, trained.step if begins <= almanac.end_us else None)
        self.story.events += tape.events
        return None if done or stop.at > almanac.end_us else stop

    def _start(self, at: int, before: Stop | None) -> Start:
        version = self._almanac.code_version(at)
        is_warm = self._compiled == version or (before is None and self._draws.chance(_WARM))
        self._compiled = version
        return Start(
            job=self._job,
            step=self._durable,
            code_version=version,
            is_warm=is_warm,
            in_place=before is not None and before.then is Then.CYCLE,
            reason=None if before is None else before.then.name.lower(),
        )

    def _stop(self, tape: Tape, stop: Stop) -> None:
        if stop.outcome is None:
            tape.record("heartbeat", stop.at)
        else:
            ending = {"outcome": stop.outcome.value, **stop.members}
            tape.record("attempt_ended", stop.at, **ending)
            if stop.then is Then.OVER:
                tape.record("job_ended", stop.at + SECOND, outcome=stop.outcome.value)
                self.story.ended_at = stop.at
        if stop.cause is not None:
            self.story.causes[stop.cause] += 1
        if stop.row is not None:
            self.story.rows[stop.row] += 1

    def _go_on(self, tape: Tape, at: int, step: int | None) -> None:
        """Record a sign of life at the end of the fleet."""
        tape.record("heartbeat", self._almanac.end_us)
        self.story.running = Running(self._job, self._place.members(), step, at)

    def _shut_down(self, tape: Tape, trained: Trained) -> None:
        at = begun = trained.at
        at = tape.span("shutdown", at, at + self._draws.about(35 * SECOND, 0.3), "final_checkpoint")
        tape.record("checkpoint_saved", at, step=trained.step, bytes=self._job.checkpoint_bytes)
        if self._job.kind in _PUBLISHES:
            publish = self._draws.about(self._job.model.publish_s * SECOND, 0.3)
            at = tape.span("shutdown", at, at + publish, "model_publish")
        at = tape.span("shutdown", at, at + self._draws.about(12 * SECOND, 0.4), "teardown")
        tape.span("shutdown", begun, at)
        tape.record("attempt_ended", at, outcome=Outcome.COMPLETED.value, exit_code=0)
        tape.record("job_ended", at, outcome=Outcome.COMPLETED.value)
        self.story.ended_at = at
        if at > self._almanac.end_us:
            self._go_on(tape, at, None)

    def _next(self, stop: Stop) -> int:
        """Place the next attempt, and return when it begins."""
        place = self._place
        if stop.then is Then.CYCLE:
            place.cycle += 1
            return stop.at + self._draws.about(30 * SECOND, 0.6)
        if stop.then is Then.REQUEUE:
            place.attempt += 1
            place.cycle = 0
            return self._queue(stop.at, self._requeue_wait(stop))
        is_users = stop.cause is not Cause.SCHEDULER_TIMEOUT
        self._tries += is_users
        submitted = stop.at + self._draws.about((25 if is_users else 2) * MINUTE, 1.0)
        self._place = _Place(self._launch(submitted))
        return self._queue(submitted, self._first_wait())

    def _queue(self, at: int, wait: int) -> int:
        """Record the queue from an instant on, and return when it is over."""
        begins = free_at = at + wait
        for window in self._almanac.closed(self._job.model.cluster):
            if at in window or begins in window:
                begins = window.to_us + self._draws.about(8 * MINUTE, 0.6)
        tape = Tape(self._job.name, self._almanac.end_us, **self._place.members())
        tape.record("phase_started", at, phase="queued")
        tape.record("phase_ended", begins, phase="queued")
        self._record_reasons(tape, at, begins, is_closed=begins != free_at)
        self.story.events += tape.events
        return begins

    def _record_reasons(self, tape: Tape, at: int, begins: int, *, is_closed: bool) -> None:
        """Tell, in Slurm's words, what a wait was for."""
        draws = self._reasons
        if draws.chance(_LIMITED):
            limited_until = at + round(draws.share() * (begins - at))
            at = tape.span("queued", at, limited_until, "QOSMaxGRESPerUser")
        reason = "Priority" if draws.chance(_OUTRANKED) else "Resources"
        tape.span("queued", at, begins, "ReqNodeNotAvail" if is_closed else reason)

    def _first_wait(self) -> int:
        """Draw how long the job waits in the queue: the larger and the busier, the longer."""
        median = 4 * MINUTE * max(1.0, self._job.gpus / 32)
        if self._job.is_urgent:
            median = 4 * MINUTE
        busy = self._almanac.queueing(self._job.submitted_at)
        return self._draws.about(median * busy, 1.1)

    def _requeue_wait(self, stop: Stop) -> int:
        """Draw how long it takes to be given nodes again; the tail is heavy."""
        if stop.cause is Cause.PREEMPTION:
            return self._draws.about(20 * MINUTE * self._almanac.queueing(stop.at), 1.0)
        if self._job.is_urgent:
            return min(self._draws.about(2 * MINUTE, 1.3), 6 * HOUR)
        return min(self._draws.about(5 * MINUTE, 1.6), 12 * HOUR)

    def _launch(self, at: int) -> str:
        """Return the scheduler's number for a submission."""
        since = (at - self._almanac.start_us) // (_SECONDS_A_LAUNCH * SECOND)
        return str(1_000_000 + since)
