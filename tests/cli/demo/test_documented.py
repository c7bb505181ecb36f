"""What the documentation asks of the demo's fleet is there, and its tables fit a terminal."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ett_service.demo.fleet import MODELS, TEAMS
from tests.builders import terminal
from tests.builders.servers import processes
from tests.builders.servers.processes import ETT, Running, bare_environment
from tests.builders.servers.waiting import wait_for

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = {
    "team": {*TEAMS},
    "model": {model.name for model in MODELS},
    "cluster": {model.cluster for model in MODELS},
    "kind": {stream.kind for model in MODELS for stream in model.streams} | {"pretrain"},
}
MADE = {"JOB", "copy", "first", "shell", "llm-7b"}
"""Jobs that a page has the reader make, or name."""

READING = (
    "fleet", "explain", "what-if", "changes", "job", "compile-advice", "checkpoint-advice",
    "report", "regressions list", "regressions power", "regressions compare",
)  # fmt: skip
WIDTHS = (80, 100, 120, 160)

_NOTHING = re.compile(r"^No (jobs|findings|markers|search)", re.MULTILINE)
_A_NAME = re.compile(r"(?:--(?=\w+ )|\b(?=\w+:))(team|model|cluster|kind)[: ]([\w.-]+)")


def _documented() -> Iterator[tuple[str, list[str]]]:
    """Yield the page and the words of every command that a page shows."""
    for page in PAGES:
        text = page.read_text("utf-8").replace("\\\n", " ")
        for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            for line in re.findall(r"^\$ (ett .*)$", block, re.MULTILINE):
                words = shlex.split(re.split(r" [|#] | #", line)[0], comments=True)
                yield page.name, words[1:]


DOCUMENTED = list(_documented())


def test_names_are_those_of_the_demo() -> None:
    strange = [
        f"{page}: {dimension}:{name}"
        for page, words in DOCUMENTED
        for dimension, name in _A_NAME.findall(" ".join(words))
        if words[0] not in ("watch", "import", "receivers", "markers", "changes")
        and name not in NAMES[dimension]
    ]
    assert strange == []
    assert len(DOCUMENTED) > 80


def test_jobs_are_those_that_a_reader_has() -> None:
    named = {
        (page, words[2] if words[0] == "jobs" else words[1])
        for page, words in DOCUMENTED
        if (words[0] in ("job", "compile-advice", "checkpoint-advice") and len(words) > 1)
        or words[:2] in (["jobs", act] for act in ("verdict", "exclude", "corrections", "delete"))
    }
    assert len(named) > 8
    assert {(page, job) for page, job in named if job not in MADE and job[0] != "-"} == set()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """Serve a demo, and return the variables by which commands find it."""
    folder = tmp_path_factory.mktemp("demo")
    bare = bare_environment()
    process = Running("demo", "--json", "--days", "35", folder=folder, environment=bare)
    wait_for(lambda: process.out.endswith("}\n"), lambda: process.err, patience_s=600)
    ready = json.loads(process.out)
    yield {**bare, "ETT_URL": ready["url"], "ETT_API_KEY": ready["key"], "TERM": "xterm"}
    process.stop()


def _reading_commands(environment: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield the documented commands that only read, about jobs and releases that are there."""

    def printed(*words: str) -> list[dict[str, Any]]:
        answer = json.loads(processes.run(*words, "--json", environment=environment).stdout)
        rows: list[dict[str, Any]] = answer if isinstance(answer, list) else answer["groups"]
        return rows

    job = printed("jobs", "--kind", "ablation", "--state", "finished", "--limit", "1")[0]["job"]
    groups = printed("fleet", "--by", "code_version", "--from", "28d")
    before, latest = sorted(str(group["group"]["code_version"]) for group in groups)[-2:]
    for page, words in DOCUMENTED:
        is_asked = any(f"{' '.join(words)} ".startswith(f"{each} ") for each in READING)
        if not is_asked or "ID" in words or ("JOB" not in words and MADE & {*words}):
            continue
        if "..." in words or any(word.startswith("job:") for word in words):
            continue
        line = shlex.join(words).replace("JOB", job)
        line = line.replace("code_version:2026.44", f"code_version:{before}")
        line = line.replace("code_version:2026.45", f"code_version:{latest}")
        if page != "weekly-report.md":
            yield shlex.split(line)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_commands_of_the_documentation_find_something(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    commands = list(_reading_commands(environment))
    assert len(commands) > 20
    for words in commands:
        done = processes.run(*words, folder=tmp_path, environment=environment)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        assert not _NOTHING.search(done.stdout), f"{words}: {done.stdout}"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_tables_fit_the_terminal_and_break_no_name(
    environment: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a documented command draws into a file
    rows = json.loads(
        processes.run("jobs", "--limit", "20", "--json", environment=environment).stdout
    )
    findings = json.loads(
        processes.run("regressions", "list", "--json", environment=environment).stdout
    )
    for words in [
        ["jobs", "--limit", "20"],
        ["regressions", "list"],
        *_reading_commands(environment),
    ]:
        for columns in WIDTHS:
            text = terminal.shown([ETT, *words], columns, {**environment, "NO_COLOR": "1"})
            text = re.sub(r"\x1b\[[0-9;]*m", "", text)
            rules = [len(line) for line in text.splitlines() if line.startswith("──")]
            assert max(rules, default=0) <= columns, (words, columns)
            if words[0] == "jobs":
                assert all(row["job"] in text for row in rows)
            if words == ["regressions", "list"]:
                assert all(finding["id"] in text for finding in findings)
