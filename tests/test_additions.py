"""What has one list is added in few files, wherever it shows."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.additions import ADDITIONS, Addition

ROOT = Path(__file__).parents[1]

#: Tests that hold lists against the code: no addition may leave one of them red.
THAT_READ_LISTS = (
    "tests/test_shape.py", "tests/api/test_openapi.py", "tests/api/test_examples.py",
    "tests/storage/schema/test_views.py", "tests/core/test_dimensions.py", "tests/charts",
)  # fmt: skip


@pytest.mark.parametrize("addition", ADDITIONS, ids=lambda addition: addition.name)
def test_an_addition_touches_few_files(addition: Addition) -> None:
    assert len(addition.touched) <= addition.goal


@pytest.mark.long
def test_additions_show_wherever_they_should(tmp_path: Path) -> None:
    for folder in ("ett_service", "migrations", "tests", "docs"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for addition in ADDITIONS:
        addition.make(tmp_path)
    for of_openapi in (["tests.api.examples"], ["ett_service.api.openapi", "docs/openapi.json"]):
        run_there(tmp_path, *of_openapi)
    tests = [addition.test for addition in ADDITIONS]
    written = run_there(tmp_path, "pytest", "-q", "-k", "not postgresql", *tests)
    assert " 10 passed" in f" {written.splitlines()[-1]}"
    run_there(tmp_path, "pytest", "-q", "-k", "not postgresql", *THAT_READ_LISTS)


def run_there(root: Path, *arguments: str) -> str:
    """Run a module of Python in a copy of the code, and return what it writes."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=root, env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-1_000:]
    return done.stdout
