"""What has one list is added in few files, wherever it shows."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.additions import ADDITIONS, Addition

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("addition", ADDITIONS, ids=lambda addition: addition.name)
def test_an_addition_touches_few_files(addition: Addition) -> None:
    assert len(addition.touched) <= addition.goal


@pytest.mark.long
def test_additions_show_wherever_they_should(tmp_path: Path) -> None:
    for folder in ("ett_service", "migrations", "tests"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for addition in ADDITIONS:
        addition.make(tmp_path)
    tests = [addition.test for addition in ADDITIONS]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", "not postgresql", *tests],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-1_000:]
    assert " 9 passed" in f" {done.stdout.splitlines()[-1]}"
