import subprocess
from pathlib import Path

import pytest

from tests.builders.servers.programs import needed
from tests.examples.conftest import EXAMPLES

SCRIPTS = sorted(EXAMPLES.rglob("*.sh"))


def test_there_are_scripts() -> None:
    assert {path.parent.name for path in SCRIPTS} == {"curl", "kubernetes", "slurm"}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_has_no_flaws_that_shellcheck_knows(script: Path) -> None:
    shellcheck = needed("shellcheck", "shellcheck")
    done = subprocess.run(
        [shellcheck, "--external-sources", "--source-path=SCRIPTDIR", script],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
