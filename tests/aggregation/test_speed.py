"""One more event costs little, and no more in a long job than in a short one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "one_more_event.py"


@pytest.mark.slow
def test_one_more_event_costs_a_few_bare_writes_however_long_the_job_is() -> None:
    # Far from the benchmark's goals: other work on the machine must not turn this red.
    arguments = ["--rounds", "25", "--many", "4000", "--open", "8000", "--json"]
    done = subprocess.run(
        [sys.executable, PROGRAM, *arguments], stdout=subprocess.PIPE, check=False, timeout=120
    )
    measured = json.loads(done.stdout)

    assert measured["floors"] < 12
    assert max(measured["growths"]) < 4
