"""What ``import ett_service`` gives, and what it costs."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import ett_service
from ett_service.client import surface
from ett_service.client.lines import OUTCOMES, PHASES
from ett_service.client.members import FACTS
from ett_service.core.dimensions import Facts
from ett_service.core.words import Outcome, Phase

REPOSITORY = Path(__file__).parents[2]


def test_the_public_names_are_exactly_these() -> None:
    assert sorted(surface.__all__) == [
        "__version__",
        "auto",
        "checkpoint",
        "data",
        "end",
        "flush",
        "init",
        "phase",
        "restored",
        "stage",
        "step",
        "train_loop",
    ]
    assert all(hasattr(ett_service, name) for name in surface.__all__)


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    assert ett_service.__version__ == project["version"]


def test_the_words_are_those_of_the_core() -> None:
    assert tuple(Phase) == PHASES
    assert set(OUTCOMES) == set(Outcome) - {Outcome.LOST, Outcome.RUNNING}
    assert frozenset(Facts.__dataclass_fields__) - {"gpus"} == FACTS


def test_importing_it_costs_no_module_until_a_name_is_used() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "import ett_service; print(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["ett_service"]


def test_a_name_that_is_not_there_is_missed_as_in_any_module() -> None:
    with pytest.raises(AttributeError, match="'ett_service' has no attribute 'nothing'"):
        _ = ett_service.nothing  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="nothing"):
        exec("from ett_service import nothing")  # noqa: S102 -- what a trainer may write


def test_using_it_loads_the_standard_library_and_the_client_only() -> None:
    code = "import sys; import ett_service; ett_service.init; print(*sys.modules)"
    env = {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env=env, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    ours = {name for name in loaded if name.partition(".")[0] == "ett_service"}
    foreign = {name.partition(".")[0] for name in loaded - ours} - sys.stdlib_module_names
    assert {name for name in foreign if not name.startswith("__")} == set()
    assert all(name.startswith("ett_service.client") for name in ours - {"ett_service"})
    assert not loaded & {"ssl", "http.client", "email", "socket", "asyncio"}
