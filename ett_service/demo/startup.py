"""From the allocation to the first batch: the stations before the loop, stage by stage."""

from dataclasses import dataclass

from ett_service.demo.draws import Draws
from ett_service.demo.planted import Planted
from ett_service.demo.published import (
    MEGACACHE_SAVES,
    PT2_ASYNC_WAIT_SECONDS,
    PT2_SECONDS,
    PT2_TOTAL_SECONDS,
)
from ett_service.demo.tape import Tape
from ett_service.demo.units import SECOND
from ett_service.demo.work import Job

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
    """Tell the stations from *at* on, and return the instant at which the loop begins."""
    if not start.in_place:
        at = _allocate(tape, draws, start.job.gpus, at)
    job = start.job
    tape.tell(
        "attempt_started",
        at,
        gpus=job.gpus if job.tells_gpus else None,
        hosts=max(1, job.gpus // 8),
        code_version=start.code_version,
        reason=start.reason,
    )
    ready = _initialize(tape, draws, planted, start, at)
    return _compile(tape, draws, planted, start, init_from=at, at=ready)


def _allocate(tape: Tape, draws: Draws, gpus: int, at: int) -> int:
    larger = max(1.0, gpus / 64)
    at = tape.span("scheduling", at, at + draws.about(20 * SECOND * larger**0.3, 0.5))
    return tape.span("hardware_setup", at, at + draws.about(80 * SECOND * larger**0.15, 0.35))


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
        tape.tell("checkpoint_restored", at, step=start.step, bytes=size)
    return at


def _compile(
    tape: Tape, draws: Draws, planted: Planted, start: Start, *, init_from: int, at: int
) -> int:
    """Tell the compile; the first batch is fetched beside it, and the later of them ends it."""
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
