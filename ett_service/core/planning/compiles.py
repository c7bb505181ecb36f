"""The compiles of a job, put together from the spans of their stages."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ett_service.core.events import SpanOver
from ett_service.core.ledger.attempts.attempts import Clocks
from ett_service.core.ledger.results import AttemptLedger, JobLedger
from ett_service.core.words import Phase

STAGES = ("dynamo", "aot_dispatch", "cache_load", "inductor", "async_compile_wait", "autotune")
"""The stages of a compile, in the order in which it has them."""

AUTOTUNE = "autotune"
_PLACES = {stage: place for place, stage in enumerate(STAGES)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compile:
    """One compile, forward or backward, of one process."""

    job: str
    compile_id: str
    model: str | None = None
    code_version: str | None = None
    attempt: int = 0  #: its number in the job
    process: str | None = None
    at: int = 0  #: when its first stage began
    direction: str = "forward"
    function: str | None = None
    cache: str | None = None  #: ``cold``, ``warm`` or ``mixed``; None where no cache was asked
    reason: str | None = None  #: of a recompile: the guard that failed
    varying: tuple[str, ...] = ()  #: what torch has seen vary in the function by then
    kernels: Mapping[str, int] = field(default_factory=dict)  #: microseconds by Triton kernel
    tuned_inside_us: int = 0  #: autotuning that is a part of the stage ``inductor``
    stages_us: Mapping[str, int] = field(default_factory=dict)

    @property
    def us(self) -> int:
        """How long it took."""
        return sum(self.stages_us.values())

    @property
    def autotune_us(self) -> int:
        """How long it tuned kernels, while it compiled and when they first ran."""
        return self.tuned_inside_us + self.stages_us.get(AUTOTUNE, 0)


def compiles_of(
    job: str, spans: Iterable[SpanOver], offsets: Mapping[str, int], ledger: JobLedger
) -> list[Compile]:
    """Return the compiles of the lead ranks by time; *spans* may hold others.

    *offsets* are microseconds by producer. Stages are told apart by their process, the compile's
    id and its direction. An id is used again after ``torch._dynamo.reset()``: a stage that comes
    no later in ``STAGES`` than the one before it begins another compile. A backward gets the
    reason of its forward.
    """
    compiles: list[Compile] = []
    latest: dict[tuple[object, ...], int] = {}
    for stage in sorted(_stages(job, spans, offsets, ledger), key=_in_time):
        frame = (stage.attempt, stage.process, stage.compile_id)
        place = latest.get((*frame, stage.direction))
        if place is not None and _goes_on(compiles[place], stage):
            compiles[place] = _joined(compiles[place], stage)
            continue
        forward = latest.get((*frame, "forward"))
        latest[*frame, stage.direction] = len(compiles)
        compiles.append(stage if forward is None else _with_forward(stage, compiles[forward]))
    return compiles


def _stages(
    job: str, spans: Iterable[SpanOver], offsets: Mapping[str, int], ledger: JobLedger
) -> Iterator[Compile]:
    """Yield each stage as a compile that has no other; one without an id is of none."""
    staged = [
        span
        for span in spans
        if span.phase is Phase.PT2_COMPILE
        and span.stage in _PLACES
        and isinstance(span.attributes.get("compile_id"), str)
    ]
    clocks = Clocks()
    clocks.admit(staged, offsets)
    for span in staged:
        shift = clocks.shift_us(span)
        attempt = _attempt_at(ledger.attempts, span.start + shift, span)
        if attempt is not None and span.rank == attempt.lead_rank:
            yield Compile(
                job=job,
                model=ledger.facts.model,
                code_version=attempt.code_version,
                attempt=attempt.number,
                process=span.producer,
                at=span.start + shift,
                stages_us={span.stage or "": max(0, span.at - span.start)},
                **_facts(span.attributes),
            )


def _in_time(stage: Compile) -> tuple[int, int, str]:
    (name,) = stage.stages_us
    return stage.at, _PLACES[name], stage.compile_id


def _attempt_at(attempts: Sequence[AttemptLedger], at: int, span: SpanOver) -> AttemptLedger | None:
    """Return the attempt in which a span began, the one that it names before others."""
    alive = [each for each in attempts if each.started_at <= at <= each.ended_at]
    named = (span.launch, span.attempt, span.cycle or 0)

    def likeness(each: AttemptLedger) -> tuple[int, int]:
        names = zip(named, (each.launch, each.attempt, each.cycle), strict=True)
        return sum(ours == theirs for ours, theirs in names), each.number

    return max(alive, key=likeness, default=None)


def _facts(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Read the attributes of a stage; what is not of the expected type is left out."""
    texts = {
        member: attributes[name]
        for member, name in _TEXTS.items()
        if isinstance(attributes.get(name), str)
    }
    names, tuned = attributes.get("varying"), attributes.get("compile_autotune_us")
    return {
        **texts,
        "varying": tuple(map(str, names)) if isinstance(names, list) else (),
        "kernels": _kernels(attributes.get("kernels")),
        "tuned_inside_us": tuned if isinstance(tuned, int) and tuned > 0 else 0,
    }


_TEXTS = {
    "compile_id": "compile_id",
    "direction": "direction",
    "function": "function",
    "cache": "compile_cache",
    "reason": "recompile_reason",
}


def _kernels(text: object) -> dict[str, int]:
    """Read ``[["triton_poi_fused_add_0", 1234], ...]``: the slowest kernels and microseconds."""
    try:
        pairs = json.loads(text) if isinstance(text, str) else []
        return {str(name): int(us) for name, us in pairs}
    except (ValueError, TypeError):
        return {}


def _goes_on(compile_: Compile, stage: Compile) -> bool:
    """Whether a stage is of the same compile; autotuning comes whenever a kernel first runs."""
    (name,) = stage.stages_us
    return name == AUTOTUNE or _PLACES[name] > max(_PLACES[each] for each in compile_.stages_us)


def _joined(compile_: Compile, stage: Compile) -> Compile:
    stages_us = Counter(compile_.stages_us)
    stages_us.update(stage.stages_us)
    return replace(compile_, stages_us=dict(stages_us))


def _with_forward(stage: Compile, forward: Compile) -> Compile:
    if stage.direction == "forward":
        return stage
    return replace(stage, reason=forward.reason, function=stage.function or forward.function)
