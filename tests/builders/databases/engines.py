"""Which databases a test runs on."""

import pytest

ON_ONE_ENGINE = pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
"""For what the engine has no part in."""
