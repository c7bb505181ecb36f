"""What recording costs the trainer, beside the least that it could cost on this machine.

The floors: a phase is two lines on disk with an instant each, so two ``os.write`` calls of the
same bytes and two reads of the clock; a step has an instant, so one read. Beside them stand the
spans of the OpenTelemetry SDK, which a trainer would use otherwise: a phase against a span that is
on disk too before the call returns, a step against one that goes nowhere at all.

A phase costs about twice its floor, and 1.5 times is out of reach for lines written with one
``os.write`` each: a loop that does nothing but number, date and format a line and write it takes
1.7 times the floor, for Python runs slower right after a call of the system. Shorter lines, dated
and numbered when they are sent, would come to 1.7 in all, binary records to 1.55. Writing into a
mapped file comes to 1.0, but where such a file is cut short, or its file system goes away, the
trainer is killed by SIGBUS; an ``os.write`` fails there, and costs the line.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

import ett_service as ett

FLOOR = "two writes and clock reads"
CLAIMS = {
    "phase / floor": ("at most", 2.0),
    "step / clock read": ("at most", 5.0),
    "OpenTelemetry span on disk / phase": ("at least", 8.0),
    "OpenTelemetry span / step": ("at least", 50.0),
}

Work = tuple[Callable[[int], None], int]
"""What to do so many times, and how many."""


def nanoseconds(work: Callable[[int], None], times: int) -> float:
    """Return the nanoseconds of this thread's processor time that one of *times* runs takes.

    Nothing here waits for a disk or a network, and other processes take none of that time.
    """
    began = time.thread_time_ns()
    work(times)
    return (time.thread_time_ns() - began) / times


def phases(times: int) -> None:
    """Report a phase."""
    for _ in range(times):
        with ett.phase("evaluation"):
            pass


def steps(times: int) -> None:
    """Report a step."""
    step = ett.step
    for n in range(times):
        step(n)


def clock_reads(times: int) -> None:
    """Read the clock."""
    read = time.monotonic_ns
    for _ in range(times):
        read()


def spans(provider: TracerProvider) -> Callable[[int], None]:
    """Return what begins and ends spans of OpenTelemetry."""
    tracer = provider.get_tracer("bench")

    def begin_and_end(times: int) -> None:
        for _ in range(times):
            with tracer.start_as_current_span("evaluation"):
                pass

    return begin_and_end


def spans_to_file(file: TextIO) -> Callable[[int], None]:
    """Return the same, where each span is written to *file* as it ends."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=file)))
    return spans(provider)


def bare_writes(path: Path, line: bytes) -> Callable[[int], None]:
    """Return the floor of a phase: two writes of *line* and two reads of the clock."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(times: int) -> None:
        put, read = os.write, time.monotonic_ns
        for _ in range(times):
            read()
            put(fd, line)
            read()
            put(fd, line)

    return write


def measured(folder: Path, rounds: int, times: int) -> dict[str, float]:
    """Return what each costs in nanoseconds; what is compared is measured together."""
    spool = folder / "spool"
    os.environ["ETT_SPOOL"] = str(spool)
    os.environ.pop("ETT_URL", None)
    ett.init("bench")
    phases(10)
    (written,) = spool.glob("*/*/000001.jsonl")
    line = written.read_bytes().splitlines(keepends=True)[-1]
    with (folder / "spans").open("w", encoding="utf-8") as file:
        pairs: list[dict[str, Work]] = [
            {"phase": (phases, times), FLOOR: (bare_writes(folder / "floor", line), times)},
            {"step": (steps, times * 20), "clock read": (clock_reads, times * 20)},
            {
                "OpenTelemetry span": (spans(TracerProvider(shutdown_on_exit=False)), times),
                "OpenTelemetry span on disk": (spans_to_file(file), times),
            },
        ]
        return {name: cost for pair in pairs for name, cost in medians(pair, rounds).items()}


def medians(work: dict[str, Work], rounds: int) -> dict[str, float]:
    """Return the median nanoseconds of each; rounds are taken in turn, under the same load."""
    taken: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, (do, times) in work.items():
            taken[name].append(nanoseconds(do, times))
    return {name: statistics.median(costs) for name, costs in taken.items()}


def ratios(ns: dict[str, float]) -> dict[str, float]:
    """Divide what is claimed by its floor."""
    return {
        "phase / floor": ns["phase"] / ns[FLOOR],
        "step / clock read": ns["step"] / ns["clock read"],
        "OpenTelemetry span on disk / phase": ns["OpenTelemetry span on disk"] / ns["phase"],
        "OpenTelemetry span / step": ns["OpenTelemetry span"] / ns["step"],
    }


def main() -> int:
    """Print the costs and their ratios; 1 if a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=75)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ns = measured(Path(folder), options.rounds, options.times)
    costs = ratios(ns)
    if options.json:
        print(json.dumps({"nanoseconds": ns, "ratios": costs}))
    else:
        for name, cost in ns.items():
            print(f"{name:36}{cost:8.0f} ns")
        for name, ratio in costs.items():
            print(f"{name:36}{ratio:8.2f}  {CLAIMS[name][0]} {CLAIMS[name][1]:g}")
    holds = all(
        ratio <= bound if word == "at most" else ratio >= bound
        for ratio, (word, bound) in ((costs[name], CLAIMS[name]) for name in costs)
    )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
