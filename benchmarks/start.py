"""What the command takes to start: ``ett --help`` beside a Python that does nothing.

Each is a process of its own, and they take turns. What is claimed is time of a processor, which is
that of the clock where nothing else runs. ``benchmarks/trainer.py`` has ``import ett_service``.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

NOTHING, HELP = "python -c pass", "ett --help"
COMMANDS = {
    NOTHING: [sys.executable, "-c", "pass"],
    HELP: [str(Path(sys.executable).with_name("ett")), "--help"],
}
MOST_MS = 150


def main() -> int:
    """Print the medians; 1 if the claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    rounds = [
        {name: taken_ms(command) for name, command in COMMANDS.items()}
        for _ in range(options.rounds)
    ]
    processor, clock = (
        {name: statistics.median(each[name][of] for each in rounds) for name in COMMANDS}
        for of in (0, 1)
    )
    for name in COMMANDS:
        claim = f"at most {MOST_MS} ms" if name == HELP else ""
        print(f"{name:16}{processor[name]:8.1f} ms  {claim:16}{clock[name]:8.1f} ms by the clock")
    return int(processor[HELP] > MOST_MS)


def taken_ms(command: list[str]) -> tuple[float, float]:
    """Run *command*; return what it took of a processor and by the clock, in milliseconds."""
    before, began = getrusage(RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)  # noqa: S603 -- a list of ours
    took, after = time.perf_counter() - began, getrusage(RUSAGE_CHILDREN)
    ours = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return ours * 1000, took * 1000


if __name__ == "__main__":
    sys.exit(main())
