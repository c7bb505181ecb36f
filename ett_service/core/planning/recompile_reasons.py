"""Reasons of recompiles, as torch words them: what varied, and what would stop it.

torch compiles a function anew when a guard of each earlier compile of it fails, and tells the
first such guard: ``0/1: tensor 'x' size mismatch at index 0. expected 4, actual 6`` or
``0/1: k == 2  # return x * k``. Older PyTorch writes a local variable as the source that it is,
``L['x']``, later ones by its name alone.
"""

import re
from dataclasses import dataclass
from typing import Literal

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
