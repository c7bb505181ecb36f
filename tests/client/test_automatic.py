"""Scripts that nobody touched, under ``ett run``: the trainer records itself, nothing else does."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ett_service.client.automatic import is_launcher, takes
from tests.builders.installed import python_path
from tests.builders.servers.web import serving
from tests.builders.trainers import environment, run_ett

torch_only = [pytest.mark.torch, pytest.mark.xdist_group("torch")]

TRAINING = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""

LOADING = """
import torch
from torch.utils.data import DataLoader
assert len(list(DataLoader(list(range(4))))) == 4
"""
"""Enough to be recorded, and half as long as a step of an optimizer, which imports dynamo."""


def run_untouched(folder: Path, code: str, **more: str) -> list[dict[str, Any]]:
    """Run a script under ``ett run``; return the events of its own process."""
    pytest.importorskip("torch")
    script = folder / "train.py"
    script.write_text(code)
    with serving() as web:
        env = environment(folder / "spool", web.url, OMP_NUM_THREADS="1", **more)
        env["PYTHONPATH"] = python_path(folder / "site")
        done = run_ett(env, "run", "--", sys.executable, str(script))
        assert done.returncode in (0, 1), done.stderr
        events = web.events
    assert list((folder / "spool").rglob("0*.jsonl")) == []
    launcher = {event["producer"] for event in events if event.get("cycle") is None}
    return [event for event in events if event["producer"] not in launcher]


@pytest.mark.parametrize(
    ("argv", "original", "launches"),
    [
        (["train.py"], ["python", "train.py"], False),
        (["-m"], ["python", "-m", "package.train"], False),
        (["train.py", "-m", "torch.distributed.run"], ["python", "-u", "train.py"], False),
        (["/x/bin/torchrun", "train.py"], ["python", "/x/bin/torchrun", "train.py"], True),
        (["-m"], ["python", "-m", "torch.distributed.run", "train.py"], True),
        (["-m"], ["python", "-X", "dev", "-m", "accelerate.commands.launch", "t.py"], True),
        (["-c"], ["python", "-c", "import torch"], True),
    ],
)
def test_a_launcher_is_known_by_how_it_was_called(
    argv: list[str], original: list[str], *, launches: bool
) -> None:
    assert is_launcher(argv, original) is launches


def test_the_token_is_taken_once_for_each_rank() -> None:
    env = {"RANK": "0", "ETT_AUTO": "1"}
    assert takes("ETT_AUTO", env)
    assert not takes("ETT_AUTO", env)
    assert takes("ETT_AUTO", env | {"RANK": "1"})


@pytest.mark.parametrize("env", [{}, {"ETT_AUTO": ""}, {"ETT_AUTO": "0"}])
def test_without_a_token_nothing_is_taken(env: dict[str, str]) -> None:
    assert not takes("ETT_AUTO", env)


def test_without_the_variable_the_entry_point_imports_nothing() -> None:
    code = (
        "import sys\nfrom ett_service.client.autostart import start\n"
        "before = set(sys.modules)\nstart()\nprint(*set(sys.modules) - before)"
    )
    env = environment(Path("unused"))
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


class TestUntouched:
    pytestmark = torch_only

    def test_a_script_that_trains_is_recorded(self, tmp_path: Path) -> None:
        events = run_untouched(tmp_path, TRAINING)
        assert len({event["producer"] for event in events}) == 1
        kinds = [event["type"] for event in events]
        assert kinds.count("attempt_started") == kinds.count("attempt_ended") == 1

    def test_a_script_that_only_imports_torch_leaves_nothing(self, tmp_path: Path) -> None:
        assert run_untouched(tmp_path, "import torch") == []

    @pytest.mark.long
    def test_nothing_is_recorded_where_that_is_not_wished(self, tmp_path: Path) -> None:
        assert run_untouched(tmp_path, LOADING, ETT_AUTO="0") == []

    @pytest.mark.long
    def test_torchs_own_switch_turns_it_off(self, tmp_path: Path) -> None:
        off = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        assert run_untouched(tmp_path, TRAINING, **off) == []

    def test_an_error_before_any_training_is_recorded(self, tmp_path: Path) -> None:
        events = run_untouched(tmp_path, "import torch\nraise ValueError('no data')")
        (ended,) = [event for event in events if event["type"] == "attempt_ended"]
        assert (ended["outcome"], ended["exception"]) == ("failed", "ValueError")

    @pytest.mark.long
    def test_a_script_that_names_another_job_is_of_the_one_that_was_launched(
        self, tmp_path: Path
    ) -> None:
        code = "import torch\nimport ett_service as ett\nett.init('mine')\n" + TRAINING
        events = run_untouched(tmp_path, code)
        assert {event["job"] for event in events} == {"j"}
        starts = [event["mono_us"] for event in events if event["type"] == "attempt_started"]
        assert starts == [min(event["mono_us"] for event in events)]

    @pytest.mark.long
    def test_a_script_that_begins_itself_is_one_producer(self, tmp_path: Path) -> None:
        code = "import torch\nimport ett_service as ett\nett.init()\n" + LOADING
        events = run_untouched(tmp_path, code)
        assert len({event["producer"] for event in events}) == 1

    @pytest.mark.long
    def test_workers_of_a_data_loader_are_silent(self, tmp_path: Path) -> None:
        code = """
import torch
from torch.utils.data import DataLoader
if __name__ == "__main__":
    for method in ("fork", "spawn"):
        list(DataLoader(list(range(8)), num_workers=2, multiprocessing_context=method))
"""
        events = run_untouched(tmp_path, code)
        assert len({event["producer"] for event in events}) <= 1
