"""Hugging Face's own callback for Kubeflow, on the real service: a job without any code."""

from pathlib import Path
from typing import Any

import pytest

from tests.builders.frameworks import Run, needed, run
from tests.builders.servers.ett import serving
from tests.builders.servers.waiting import wait_for

pytestmark = [pytest.mark.torch, pytest.mark.long, pytest.mark.xdist_group("frameworks")]

PROGRAM = Path(__file__).parent / "programs" / "plain_trainer.py"
STEPS = 60


def test_a_job_that_breaks_and_resumes_needs_no_code(tmp_path: Path) -> None:
    needed("transformers", "accelerate")
    with serving(f"sqlite:///{tmp_path}/ett.db", tmp_path, key="") as server:
        (token := tmp_path / "token").write_text(f"{server.key}\n")
        env = {
            "KUBEFLOW_TRAINER_SERVER_URL": f"{server.url}/v1/jobs/sft/trainer-status?launch=u-1",
            "KUBEFLOW_TRAINER_SERVER_TOKEN": str(token),
        }
        folder = str(tmp_path / "out")
        runs = [
            Run(PROGRAM, [folder, str(STEPS), "35"], env),
            Run(PROGRAM, [folder, str(STEPS), "0"], env),
        ]
        assert run("transformers", tmp_path / "spool", "", runs) == [1, 0]

        def finished() -> dict[str, Any] | None:
            answer = server.get("/v1/jobs/sft")
            return answer if answer and answer["state"] == "finished" else None

        job = wait_for(finished)
    attempts = job["attempts"]
    assert [(each["launch"], each["cycle"], each["outcome"]) for each in attempts] == [
        ("u-1", 0, "lost"),
        ("u-1", 1, "completed"),
    ]
    last = [each["last_step"] for each in attempts]
    assert 15 <= last[0] <= 35 < last[1] <= STEPS
    categories = job["categories"]
    assert categories["effective_training"] > categories["repeated_training"]
