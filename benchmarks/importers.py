"""How fast importers read, beside a bare pass that splits the same lines.

Each format has a generator of lines and a function that reads a file of them. The bare pass reads
the file as text, and splits each line into its fields, of JSON with ``json.loads``. The second
floor is that pass and, for each event that the lines become, what its id needs: its JSON, sorted,
and a digest. A row of a table becomes five events, a line of a log none or one, so that the second
is the one to compare tables and accounting by. All are run in turns, and their processor time is
taken. Events are made, not sent.
"""

import argparse
import hashlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC
from functools import partial
from operator import truediv
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks import slurm_lines, telemetry_lines, trainer_lines
from ett_service.cli.record import otlp_files
from ett_service.importers.importer import ImportedRun, Report
from ett_service.importers.logs import megatron, profiled_log, table, torch_trace, torchelastic
from ett_service.importers.slurm import sacct
from ett_service.importers.telemetry import dlrover, goodput, nvrx, one_logger

GOAL_A_SECOND = 50_000
GOAL_RATIO = 0.3
EXAMPLES = Path(__file__).parents[1] / "examples/import"

Read = Callable[[list[Path]], tuple[Iterator[ImportedRun], Report]]


class Format(NamedTuple):
    """What is read, and how a bare pass splits it."""

    lines: Callable[[int], Iterable[str]]  #: about as many lines as it is asked for
    read: Read
    split: Callable[[str], object] = str.split  #: a line into its fields
    records: int = 1  #: how many a line holds: of OTLP an export's spans


def _by_commas(line: str) -> list[str]:
    return line.split(",")


def _by_bars(line: str) -> list[str]:
    return line.split("|")


FORMATS: dict[str, Format] = {
    "csv": Format(
        trainer_lines.job_lines,
        partial(table.read_csv, mapping=table.Mapping(EXAMPLES / "job-table.yaml")),
        _by_commas,
    ),
    "dlrover": Format(
        telemetry_lines.dlrover_lines,
        partial(dlrover.read, zone=UTC),
        telemetry_lines.dlrover_fields,
    ),
    "goodput": Format(telemetry_lines.goodput_lines, goodput.read, json.loads),
    "log": Format(
        trainer_lines.plain_lines,
        partial(
            profiled_log.read,
            job="llm",
            profile=profiled_log.Profile(EXAMPLES / "python-logging.yaml"),
            zone=UTC,
        ),
    ),
    "megatron": Format(trainer_lines.output_lines, partial(megatron.read, zone=UTC)),
    "nvrx": Format(telemetry_lines.nvrx_lines, nvrx.read),
    "one-logger": Format(telemetry_lines.one_logger_lines, one_logger.read, json.loads),
    "otlp": Format(telemetry_lines.otlp_lines, otlp_files.read, json.loads, telemetry_lines.SPANS),
    "sacct": Format(slurm_lines.sacct_lines, partial(sacct.read, zone=UTC), _by_bars),
    "sacct-old": Format(slurm_lines.old_sacct_lines, partial(sacct.read, zone=UTC), _by_bars),
    "sacct-wide": Format(slurm_lines.wide_sacct_lines, partial(sacct.read, zone=UTC), _by_bars),
    "torch-trace": Format(trainer_lines.trace_lines, torch_trace.read),
    "torchelastic": Format(trainer_lines.agent_lines, partial(torchelastic.read, zone=UTC)),
}
"""By name; a line for each format."""


def read_seconds(form: Format, path: Path) -> float:
    """Return how long it takes to make all events, each run of which is let go as it is sent."""
    began = time.process_time()
    runs, _ = form.read([path])
    events = sum(len(run.facts) for run in runs)
    taken = time.process_time() - began
    assert events > 0
    return taken


def bare_seconds(form: Format, path: Path) -> float:
    """Return how long it takes to split all lines."""
    began = time.process_time()
    with path.open(encoding="utf-8") as file:
        for line in file:
            form.split(line)
    return time.process_time() - began


def writing_seconds(form: Format, path: Path) -> float:
    """Return how long it takes to write and digest each event once, without making it."""
    encode = msgspec.json.Encoder(order="sorted").encode
    taken = 0.0
    runs, _ = form.read([path])
    for run in runs:
        events = run.events
        began = time.process_time()
        for event in events:
            hashlib.sha256(encode(event)).hexdigest()
        taken += time.process_time() - began
    return taken


class Measured(NamedTuple):
    """Records a second, and the ratios to the two floors."""

    rate: float
    of_bare: float
    of_written: float


def measured(form: Format, lines: int, rounds: int) -> Measured:
    """Return the middle of some rounds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.txt"
        path.write_text("".join(f"{line}\n" for line in form.lines(lines)), "utf-8")
        count = sum(form.records for _ in path.open(encoding="utf-8"))
        rounds_of = [_round(form, path) for _ in range(rounds)]
    read, bare, written = zip(*rounds_of, strict=True)
    return Measured(
        count / statistics.median(read),
        statistics.median(map(truediv, bare, read)),
        statistics.median(map(truediv, written, read)),
    )


def _round(form: Format, path: Path) -> tuple[float, float, float]:
    read, bare = read_seconds(form, path), bare_seconds(form, path)
    return read, bare, bare + writing_seconds(form, path)


def main() -> int:
    """Print records a second and the ratios of each format; 1 where one misses a goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*", help=f"of {', '.join(FORMATS)} (default: all)")
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    missed = False
    for name in args.formats or FORMATS:
        rate, of_bare, of_written = measured(FORMATS[name], args.lines, args.rounds)
        floors = f"{of_bare:.2f} of a bare pass, {of_written:.2f} of one that writes the events"
        print(f"{name:12} {rate:9,.0f} a second, {floors}", flush=True)
        missed |= rate < GOAL_A_SECOND or max(of_bare, of_written) < GOAL_RATIO
    print(f"at least {GOAL_A_SECOND:,} lines, of otlp spans, a second, and {GOAL_RATIO} of a floor")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
