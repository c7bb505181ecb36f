"""How fast importers read, beside a bare pass that splits the same lines.

Each format has a generator of lines and a function that reads a file of them. The bare pass reads
the file as text, and splits each line. Both are run in turns, and their processor time is taken.
Events are made, not sent.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ett_service.core.intervals import rfc3339
from ett_service.importers.importer import ImportedRun, Report
from ett_service.importers.slurm import sacct
from tests.builders.clock import RECEIVED_AT

GOAL_LINES_S = 50_000
GOAL_RATIO = 0.3

Read = Callable[[list[Path]], tuple[Iterator[ImportedRun], Report]]


class Format(NamedTuple):
    """What is read, and how a bare pass splits it."""

    lines: Callable[[int], Iterable[str]]  #: about as many lines as it is asked for
    read: Read
    delimiter: str | None = None  #: None: blanks


def _at(second: int) -> str:
    return rfc3339(RECEIVED_AT + second * 1_000_000)[:19]


def sacct_lines(count: int, *, restarts: bool = True) -> Iterator[str]:
    """Jobs of a job's own row and three of its steps, as ``sacct -P`` prints them."""
    columns = "JobID JobIDRaw Cluster JobName User Account Partition QOS Submit Eligible Start End "
    columns += "ElapsedRaw State Reason ExitCode NNodes NodeList AllocTRES"
    yield "|".join([*columns.split(), *(["Restarts"] if restarts else [])])
    more = "|0" if restarts else ""
    tres = "billing=64,cpu=64,gres/gpu:h100=8,gres/gpu=8,mem=1000G,node=1"
    for number in range(100_000, 100_000 + count // 4):
        times = "|".join(_at(number * 7 + each) for each in (0, 0, 40, 3640))
        ended = f"{times}|3600|COMPLETED|Resources|0:0|1|node{number % 100:03d}|{tres}{more}"
        name = f"train-{number % 977}"
        yield f"{number}|{number}|alpha|{name}|user{number % 50}|research|gpu|normal|{ended}"
        for step in ("batch", "extern", "0"):
            yield f"{number}.{step}|{number}.{step}|alpha|{step}||research|||{ended}"


def old_sacct_lines(count: int) -> Iterator[str]:
    """The same of a Slurm that does not print how often a job was restarted."""
    return sacct_lines(count, restarts=False)


def wide_sacct_lines(count: int) -> Iterator[str]:
    """The same with as many columns as ``--format=ALL`` has."""
    for number, line in enumerate(sacct_lines(count)):
        yield line + "".join(f"|Column{each}" if not number else "|0.00M" for each in range(90))


FORMATS: dict[str, Format] = {
    "sacct": Format(sacct_lines, sacct.read, "|"),
    "sacct-old": Format(old_sacct_lines, sacct.read, "|"),
    "sacct-wide": Format(wide_sacct_lines, sacct.read, "|"),
}
"""By name; a line for each format."""


def read_seconds(form: Format, path: Path) -> float:
    """Return how long it takes to make all events."""
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
            line.split(form.delimiter)
    return time.process_time() - began


def measured(form: Format, lines: int, rounds: int) -> tuple[float, float]:
    """Return lines a second, and the ratio to the bare pass, of the middle of some rounds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.txt"
        path.write_text("".join(f"{line}\n" for line in form.lines(lines)), "utf-8")
        count = sum(1 for _ in path.open(encoding="utf-8"))
        taken = [(read_seconds(form, path), bare_seconds(form, path)) for _ in range(rounds)]
    rate = count / statistics.median(read for read, _ in taken)
    return rate, statistics.median(bare / read for read, bare in taken)


def main() -> int:
    """Print lines a second and the ratio of each format; 1 where one misses a goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*", help=f"of {', '.join(FORMATS)} (default: all)")
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    missed = False
    for name in args.formats or FORMATS:
        rate, ratio = measured(FORMATS[name], args.lines, args.rounds)
        print(f"{name:12} {rate:9,.0f} lines a second, {ratio:.2f} of a bare pass", flush=True)
        missed |= rate < GOAL_LINES_S or ratio < GOAL_RATIO
    print(f"at least {GOAL_LINES_S:,} lines a second and {GOAL_RATIO}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
