import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.frames.conftest import Deployment

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "fleet.ipynb"


@pytest.mark.long
@pytest.mark.parametrize("deployment", ["sqlite"], indirect=True)
def test_the_example_notebook_runs_from_its_first_cell_to_its_last(deployment: Deployment) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbmake", NOTEBOOK],
        cwd=ROOT,
        env=os.environ | {"ETT_URL": deployment.server.url, "ETT_API_KEY": deployment.server.key},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "1 passed" in done.stdout


def test_the_example_notebook_is_kept_without_what_it_printed() -> None:
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    ran = [cell for cell in cells if cell["cell_type"] == "code"]
    assert ran
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in ran)
