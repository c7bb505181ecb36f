"""Faults injected into everything that a trainer touches: none comes out, each is counted."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builders.trainers import REPOSITORY, environment

LONG = 5000
SHORT = 400


def injected(folder: Path, number: int, seed: int) -> dict[str, Any]:
    """Inject so many faults in a Python of its own, and return what became of them."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.client.faults.injected", str(number), str(seed)],
        cwd=REPOSITORY,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


def check(outcome: dict[str, Any], number: int) -> None:
    assert sum(outcome["injected"].values()) == number
    assert outcome["wrong"] == {}
    assert outcome["chatter"] == []
    assert 20 < len(outcome["log"]) < 100  # one line for each mistake, whoever makes it how often


def test_no_fault_comes_out_and_each_is_counted_and_logged_once(tmp_path: Path) -> None:
    check(injected(tmp_path, SHORT, 1), SHORT)


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3])
def test_of_thousands_of_faults_none_comes_out(tmp_path: Path, seed: int) -> None:
    check(injected(tmp_path, LONG, seed), LONG)
