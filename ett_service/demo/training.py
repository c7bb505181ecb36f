"""A submitted job, and the progress and checkpoints of its training."""

from dataclasses import dataclass

from ett_service.demo.calendar import HOUR, MINUTE, SECOND, Draws, Tape, WireEvent
from ett_service.demo.fleet import (
    MEGACACHE_SAVES,
    MFU_BOUNDS,
    PEAK_FLOPS,
    PT2_ASYNC_WAIT_SECONDS,
    PT2_SECONDS,
    PT2_TOTAL_SECONDS,
    Model,
    Planted,
    checkpoint_every_us,
)

_SAMPLES_A_GPU = 64
_BYTES_A_PARAMETER = 14  #: weights in 2 bytes, their copy and two moments in 4 each
_UNKNOWN_SIZE = 0.015


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it is submitted; instants and durations in microseconds."""

    name: str
    model: Model
    kind: str
    gpus: int
    goes_first: bool
    submitted_at: int
    steps: int
    step_us: int
    flops_a_step: float
    reports_gpus: bool

    @property
    def is_urgent(self) -> bool:
        """Whether it waits little and gives its accelerators to nobody."""
        return self.goes_first or self.kind == "retrain"

    @property
    def checkpoint_bytes(self) -> int:
        """How large one checkpoint is."""
        return _BYTES_A_PARAMETER * self.model.parameters

    def totals(self, step: int) -> dict[str, object]:
        """Return the running totals that the trainer reports after *step*."""
        flops = self.flops_a_step * step
        amounts = {
            "samples": _SAMPLES_A_GPU * self.gpus * step,
            "tokens": round(flops / (6 * self.model.parameters)),
            "flops": flops,
        }
        return {name: amounts[name] for name in amounts if name in self.model.reports}

    def facts(self, at: str, code_version: str) -> WireEvent:
        """Return the event that describes the job."""
        facts: WireEvent = {
            "type": "job",
            "at": at,
            "job": self.name,
            "team": self.model.team,
            "model": self.model.name,
            "cluster": self.model.cluster,
            "hardware": self.model.hardware,
            "kind": self.kind,
            "code_version": code_version,
            "submitted_at": at,
            "parameters": self.model.parameters,
            "precision": self.model.precision,
        }
        return facts | ({"gpus": self.gpus} if self.reports_gpus else {})


def submit(
    draws: Draws, model: Model, kind: str, gpus: int, hours: float, *, at: int, **named: object
) -> Job:
    """Draw a job that trains for about *hours* if nothing gets in its way.

    *named* are its ``name`` and whether it ``goes_first``.
    """
    low, high = MFU_BOUNDS
    mfu = min(high, max(low, model.mfu * (0.98 + 0.04 * draws.share())))
    step_us = draws.about(5 * SECOND, 0.3)
    peak = PEAK_FLOPS[model.hardware, model.precision]
    length_us = draws.about(hours * HOUR, 0.25 if kind == "pretrain" else 0.6)
    return Job(
        name=str(named["name"]),
        model=model,
        kind=kind,
        gpus=gpus,
        goes_first=bool(named["goes_first"]),
        submitted_at=at,
        steps=max(20, length_us // step_us),
        step_us=step_us,
        flops_a_step=gpus * peak * mfu * step_us / SECOND,
        reports_gpus=kind == "pretrain" or not draws.chance(_UNKNOWN_SIZE),
    )


_SETUP_SHARES = {"prolog": 0.2, "network_and_volumes": 0.15, "image_pull": 0.5}
_INIT_SHARES = {
    "device_init": 0.06,
    "process_group_init": 0.14,
    "preproc_creation": 0.16,
    "train_module_creation": 0.34,
    "init_plugins": 0.06,
    "pre_train": 0.08,
    "checkpoint_restore": 0.16,
}
_FIRST_BATCH = 0.5  #: of the launcher's median; it overlaps the compile
_CACHED = ("inductor", "autotune")
_CACHED_SHARE = sum(PT2_SECONDS[stage] for stage in _CACHED) / PT2_TOTAL_SECONDS
_CACHE_LEAVES = 1 - MEGACACHE_SAVES / _CACHED_SHARE
_ASYNC_SHARE = PT2_ASYNC_WAIT_SECONDS / PT2_SECONDS["inductor"]


@dataclass(frozen=True, slots=True)
class Start:
    """How an attempt starts: from which step, with which code, from a warm cache or a cold one."""

    job: Job
    step: int
    code_version: str
    is_warm: bool
    in_place: bool  #: inside the allocation of the attempt before
    reason: str | None = None


def start_up(tape: Tape, draws: Draws, planted: Planted, start: Start, at: int) -> int:
    """Record the stations from *at* on, and return the instant at which the loop begins."""
    if not start.in_place:
        at = _allocate(tape, draws, start.job.gpus, at)
    job = start.job
    tape.record(
        "attempt_started",
        at,
        gpus=job.gpus if job.reports_gpus else None,
        hosts=max(1, job.gpus // 8),
        code_version=start.code_version,
        reason=start.reason,
    )
    ready = _initialize(tape, draws, planted, start, at)
    return _compile(tape, draws, planted, start, init_from=at, at=ready)


def _allocate(tape: Tape, draws: Draws, gpus: int, at: int) -> int:
    larger = max(1.0, gpus / 64)
    at = tape.span("scheduling", at, at + draws.about(20 * SECOND * larger**0.3, 0.5))
    whole = draws.about(80 * SECOND * larger**0.15, 0.35)
    done = at
    for stage, share in _SETUP_SHARES.items():
        done = tape.span("hardware_setup", done, done + round(share * whole), stage)
    return tape.span("hardware_setup", at, at + whole)


def _initialize(tape: Tape, draws: Draws, planted: Planted, start: Start, at: int) -> int:
    whole = draws.about(start.job.model.init_s * SECOND, 0.18)
    begun = at
    for stage, share in _INIT_SHARES.items():
        if stage == "checkpoint_restore" and not start.step:
            continue
        length = share * whole * planted.launcher_factor(stage, begun)
        at = tape.span("launcher_init", at, at + round(length), stage)
    if start.step:
        size = start.job.checkpoint_bytes
        tape.record("checkpoint_restored", at, step=start.step, bytes=size)
    return at


def _compile(
    tape: Tape, draws: Draws, planted: Planted, start: Start, *, init_from: int, at: int
) -> int:
    """Record the compile; the first batch is fetched beside it, and the later of them ends it."""
    model = start.job.model
    first_batch = draws.about(_FIRST_BATCH * model.init_s * SECOND, 0.3)
    whole = draws.about(model.compile_s * SECOND, 0.14)
    lengths = {stage: whole * spent / PT2_TOTAL_SECONDS for stage, spent in PT2_SECONDS.items()}
    if start.is_warm:
        lengths |= {stage: lengths[stage] * _CACHE_LEAVES for stage in _CACHED}
    slower = planted.compile_factor(model.name, start.code_version)
    lengths["inductor"] += (slower - 1) * sum(lengths.values())
    end = at
    for stage, length in lengths.items():
        begun, end = end, end + round(length)
        tape.span("pt2_compile", begun, end, stage)
        if stage == "inductor":
            waits = round(_ASYNC_SHARE * length)
            tape.span("pt2_compile", end - waits, end, "async_compile_wait")
    cache = {"compile_cache": "warm" if start.is_warm else "cold"}
    tape.span("pt2_compile", at, end, attributes=cache)
    fetched = tape.span("launcher_init", at, at + first_batch, "get_first_batch_data")
    return tape.span("launcher_init", init_from, max(end, fetched))


_EVALUATES_EVERY = 4  #: saves
_STALLS = 0.03  #: of the stretches between saves
_RECOMPILES = 0.01


@dataclass(slots=True)
class Trained:
    """How far an attempt came: its last whole step, when, and the last step that is durable."""

    step: int
    at: int
    durable: int
    in_loop: bool = True  #: at *at* it was training, and not held up by something


class Loop:
    """The loop of one attempt of *job*, which its *tape* may cut off."""

    def __init__(self, tape: Tape, draws: Draws, planted: Planted, job: Job) -> None:
        self._tape = tape
        self._draws = draws
        self._planted = planted
        self._job = job
        self._every = max(1, checkpoint_every_us(job.gpus) // job.step_us)

    def run(self, at: int, step: int) -> Trained:
        """Train from the step after *step* to the last or to where the tape ends."""
        self._tape.record("phase_started", at, phase="train_loop")
        state = Trained(step, at, step, in_loop=at <= self._tape.until_us)
        saves = 0
        is_first = True
        while self._goes_on(state):
            self._stretch(state, is_first=is_first)
            is_first = False
            if not self._goes_on(state):
                break
            self._save(state)
            saves += 1
            self._hold_up(state, evaluates=saves % _EVALUATES_EVERY == 0)
        if state.step == self._job.steps and state.at <= self._tape.until_us:
            self._tape.record("phase_ended", state.at, phase="train_loop")
        return state

    def _goes_on(self, state: Trained) -> bool:
        return state.in_loop and state.step < self._job.steps

    def _stretch(self, state: Trained, *, is_first: bool) -> None:
        """Train up to the next save."""
        pace = round(self._job.step_us * (0.98 + 0.04 * self._draws.share()))
        until = self._tape.until_us
        steps = min(self._every, self._job.steps - state.step)
        done = min(steps, (until - state.at) // pace)
        if is_first and done > 1:
            self._progress(state.at + pace, state.step + 1)
        if done:
            state.at += done * pace
            state.step += done
            self._progress(state.at, state.step)
        state.in_loop = done == steps

    def _progress(self, at: int, step: int) -> None:
        self._tape.record("progress", at, step=step, **self._job.totals(step))

    def _save(self, state: Trained) -> None:
        model = self._job.model
        slower = self._planted.save_factor(model.cluster, state.at)
        blocked = self._draws.about(model.save_s * SECOND * slower, 0.2)
        upload = self._draws.about(30 * SECOND * slower, 0.4)
        self._held(state, "checkpoint_blocking", blocked)
        saved_at = state.at + upload
        if saved_at <= self._tape.until_us:
            state.durable = state.step
            self._tape.record(
                "checkpoint_saved",
                saved_at,
                step=state.step,
                bytes=self._job.checkpoint_bytes,
                duration_seconds=round((blocked + upload) / SECOND, 3),
            )

    def _hold_up(self, state: Trained, *, evaluates: bool) -> None:
        """Let what else stops a loop happen where it does."""
        if evaluates:
            self._held(state, "evaluation", self._draws.about(100 * SECOND, 0.3))
        if self._draws.chance(_STALLS):
            self._held(state, "stalled", self._draws.about(4 * MINUTE, 0.8))
        if self._draws.chance(_RECOMPILES):
            self._held(state, "pt2_compile", self._draws.about(90 * SECOND, 0.4))

    def _held(self, state: Trained, phase: str, length: int) -> None:
        state.at = self._tape.span(phase, state.at, state.at + length)
        state.in_loop = state.in_loop and state.at <= self._tape.until_us
