"""A real server for the examples that need no Python."""

from pathlib import Path

import pytest

from tests.builders.servers.shared import server, shared

__all__ = ["server", "shared"]

EXAMPLES = Path(__file__).parents[2] / "examples"


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let one of several workers have all tests that share the server."""
    if isinstance(item, pytest.Function) and "shared" in item.fixturenames:
        item.add_marker(pytest.mark.xdist_group("examples"))
