"""What the README shows works as it is printed."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engines import ON_ONE_ENGINE
from tests.scenarios.conftest import Server, wait_for

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")

STUBS = """
loader, train, save_checkpoint = range(2000), lambda batch: None, lambda step: None
load_checkpoint = lambda: 0
"""


def blocks(language: str) -> list[str]:
    """Return what stands in the README's fenced blocks of *language*."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def answer_to(command: str, server: Server) -> dict[str, Any]:
    """Run one command of the README against *server* and return its answer."""
    done = subprocess.run(
        ["bash", "-euc", command.replace("http://127.0.0.1:8080", server.url)],
        env={"PATH": os.environ["PATH"], "ETT_API_KEY": server.key},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@ON_ONE_ENGINE
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_of_the_readme_get_the_answers_that_it_shows(server: Server) -> None:
    send, read = (command for command in blocks("sh") if command.startswith("curl "))
    verdicts, job = map(json.loads, blocks("json"))
    assert answer_to(send, server).items() >= verdicts.items()
    assert answer_to(send, server)["duplicate"] == verdicts["accepted"]
    shown = wait_for(lambda: "ett_ratio" in (answer := answer_to(read, server)) and answer)
    assert shown.items() >= job.items()


def test_the_trainer_of_the_readme_records_itself(tmp_path: Path) -> None:
    (snippet,) = blocks("python")
    subprocess.run(
        [sys.executable, "-W", "error", "-c", STUBS + snippet],
        env={"PATH": os.environ["PATH"], "ETT_SPOOL": str(tmp_path)},
        check=True,
        timeout=30,
    )
    (spool,) = tmp_path.glob("*/*/000001.jsonl")
    events = [json.loads(line) for line in spool.read_text().splitlines()]
    saved = [event["step"] for event in events if event["type"] == "checkpoint_saved"]
    assert saved == [1000, 2000]
    assert events[-1]["outcome"] == "completed"


@pytest.mark.parametrize("page", ["README.md", "examples/README.md"])
def test_every_link_leads_to_a_file(page: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / page).read_text("utf-8"))
    assert links
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []
