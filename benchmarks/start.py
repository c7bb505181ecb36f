"""What starting takes: ``ett --help``, ``import ett_service``, and a Python that does nothing.

Each is a process of its own, and they take turns. The import is what it takes more than nothing.
What is claimed is time of a processor, which is that of the clock where nothing else runs.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

NOTHING, IMPORT, HELP = "python -c pass", "import ett_service", "ett --help"
COMMANDS = {
    NOTHING: [sys.executable, "-c", "pass"],
    IMPORT: [sys.executable, "-c", "import ett_service"],
    HELP: [str(Path(sys.executable).with_name("ett")), "--help"],
}
MOST_MS = {IMPORT: 30, HELP: 150}


def main() -> int:
    """Print the medians; 1 if a claim does not hold."""
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
    for ms in processor, clock:
        ms[IMPORT] -= ms[NOTHING]
    for name in COMMANDS:
        claim = f"at most {MOST_MS[name]} ms" if name in MOST_MS else ""
        print(f"{name:20}{processor[name]:8.1f} ms  {claim:16}{clock[name]:8.1f} ms by the clock")
    return int(any(processor[name] > most for name, most in MOST_MS.items()))


def taken_ms(command: list[str]) -> tuple[float, float]:
    """Run *command*; return what it took of a processor and by the clock, in milliseconds."""
    before, began = getrusage(RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)  # noqa: S603 -- a list of ours
    took, after = time.perf_counter() - began, getrusage(RUSAGE_CHILDREN)
    ours = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return ours * 1000, took * 1000


if __name__ == "__main__":
    sys.exit(main())
