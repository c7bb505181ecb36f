"""New numbers can be read soon after a batch was acknowledged, while many jobs send."""

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "freshness.py"


def test_new_numbers_can_be_read_within_a_second_at_the_median(bare_database_url: str) -> None:
    arguments = ["--database", bare_database_url, "--tries", "8", "--jobs", "20", "--json"]
    done = subprocess.run(
        [sys.executable, PROGRAM, *arguments], stdout=subprocess.PIPE, check=False, timeout=120
    )
    (found,) = json.loads(done.stdout).values()

    # The benchmark asks it of 99 in a hundred, on a machine that does nothing else.
    assert found["p50"] < 1
