"""Two real ranks in step, of which one waits for its batches: the service names it."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.servers.ett import Server
from tests.builders.trainers import environment
from tests.scenarios import unequal_trainer as trainer

pytestmark = [
    pytest.mark.torch,
    pytest.mark.long,
    pytest.mark.xdist_group("torch"),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
    pytest.mark.timeout(300),
]

_ETT = "import sys; from ett_service.cli.main import main; sys.exit(main())"


def test_the_rank_that_waits_for_its_batches_is_named_and_its_step_time_is_that_of_all(
    server: Server, tmp_path: Path
) -> None:
    torchrun = [str(Path(sys.executable).with_name("torchrun")), "--standalone"]
    settings = {"ETT_JOB": "unequal", "ETT_API_KEY": server.key, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _ETT, "run", "--", *torchrun, "--nproc-per-node=2",
         trainer.__file__],
        env=environment(tmp_path / "spool", server.url) | settings,
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = server.reaches("/v1/jobs/unequal/ranks", lambda ranks: len(ranks["slowest"]) > 1)

    rows = {row["rank"]: row for row in answer["ranks"] if row["rank"] is not None}
    assert {rank: row["steps"] for rank, row in rows.items()} == dict.fromkeys(
        (0, 1), trainer.STEPS - 1
    )
    assert rows[0]["step_seconds"] == pytest.approx(rows[1]["step_seconds"], rel=0.1)
    by_step, by_wait = answer["slowest"]
    assert by_wait["rank"] == trainer.SLOW_RANK
    assert by_wait["seconds"] >= trainer.SLOW_SECONDS
    assert by_wait["seconds"] > 2 * by_wait["median_seconds"]
    assert by_step["seconds"] < 1.1 * by_step["median_seconds"]

    job = server.reaches("/v1/jobs/unequal", lambda job: job["state"] == "finished")
    [attempt] = job["attempts"]
    assert attempt["hooks"]["data"] == attempt["hooks"]["ddp"] == attempt["hooks"]["steps"] == "ok"
    assert 0 < attempt["telemetry_seconds"] < attempt["data_wait"]["loop_seconds"]
    assert 0 < attempt["data_wait"]["ratio"] < 1
    assert job["quality"]["attempts_missing_hooks"] == 0
