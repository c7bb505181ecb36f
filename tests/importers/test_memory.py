"""What a valid log of twice the size costs in memory: a part of its bytes."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.importers import FORMATS

_MIB = 1 << 20
_NOISE_BYTES = 3 * _MIB

READ = """
import sys
from pathlib import Path
from benchmarks.importers import FORMATS
from ett_service.cli.record.import_delivery import Tally
tally = Tally()
runs, _ = FORMATS[sys.argv[1]].read([Path(sys.argv[2])])
for run in runs:
    assert tally.take(run)
print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
"""
"""Prints the most memory in KiB: what ``wait4`` says counts the parent's."""


def peak_bytes(name: str, path: Path, lines: int) -> int:
    """Return the most memory that a process of its own took to read a log of so many lines."""
    path.write_text("".join(f"{line}\n" for line in FORMATS[name].lines(lines)), "utf-8")
    command = [sys.executable, "-c", READ, name, str(path)]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(process.stdout) * 1024


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "lines", "of_input"),
    [
        ("goodput", 120_000, 0.4),  # events of one run, packed
        ("nvrx", 120_000, 0.4),
        ("k8s", 60_000, 2.0),  # the objects of a cluster, as any may tell of any other
    ],
)
def test_memory_grows_by_a_part_of_what_a_log_has_more(
    tmp_path: Path, name: str, lines: int, of_input: float
) -> None:
    small, large = tmp_path / "small.log", tmp_path / "large.log"
    peaks = peak_bytes(name, small, lines), peak_bytes(name, large, 2 * lines)
    n_more = large.stat().st_size - small.stat().st_size
    assert peaks[1] - peaks[0] < of_input * n_more + _NOISE_BYTES
