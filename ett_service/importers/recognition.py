"""Which format a file is of, by what its first part holds."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from ett_service.importers.files import Unreadable, pieces_of

_MOST_FILES: Final = 10_000
_MOST_LINES: Final = 20_000
_MOST_BYTES: Final = 1 << 21
_EARLY: Final = 1 << 16

UNKNOWN: Final = ""

MARKS: Final[tuple[tuple[str, re.Pattern[bytes]], ...]] = (
    ("wandb", re.compile(rb"\A:W&B")),
    ("mlflow", re.compile(rb"\ASQLite format 3\0|^lifecycle_stage: ", re.MULTILINE)),
    ("parquet", re.compile(rb"\APAR1")),
    ("mlperf", re.compile(rb":::MLLOG ")),
    (
        "goodput",
        re.compile(
            rb'"(?:step|job|tpu_init|training_prep|data_loading|custom_badput_event)'
            rb'_(?:start|end)_time"\s*:'
        ),
    ),
    (
        "nvrx",
        re.compile(
            rb'- Cycle: \d+ Event: [a-z_]+ Node: |"cycle_start_time"\s*:|\] rank=\d+ [a-z]+_ex: '
        ),
    ),
    (
        "dlrover",
        re.compile(rb'\] ?\[(?:BEGIN|END|INSTANT)\] ?\{|"event_type": ?"(?:BEGIN|INSTANT)"'),
    ),
    (
        "otlp",
        re.compile(
            rb'"resourceSpans"\s*:|\A(?:\0...)?(?:\n.{1,5}\n|\x28\xb5\x2f\xfd)',
            re.DOTALL,
        ),
    ),
    ("one-logger", re.compile(rb'"type"\s*:\s*"(?:start|complete|event)".*"timestamp_msec"\s*:')),
    ("torchelastic", re.compile(rb'"source"\s*:\s*"(?:AGENT|WORKER)"|\A\{"message": \{"message":')),
    ("torch-trace", re.compile(rb"^V\d{4} \d\d:\d\d:\d\d\.\d+ .*\] \{", re.MULTILINE)),
    ("megatron", re.compile(rb"\biteration +\d+/ +\d+ \||\tJob ID: .*\t# GPUs: ")),
    ("sacct", re.compile(rb"\A(?=.*\bJobID(?:Raw)?\b)(?=.*\bState\b).*\|")),
    (
        "k8s",
        re.compile(
            rb'(?:^\s*|[{,]\s*)"?kind"?\s*:\s*"?'
            rb"(?:Pod|Job|JobSet|TrainJob|PyTorchJob|Workload|Node|List|\w+List)\b",
            re.MULTILINE,
        ),
    ),
)
"""What only a file of the format holds; the first that matches is it."""


def by_format(paths: Sequence[Path], spare: str | None = None) -> dict[str, list[Path]]:
    """Return paths by the format of each; a folder of several is taken apart, down to its files.

    A path of none is *spare*, else as the first that is of any. What lies in a folder beside files
    of some format and is of none is *spare*, else ``UNKNOWN``. Empty where none is of any.
    """
    formats = {path: _formats_below(path) for path in paths}
    unknown = spare or UNKNOWN
    spare = spare or next((name for names in formats.values() for name in names.values()), None)
    grouped: dict[str, list[Path]] = {}
    if spare is None:
        return grouped
    for path, names in formats.items():
        for name, part in _parts(path, names, unknown if names else spare):
            grouped.setdefault(name, []).append(part)
    return grouped


def _parts(path: Path, formats: Mapping[Path, str], spare: str) -> Iterator[tuple[str, Path]]:
    """Yield the largest parts of *path* that are of one format each."""
    names = {name for file, name in formats.items() if file == path or path in file.parents}
    if len(names) < 2:  # noqa: PLR2004 -- several
        yield next(iter(names), spare), path
        return
    for child in sorted(path.iterdir()):
        yield from _parts(child, formats, spare)


def _formats_below(path: Path) -> dict[Path, str]:
    """Return the formats of the files below a path, of those that have one."""
    formats: dict[Path, str] = {}
    likely = ""
    for file in islice(_files([path]), _MOST_FILES):
        if name := _format_of(file, likely):
            formats[file] = likely = name
    return formats


def _format_of(path: Path, likely: str = "") -> str | None:
    """Return the format of a file; one that has the mark of the *likely* one early is of it."""
    try:
        head = _head(path, _EARLY) if likely else b""
        if likely and dict(MARKS)[likely].search(head):
            return likely
        head = _head(path, _MOST_BYTES)
    except Unreadable:
        return None
    return next((name for name, mark in MARKS if mark.search(head)), None)


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from (each for each in sorted(path.rglob("*")) if each.is_file())
        elif path.is_file():
            yield path


def _head(path: Path, most: int) -> bytes:
    head = bytearray()
    for _, piece in islice(pieces_of(path), _MOST_LINES):
        head += piece
        if len(head) > most:
            break
    return bytes(head)
