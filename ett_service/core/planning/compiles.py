"""The compiles of a job, put together from the spans of their stages, and why torch recompiled.

torch compiles a function anew when a guard of each earlier compile of it fails, and reports the
first such guard: ``0/1: tensor 'x' size mismatch at index 0. expected 4, actual 6`` or
``0/1: k == 2  # return x * k``. Older PyTorch writes a local variable as the source that it is,
``L['x']``, later ones by its name alone.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ett_service.core.events import SpanOver
from ett_service.core.ledger.attempts.attempts import Clocks
from ett_service.core.ledger.results import AttemptLedger, JobLedger
from ett_service.core.words import Phase

STAGES = ("dynamo", "aot_dispatch", "cache_load", "inductor", "async_compile_wait", "autotune")
"""The stages of a compile, in the order in which it has them."""

AUTOTUNE = "autotune"
_PLACES = {stage: place for place, stage in enumerate(STAGES)}

Kind = Literal[
    "branch_on_size",
    "constant",
    "dtype",
    "float",
    "grad_mode",
    "length",
    "object",
    "rank",
    "requires_grad",
    "size_0_or_1",
    "stride",
    "other",
]
"""What a recompile is about that no dynamic source stops."""

HINTS: dict[Kind, str] = {
    "branch_on_size": "Code branches on a size, or asks two sizes to agree. Keep sizes on one "
    "side of the branch, or move it out of the compiled function.",
    "constant": "Each value of a bool, a string or None has its own compile. Pass only values "
    "that differ seldom, or move the choice out of the compiled function.",
    "dtype": "Convert to one dtype before the call.",
    "float": "Pass the number as a tensor of no dimensions.",
    "grad_mode": "Call it in one state: with gradients or without, under autocast or not.",
    "length": "Pass lists and dictionaries of one length, or one padded tensor.",
    "object": "Make modules, functions and objects once, and pass the same ones.",
    "rank": "Pass tensors of one number of dimensions.",
    "requires_grad": "Pass a tensor always with requires_grad or always without.",
    "size_0_or_1": "torch compiles apart for a size of 0 or 1. Pad, or leave out the last short "
    "batch (drop_last=True).",
    "stride": "Call contiguous() before the call.",
}


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


@dataclass(frozen=True, slots=True)
class Source:
    """A source that varies, and the dimension, where it is one of a tensor."""

    name: str  #: as torch asks for it: ``L['x']``, ``L['self'].scale``, ``G['STEPS']``
    dim: int | None = None


_COMPILE_ID = re.compile(r"\s*\[?!?\d+(?:/\d+)*\]?:\s*")
_COMMENT = re.compile(r"\s+#\s.*")
_UNEQUAL = re.compile(
    r"tensor '(?P<name>.+?)' (?P<what>size|stride) mismatch at index (?P<dim>\d+)\."
    r" expected (?P<expected>-?\d+), actual (?P<actual>-?\d+)"
)
_MISMATCH = re.compile(r"tensor '.+?' (?P<what>dtype|rank|requires_grad|stride) mismatch")
_NAME = r"(?P<name>[A-Za-z_]\w*(?:\.\w+|\[(?:\d+|'[^']*'|\"[^\"]*\")\])*)"
_IS_INT = re.compile(rf"{_NAME} == (?P<value>-?\d+)")
_IS_FLOAT = re.compile(rf"{_NAME} == -?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|inf|nan)")
_IS_CONSTANT = re.compile(
    rf"(?:not )?{_NAME}(?: is (?:not )?None| == (?:True|False|None|['\"].*))?"
)
_AT_LEAST_TWO = re.compile(r"2 <= [^<>=]+\.size\(\)\[\d+\]")
_KINDS: tuple[tuple[re.Pattern[str], Kind], ...] = (
    (_AT_LEAST_TWO, "size_0_or_1"),
    (re.compile(r".*\.(?:size|stride|storage_offset)\(\)"), "branch_on_size"),
    (re.compile(r"(?:not )?len\("), "length"),
    (re.compile(r"(?:___check_global_state|GLOBAL_STATE)"), "grad_mode"),
    (re.compile(r".*(?:___check_(?:obj|type)_id|deallocated|type\(|id\()"), "object"),
    (_IS_FLOAT, "float"),
    (_IS_CONSTANT, "constant"),
)
_ROOT = re.compile(r"[A-Za-z_]\w*")
_PART = re.compile(r"(.+):(\d+)")
_SPECIALISED = frozenset({0, 1})


def cause_of(reason: str) -> Source | Kind:
    """Return what a recompile is about: the source that varied, if a setting stops it.

    A size that was or became 0 or 1 has a compile of its own, whatever the setting; so has
    a stride of 1, which says that the tensor was transposed.
    """
    guard = _guard(reason)
    if unequal := _UNEQUAL.match(guard):
        if _SPECIALISED & {int(unequal["expected"]), int(unequal["actual"])}:
            return "size_0_or_1" if unequal["what"] == "size" else "stride"
        dim = int(unequal["dim"]) if unequal["what"] == "size" else None
        return Source(source_name(unequal["name"]), dim)
    if mismatch := _MISMATCH.match(guard):
        kinds: dict[str, Kind] = {"dtype": "dtype", "rank": "rank", "stride": "stride"}
        return kinds.get(mismatch["what"], "requires_grad")
    if value := _IS_INT.fullmatch(guard):
        return Source(source_name(value["name"]))
    return _kind(guard)


def _guard(reason: str) -> str:
    """Return the guard that failed, without the compile's id and the line of code behind it."""
    return _COMMENT.sub("", _COMPILE_ID.sub("", reason, count=1), count=1).strip()


def _kind(guard: str) -> Kind:
    whole = (_IS_FLOAT, _IS_CONSTANT, _AT_LEAST_TWO)
    for pattern, kind in _KINDS:
        if (pattern.fullmatch if pattern in whole else pattern.match)(guard):
            return kind
    return "other"


def source_name(name: str) -> str:
    """Return the whole source of a name in a reason: ``L['d']['m']`` for ``d['m']``."""
    root = _ROOT.match(name)
    if root is None or name.startswith(("L[", "G[")):
        return name
    return f"L['{root[0]}']{name[root.end() :]}"


def source_of(text: str) -> Source:
    """Read a source that torch has seen vary: ``L['x']:0`` or ``L['k']``."""
    part = _PART.fullmatch(text)
    return Source(part[1], int(part[2])) if part else Source(text)


def setting_entry(name: str) -> str:
    """Return what names a source in ``TORCH_COMPILE_DYNAMIC_SOURCES``.

    torch parts the value at commas and drops spaces, then compares whole names and matches
    regular expressions; a name that has either is written as one.
    """
    if "," not in name and " " not in name:
        return name
    return re.sub(r"\\?[ ,]", ".", re.escape(name)) + "$"


def expression(name: str) -> str:
    """Return how the code of the compiled function writes a source: ``d['m']``, ``self.scale``."""
    return re.sub(r"^[LG]\[(['\"])(\w+)\1\]", r"\2", name)


def mark_dynamic_line(name: str, dims: tuple[int, ...]) -> str | None:
    """Return the line of Python that has torch expect these dimensions to vary; None for ints."""
    if not dims:
        return None
    which = str(dims[0]) if len(dims) == 1 else str(list(dims))
    return f"torch._dynamo.mark_dynamic({expression(name)}, {which})"
