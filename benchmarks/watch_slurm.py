"""What a watcher of Slurm costs while 10,000 jobs run, beside a bare pass over the same lines.

A program that prints a file stands for ``sacct``, and one for ``squeue``. After the first look each
finds as many jobs newly ended, and begun, as the options say. The processor time is that of this
process: asking, comparing, making events, and writing them as JSON, as to a service that answers at
once. The bare pass splits the same lines.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from ett_service.cli.record.import_delivery import Tally
from ett_service.core.intervals import rfc3339
from ett_service.importers.importer import ImportedRun
from ett_service.importers.slurm.facts import Naming
from ett_service.watchers.slurm import Slurm
from ett_service.watchers.watcher import Watcher
from tests.builders.clock import RECEIVED_AT

EVERY_S = 30
GOAL = 0.05
DELIMITER = "\x1f"
COLUMNS = (
    "Cluster", "JobIDRaw", "JobID", "State", "Start", "Submit", "Eligible", "End", "JobName",
    "User", "Account", "Partition", "QOS", "Reason", "ExitCode", "NNodes", "AllocTRES",
    "NodeList", "Restarts",
)  # fmt: skip
NOW_S = RECEIVED_AT // 10**6


def _at(second: int) -> str:
    return rfc3339(second * 10**6)[:19]


def line(number: int, ended_s: int | None) -> str:
    """Return the row of a job, which began some time in the last days."""
    submit = NOW_S - 1000 - number * 37 % 200_000
    state, end = ("RUNNING", "Unknown") if ended_s is None else ("COMPLETED", _at(ended_s))
    begun = [_at(submit + 50), _at(submit), _at(submit), end]
    who = [f"train-{number % 977}", f"user{number % 50}", "research", "gpu", "normal", "None"]
    size = ["0:0", "1", "billing=64,cpu=64,gres/gpu:h100=8,gres/gpu=8,mem=1000G,node=1", "node1"]
    return DELIMITER.join(["alpha", str(number), str(number), state, *begun, *who, *size, "0"])


def install(folder: Path) -> dict[str, str]:
    """Write the two programs, and return an environment in which they come first."""
    sacct = f'case "$*" in *helpformat*) echo {" ".join(COLUMNS)};; *) cat {folder}/rows;; esac'
    for name, what in (("sacct", sacct), ("squeue", f"cat {folder}/ids")):
        (folder / name).write_text(f"#!/bin/sh\n{what}\n")
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def print_jobs(folder: Path, looked: int, jobs: int, changed: int) -> list[str]:
    """Let the programs print what is there at a look: *changed* of *jobs* end between two."""
    begin = looked * changed
    ended = [line(number, NOW_S + looked * EVERY_S) for number in range(begin)]
    running = [line(number, None) for number in range(begin, begin + jobs)]
    rows = [DELIMITER.join(COLUMNS), *ended[-20 * changed :], *running]
    (folder / "rows").write_text("".join(f"{row}\n" for row in rows))
    (folder / "ids").write_text("".join(f"{each}\n" for each in range(begin, begin + jobs)))
    return rows


def _send(runs: Iterable[ImportedRun]) -> None:
    tally = Tally()
    for run in runs:
        assert tally.take(run)
        json.dumps(run.events)


def main() -> int:
    """Print the share of a core and the ratio to a bare pass; 1 where the share is too large."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--changed", type=int, default=50, help="jobs that end between two looks")
    parser.add_argument("--looks", type=int, default=12)
    args = parser.parse_args()
    taken, bare = [], []
    with tempfile.TemporaryDirectory() as name:
        folder, now = Path(name), [float(NOW_S)]
        source = Slurm(Naming(), install(folder), now=lambda: now[0])
        watcher = Watcher(source, _send, print, EVERY_S)
        for looked in range(args.looks):
            rows = print_jobs(folder, looked, args.jobs, args.changed)
            now[0] = float(NOW_S + looked * EVERY_S)
            began = time.process_time()
            poll = watcher.poll()
            taken.append(time.process_time() - began)
            began = time.process_time()
            for row in rows:
                row.split(DELIMITER)
            bare.append(time.process_time() - began)
            print(f"look {looked}: {poll.news:6} news, {poll.events:6} events, {taken[-1]:.3f} s")
    share = statistics.median(taken[1:]) / EVERY_S
    ratio = statistics.median(bare[1:]) / statistics.median(taken[1:])
    print(f"{share:.2%} of a core with {args.jobs:,} jobs, at most {GOAL:.0%}")
    print(f"{ratio:.2f} of a bare pass that splits the same lines")
    return int(share > GOAL)


if __name__ == "__main__":
    sys.exit(main())
