"""Which format a file is of, by what its first part holds."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from ett_service.importers.files import Unreadable, pieces_of

_MOST_FILES: Final = 20
_MOST_LINES: Final = 20_000
_MOST_BYTES: Final = 1 << 21

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
    """Return paths by the format of each; one of none is *spare*, else as the first that is any.

    Empty where none is of any.
    """
    formats = [recognised([path]) for path in paths]
    spare = spare or next(filter(None, formats), None)
    grouped: dict[str, list[Path]] = {}
    if spare is not None:
        for path, name in zip(paths, formats, strict=True):
            grouped.setdefault(name or spare, []).append(path)
    return grouped


def recognised(paths: Sequence[Path]) -> str | None:
    """Return the format of the first file that is of one, looking into the first few; or None."""
    for path in islice(_files(paths), _MOST_FILES):
        try:
            head = _head(path)
        except Unreadable:
            continue
        for name, mark in MARKS:
            if mark.search(head):
                return name
    return None


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from (each for each in sorted(path.rglob("*")) if each.is_file())
        elif path.is_file():
            yield path


def _head(path: Path) -> bytes:
    head = bytearray()
    for _, piece in islice(pieces_of(path), _MOST_LINES):
        head += piece
        if len(head) > _MOST_BYTES:
            break
    return bytes(head)
