"""A real model that recompiles: with the setting of the advice its recompiles are gone."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builders.servers.ett import Server
from tests.builders.trainers import environment

pytestmark = [
    pytest.mark.long,
    pytest.mark.torch,
    pytest.mark.xdist_group("torch"),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]

VARIABLE = "TORCH_COMPILE_DYNAMIC_SOURCES"
TRAINER = Path(__file__).with_name("recompiling_trainer.py")


def _trained(server: Server, folder: Path, job: str, **more: str) -> tuple[list[str], Any]:
    """Train, and return the reasons that torch counted and what the service advises."""
    settings = {"ETT_JOB": job, "ETT_API_KEY": server.key, "RANK": "0", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, TRAINER],
        env=environment(folder / job, server.url) | settings | more,
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    advice = server.reaches(f"/v1/jobs/{job}/compile-advice", lambda advice: advice["compiles"] > 0)
    return done.stdout.splitlines(), advice


@pytest.mark.timeout(1300)
def test_with_the_setting_of_the_advice_the_recompiles_are_gone(
    server: Server, tmp_path: Path
) -> None:
    reasons, advice = _trained(server, tmp_path, "before")

    assert len(reasons) == advice["recompiles"] >= 2
    assert advice["others"] == []
    assert 0 < advice["dynamic_seconds"] == advice["recompile_seconds"]
    # Of these only the first is ever the reason of a recompile: it is compared before the others.
    together = {"L['tokens']", "L['mask']", "L['self'].window"}
    assert together <= {each["source"] for each in advice["sources"]}
    assert {"forward"} <= {name for each in advice["sources"] for name in each["functions"]}

    reasons, after = _trained(server, tmp_path, "after", **{VARIABLE: advice["setting"]})

    assert reasons == []
    assert (after["recompiles"], after["setting"]) == (0, None)
    assert after["compiles"] < advice["compiles"]
