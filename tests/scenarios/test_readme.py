"""What the README and the quickstart show works as it is printed."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builders.servers.ett import Server
from tests.builders.servers.waiting import wait_for

pytestmark = pytest.mark.xdist_group("stories")

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
QUICKSTART = ROOT / "docs" / "quickstart.md"

STUBS = """
loader, train, save_checkpoint = range(2000), lambda batch: None, lambda step: None
load_checkpoint = lambda: 0
"""


def blocks(language: str, page: Path = README) -> list[str]:
    """Return what stands in a page's fenced blocks of *language*."""
    text = page.read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def answer_to(command: str, server: Server) -> dict[str, Any]:
    """Run one command of the README against *server* and return its answer."""
    done = subprocess.run(
        ["bash", "-euc", command.replace("http://127.0.0.1:8080", server.url)],
        env={"PATH": os.environ["PATH"], "ETT_API_KEY": server.key},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_of_the_readme_get_the_answers_that_it_shows(server: Server) -> None:
    send, read = (command for command in blocks("sh") if command.startswith("curl "))
    verdicts, job = map(json.loads, blocks("json"))
    assert answer_to(send, server).items() >= verdicts.items()
    assert answer_to(send, server)["duplicate"] == verdicts["accepted"]

    def look() -> dict[str, Any] | None:
        answer = answer_to(read, server)
        return answer if "ett_ratio" in answer else None

    shown = wait_for(look)
    assert shown.items() >= job.items()


def test_the_trainer_of_the_readme_records_itself(tmp_path: Path) -> None:
    (snippet,) = blocks("python")
    subprocess.run(
        [sys.executable, "-W", "error", "-c", STUBS + snippet],
        env={"PATH": os.environ["PATH"], "ETT_SPOOL": str(tmp_path)},
        check=True,
        timeout=120,
    )
    (spool,) = tmp_path.glob("*/*/000001.jsonl")
    events = [json.loads(line) for line in spool.read_text().splitlines()]
    saved = [event["step"] for event in events if event["type"] == "checkpoint_saved"]
    assert saved == [1000, 2000]
    assert events[-1]["outcome"] == "completed"


def test_the_trainer_of_the_quickstart_is_killed_and_resumes(
    server: Server, tmp_path: Path
) -> None:
    (program,) = blocks("python", QUICKSTART)
    (tmp_path / "first.py").write_text(program)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {
        "ETT_URL": server.url,
        "ETT_API_KEY": server.key,
        "ETT_SPOOL": str(tmp_path / "spool"),
    }
    commands = "".join(blocks("console", QUICKSTART))
    runs = [shlex.split(run) for run in re.findall(r"^\$ (ett run .*)$", commands, re.MULTILINE)]
    environment = {"PATH": programs, **variables}
    codes = [
        subprocess.run(run, cwd=tmp_path, env=environment, check=False).returncode for run in runs
    ]
    assert codes == [137, 0]
    job = server.reaches("/v1/jobs/first", lambda answer: answer["state"] == "finished")
    killed, resumed = job["attempts"]
    assert 20 < killed["last_step"] < 40  # between its first checkpoint and its second
    assert resumed["last_step"] == 60
    assert (killed["outcome"], resumed["outcome"]) == ("failed", "completed")
    assert job["categories"]["repeated_training"] > 0
    assert job["categories"]["effective_training"] > 1


PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return FENCED.sub("", page.read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    """Return what a link to a heading of *page* may name, as GitHub makes it."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    words = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in words}


def test_every_link_leads_to_a_file_and_a_heading_of_it() -> None:
    links = [
        (page, *link)
        for page in PAGES
        for link in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", prose(page))
    ]
    assert len(links) > 300
    broken = []
    for page, name, heading in links:
        there = page.parent.joinpath(name) if name else page
        is_named = not heading or there.suffix != ".md" or heading in anchors(there)
        if not there.exists() or not is_named:
            broken.append(f"{page.relative_to(ROOT)}: {name}#{heading}")
    assert broken == []


def test_every_table_has_one_rule_below_its_first_row() -> None:
    tables = [
        (page.relative_to(ROOT), table.splitlines())
        for page in PAGES
        for table in re.findall(r"(?:^\|.*\n)+", prose(page), re.MULTILINE)
    ]
    assert len(tables) > 100
    ruled = [
        (str(page), rows[0], [place for place, row in enumerate(rows[1:]) if not row.strip("|-: ")])
        for page, rows in tables
    ]
    assert [each for each in ruled if each[2] != [0]] == []
