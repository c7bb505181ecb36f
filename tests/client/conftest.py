"""What tests of the client share."""

from collections.abc import Iterator

import pytest

from tests.builders.forking import Forking, forking
from tests.builders.trainers import environment


@pytest.fixture(scope="module")
def trainers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forking]:
    """A process to fork trainers from."""
    pytest.importorskip("torch")
    with forking(environment(tmp_path_factory.mktemp("unused"), OMP_NUM_THREADS="1")) as process:
        yield process
