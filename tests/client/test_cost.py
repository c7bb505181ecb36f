"""The costs that ``benchmarks/client.py`` prints hold, loosely, on a busy machine too."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


def test_recording_costs_a_few_floors_and_far_less_than_spans() -> None:
    pytest.importorskip("opentelemetry.sdk")
    done = subprocess.run(
        [sys.executable, "benchmarks/client.py", "--json", "--rounds", "21"],
        cwd=REPOSITORY,
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    ratios = json.loads(done.stdout)["ratios"]
    assert ratios["phase / floor"] < 4
    assert ratios["step / clock read"] < 16
    assert ratios["OpenTelemetry span on disk / phase"] > 4
    assert ratios["OpenTelemetry span / step"] > 25
