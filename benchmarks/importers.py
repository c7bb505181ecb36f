"""How fast importers read, beside a bare pass that splits the same lines.

Each format has a generator of lines and a function that reads a file of them. The bare pass reads
the file as text, and splits each line into its fields, of JSON with ``json.loads``; of a format
that is no text, lines that say the same. Both are run in turns, their processor time is taken, and
the best round counts. Events are made, not sent. A format misses the goal where it reads fewer than
50,000 lines (of OTLP spans) a second, or less than 0.3 of the bare pass.

The second line of a row says what of that could be reached at all: what a line takes to split, how
many events it becomes, and what these take to be copied once, and written and digested once, as
their ids need. A reader that did nothing else would reach so much of the bare pass as is said last.
Where a format could do better than that says, the reason is here:

- A row of a table has three instants to place and seven values to look up, besides its five events.
- A span of OTLP takes the way of ``POST /v1/traces``: it is parsed alone, so that a bomb of
  attributes is refused alone, then mapped to two events and checked.
- Accounting without a column ``Restarts`` is read twice: first for the jobs with several records.
- A row of W&B is protobuf in frames with checksums, read in Python, beside ``json.loads`` in C.
- A line of MLPerf is decoded of what is read alone, then compared with the edges of its run.
- A line of MLflow is three words and one of a dump of Kubernetes one or two, which take 0.2 us to
  split. A pattern that finds out whether a line is right takes longer than that already; a dump's
  JSON is decoded, and the histories of its objects are put together.
"""

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks import slurm_lines, telemetry_lines, tracker_lines, trainer_lines
from ett_service.cli.record import otlp_files
from ett_service.importers import mlperf
from ett_service.importers.importer import Fact, ImportedRun, Report
from ett_service.importers.kubernetes import dumps
from ett_service.importers.logs import megatron, profiled_log, table, torch_trace, torchelastic
from ett_service.importers.slurm import sacct
from ett_service.importers.telemetry import dlrover, goodput, mlflow, nvrx, one_logger, wandb

GOAL_A_SECOND = 50_000
GOAL_RATIO = 0.3
EXAMPLES = Path(__file__).parents[1] / "examples/import"

Write = Callable[[Path, list[str]], Path]
Read = Callable[[list[Path]], tuple[Iterator[ImportedRun], Report]]


class Format(NamedTuple):
    """What is read, and how a bare pass splits it."""

    lines: Callable[[int], Iterable[str]]  #: about as many lines as it is asked for
    read: Read
    split: Callable[[str], object] = str.split  #: a line into its fields
    records: int = 1  #: how many a line holds: of OTLP an export's spans
    write: Write | None = None  #: for what is no text: it says what the lines say


def _by_commas(line: str) -> list[str]:
    return line.split(",")


def _by_bars(line: str) -> list[str]:
    return line.split("|")


def _by_tabs(line: str) -> list[str]:
    return line.split("\t")


def _after_mark(line: str) -> object:
    return json.loads(line[line.index("{") :])


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
    "k8s": Format(tracker_lines.dump_lines, dumps.read),
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
    "megatron-progress": Format(
        tracker_lines.save_lines, partial(megatron.read, zone=UTC), _by_tabs
    ),
    "mlflow": Format(tracker_lines.metric_lines, mlflow.read, write=tracker_lines.as_mlflow),
    "mlflow-db": Format(
        tracker_lines.metric_lines, mlflow.read, write=tracker_lines.as_mlflow_database
    ),
    "mlperf": Format(tracker_lines.benchmark_lines, mlperf.read, _after_mark),
    "nvrx": Format(telemetry_lines.nvrx_lines, nvrx.read),
    "one-logger": Format(telemetry_lines.one_logger_lines, one_logger.read, json.loads),
    "otlp": Format(telemetry_lines.otlp_lines, otlp_files.read, json.loads, telemetry_lines.SPANS),
    "parquet": Format(
        trainer_lines.job_lines,
        partial(table.read_parquet, mapping=table.Mapping(EXAMPLES / "job-table.yaml")),
        _by_commas,
        write=tracker_lines.as_parquet,
    ),
    "sacct": Format(slurm_lines.sacct_lines, partial(sacct.read, zone=UTC), _by_bars),
    "sacct-old": Format(slurm_lines.old_sacct_lines, partial(sacct.read, zone=UTC), _by_bars),
    "sacct-wide": Format(slurm_lines.wide_sacct_lines, partial(sacct.read, zone=UTC), _by_bars),
    "torch-trace": Format(trainer_lines.trace_lines, torch_trace.read),
    "torchelastic": Format(trainer_lines.agent_lines, partial(torchelastic.read, zone=UTC)),
    "wandb": Format(
        tracker_lines.history_lines, wandb.read, json.loads, write=tracker_lines.as_wandb
    ),
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


def writing_seconds(form: Format, path: Path) -> tuple[int, float, float]:
    """Return the number of events, how long it takes to copy them, and to write and digest each."""
    encode = msgspec.json.Encoder(order="sorted").encode
    count, copying, writing = 0, 0.0, 0.0
    runs, _ = form.read([path])
    for run in runs:
        events = run.events
        count += len(events)
        began = time.process_time()
        for event in events:
            Fact(event.copy(), 1)
        copied = time.process_time()
        for event in events:
            hashlib.sha256(encode(event)).hexdigest()
        writing += time.process_time() - copied
        copying += copied - began
    return count, copying, writing


class Measured(NamedTuple):
    """What a record takes, in microseconds."""

    reading: float
    splitting: float
    copying: float  #: of its events
    writing: float
    events: float

    @property
    def of_bare(self) -> float:
        """The ratio to a pass that splits the lines."""
        return self.splitting / self.reading

    @property
    def of_written(self) -> float:
        """The ratio to one that writes and digests the events, too."""
        return (self.splitting + self.writing) / self.reading

    @property
    def most_of_bare(self) -> float:
        """What a reader would reach for which splitting, copying and writing was all."""
        return self.splitting / (self.splitting + self.copying + self.writing)


def measured(form: Format, lines: int, rounds: int) -> Measured:
    """Return the best of some rounds: what else runs on a machine only ever takes from them."""
    with tempfile.TemporaryDirectory() as folder:
        texts = list(form.lines(lines))
        bare = Path(folder) / "log.txt"
        bare.write_text("".join(f"{text}\n" for text in texts), "utf-8")
        path = bare if form.write is None else form.write(Path(folder), texts)
        taken = [_round(form, path, bare) for _ in range(rounds)]
    records = len(texts) * form.records
    read, split, copied, written, events = (
        min(each) / records for each in zip(*taken, strict=True)
    )
    return Measured(read * 1e6, split * 1e6, copied * 1e6, written * 1e6, events)


def _round(form: Format, path: Path, bare: Path) -> tuple[float, ...]:
    count, copying, writing = writing_seconds(form, path)
    return read_seconds(form, path), bare_seconds(form, bare), copying, writing, count


def main() -> int:
    """Print records a second, the ratios and why; 1 where a format misses a goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*", help=f"of {', '.join(FORMATS)} (default: all)")
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    missed = False
    for name in args.formats or FORMATS:
        each = measured(FORMATS[name], args.lines, args.rounds)
        rate = 1e6 / each.reading
        print(
            f"{name:17} {rate:9,.0f} a second, {each.of_bare:.2f} of a bare pass, "
            f"{each.of_written:.2f} of one that writes the events"
            f"{'' if rate >= GOAL_A_SECOND and each.of_bare >= GOAL_RATIO else ', missed'}\n"
            f"{'':17} {each.reading:9.2f} us each: split {each.splitting:.2f}, "
            f"{each.events:.2f} events, to copy {each.copying:.2f}, to write {each.writing:.2f}: "
            f"at most {each.most_of_bare:.2f} of a bare pass",
            flush=True,
        )
        missed |= rate < GOAL_A_SECOND or each.of_bare < GOAL_RATIO
    print(f"at least {GOAL_A_SECOND:,} lines, of otlp spans, a second, {GOAL_RATIO} of a bare pass")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
