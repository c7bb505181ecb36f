"""New numbers can be read while many jobs send. How soon is what the benchmark asks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "freshness.py"


@pytest.mark.long
def test_new_numbers_can_be_read_while_many_jobs_go_on_sending(bare_database_url: str) -> None:
    arguments = ["--database", bare_database_url, "--tries", "2", "--jobs", "5", "--json"]
    done = subprocess.run(
        [sys.executable, PROGRAM, *arguments], stdout=subprocess.PIPE, check=False, timeout=120
    )
    (measured,) = json.loads(done.stdout).values()

    # The program ends once every try was read; its timeout only ends a hang.
    assert 0 < measured["p50"] <= measured["worst"]
