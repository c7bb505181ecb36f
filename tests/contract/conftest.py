"""A real server, and a client of it that holds every answer to the published description."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import ETT, address, bare_environment
from tests.contract.described import Described, Service

CORPUS = Path(os.environ.get("ETT_CORPUS", Path(__file__).parents[2] / "../shared/corpus"))


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Serve a new SQLite file on a free port; the key may do everything."""
    folder = tmp_path_factory.mktemp("contract")
    with (folder / "log").open("w+") as log:
        process = subprocess.Popen(
            [ETT, "serve", "--port", "0"],
            cwd=folder,
            env=bare_environment() | {"ETT_DATABASE_URL": f"sqlite:///{folder / 'ett.db'}"},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            assert process.stdout is not None
            key = process.stdout.readline().strip()
            url = address((folder / "log").read_text().splitlines())
            with Service(url, key, Described.by(url)) as service:
                yield service
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the folder of logs and timelines that are kept outside the project."""
    if not CORPUS.is_dir():
        pytest.skip(f"the corpus is not there: {CORPUS} (set ETT_CORPUS)")
    return CORPUS
