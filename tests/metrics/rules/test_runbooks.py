"""The commands on the pages work: queries parse, views have the columns, commands run."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from sqlalchemy import text

from ett_service.cli.main import parser
from ett_service.storage.engine.store import Store
from tests.builders.servers.programs import Program, free_port, needed
from tests.metrics.rules.test_files import known_metrics, metrics

PAGES = sorted((Path(__file__).parents[3] / "docs" / "runbooks").glob("ett*.md"))
_INLINE = re.compile(r"`(ett [a-z][^`]*)`")


def _blocks(language: str) -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for block in re.findall(rf"```{language}\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            yield page, block


def _queries() -> list[tuple[str, str]]:
    return [
        (page.stem, query.strip())
        for page, block in _blocks("promql")
        for query in block.split("\n\n")
    ]


def _commands(program: str) -> list[tuple[str, list[str]]]:
    return [
        (page.stem, shlex.split(line.removeprefix("$ "))[1:])
        for page, block in _blocks("console")
        for line in block.splitlines()
        if line.startswith(f"$ {program} ")
    ]


def _inline_commands() -> list[tuple[str, list[str]]]:
    return [
        (page.stem, shlex.split(command.replace("\n", " "))[1:])
        for page in PAGES
        for command in _INLINE.findall(page.read_text("utf-8"))
    ]


def test_prometheus_understands_every_query(tmp_path: Path) -> None:
    promtool = needed("promtool", "prometheus")
    rules = [
        {"record": f"page:query{place}:value", "expr": query}
        for place, (_, query) in enumerate(_queries())
    ]
    rules_file = tmp_path / "rules.yaml"
    rules_file.write_text(yaml.safe_dump({"groups": [{"name": "pages", "rules": rules}]}), "utf-8")
    checked = subprocess.run(
        [promtool, "check", "rules", rules_file], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert len(rules) > len(PAGES)


def test_a_query_reads_what_there_is() -> None:
    readable = known_metrics() | {"ALERTS"}
    assert {page: query for page, query in _queries() if not metrics(query) <= readable} == {}


def test_the_views_answer_every_question_on_both_databases(store: Store) -> None:
    questions = [block for _, block in _blocks("sql")]
    with store.reading() as conn:
        for question in questions:
            assert conn.execute(text(question)).all() == []
    assert len(questions) >= 3


def test_the_command_line_takes_every_command() -> None:
    for page, command in [*_commands("ett"), *_inline_commands()]:
        try:
            parser(command[0]).parse_args(command)
        except SystemExit:
            pytest.fail(f"{page}: ett {' '.join(command)}")


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of an Alertmanager that knows no alert."""
    folder = tmp_path_factory.mktemp("alertmanager")
    program = needed("prometheus-alertmanager", "prometheus-alertmanager")
    (folder / "config.yml").write_text("route: {receiver: x}\nreceivers: [{name: x}]\n", "utf-8")
    url = f"http://127.0.0.1:{free_port()}"
    running = Program(
        [
            program,
            "--config.file=config.yml",
            f"--storage.path={folder}",
            f"--web.listen-address={url.removeprefix('http://')}",
            "--cluster.listen-address=",
        ],
        folder,
    )
    try:
        running.ready(f"{url}/-/ready")
        yield url
    finally:
        running.stop()


def test_alertmanager_takes_every_silence(alertmanager: str) -> None:
    amtool = needed("amtool", "prometheus-alertmanager")
    for page, command in _commands("amtool"):
        done = subprocess.run(
            [amtool, *command, f"--alertmanager.url={alertmanager}"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (page, done.stderr)
    silenced = [command for _, command in _commands("amtool") if command[0] == "silence"]
    assert {command[2] for command in silenced} == {
        f"alertname={page.read_text('utf-8').splitlines()[0].removeprefix('# ')}"
        for page in PAGES
        if page.stem != "ettwatchdog"
    }
