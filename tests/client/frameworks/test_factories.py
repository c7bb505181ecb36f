"""The entry points of Lightning, which every trainer of an environment calls."""

import tomllib
from pathlib import Path

import pytest

from tests.builders.trainers import REPOSITORY, environment, run_trainer

UNTOLD = """
import sys
from ett_service.client.frameworks import factories
assert factories.lightning_callbacks() == factories.fabric_callbacks() == []
assert not {"lightning", "torch", "ett_service.client.sender"} & set(sys.modules)
"""


@pytest.mark.parametrize("name", ["ETT_SPOOL", "ETT_DISABLED"])
def test_where_nothing_is_to_be_recorded_nothing_is_added_or_imported(
    tmp_path: Path, name: str
) -> None:
    env = environment(tmp_path)
    if name == "ETT_DISABLED":
        env[name] = "1"
    else:
        del env[name]
    done = run_trainer(UNTOLD, env)
    assert done.returncode == 0, done.stderr


def test_the_entry_points_name_what_is_there() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    for group in ("lightning.pytorch", "lightning.fabric"):
        (target,) = project["entry-points"][f"{group}.callbacks_factory"].values()
        module, _, function = target.partition(":")
        source = REPOSITORY / (module.replace(".", "/") + ".py")
        assert f"def {function}(" in source.read_text("utf-8")
