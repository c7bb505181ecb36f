"""What cannot be undone is done only after somebody agreed."""

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from ett_service.cli.confirmation import yes
from ett_service.cli.main import VERBS, Entry, main
from ett_service.cli.verb import Verb
from tests.builders.servers.processes import ETT, bare_environment
from tests.builders.servers.waiting import PATIENCE_S

_DESTROYING = {"delete", "remove", "revoke", "prune"}


@pytest.fixture
def prefix(capsys: pytest.CaptureFixture[str]) -> str:
    """Make a key in this folder, and return its prefix."""
    main(["migrate"])
    capsys.readouterr()
    assert main(["keys", "create", "--project", "research", "--scope", "read"]) == 0
    return capsys.readouterr().out[:12]


def is_revoked(prefix: str, capsys: pytest.CaptureFixture[str]) -> bool:
    capsys.readouterr()
    assert main(["keys", "list", "--json"]) == 0
    keys = {key["prefix"]: key for key in json.loads(capsys.readouterr().out)}
    return keys[prefix]["revoked_at"] is not None


def answered(answer: str, *arguments: str) -> tuple[int, str, str]:
    """Run ``ett`` at a terminal where somebody answers; return its code, output and questions."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [ETT, *arguments],
        stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, env=bare_environment(),
    ) as process:  # fmt: skip
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        assert process.stdout is not None
        out = process.stdout.read().decode()
        said = b"".join(iter(lambda: _read(ours), b"")).decode()
        code = process.wait(PATIENCE_S)
    os.close(ours)
    return code, out, said


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # how Linux says that nobody writes any more
        return b""


def test_without_a_terminal_nothing_is_done(
    prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["keys", "revoke", prefix], ["prune", "--days", "90"]):
        assert main(command) == 1
        refused = capsys.readouterr()
        assert refused.out == ""
        assert "nothing was done, as nobody confirmed this: " in refused.err
        assert "--yes" in refused.err
    assert not is_revoked(prefix, capsys)


@pytest.mark.parametrize(
    ("answer", "agrees"), [("y", True), ("Yes", True), ("", False), ("n", False)]
)
def test_at_a_terminal_it_is_done_if_somebody_agrees(
    answer: str, agrees: bool, prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, said = answered(answer, "keys", "revoke", prefix)
    assert f"The key {prefix} will be revoked for good. Go on? [y/N] " in said
    assert code == (0 if agrees else 1)
    assert out == (f"{prefix} is revoked.\n" if agrees else "")
    assert ("nothing was done" in said) != agrees
    assert is_revoked(prefix, capsys) == agrees


def _acts() -> Iterator[tuple[str, Verb]]:
    """Yield verbs and their acts, by what is typed."""
    for word, entry in VERBS.items():
        if isinstance(entry, Entry):
            verb: Verb = getattr(import_module(f"ett_service.cli.{entry.module}"), entry.name)
            yield word, verb
            yield from ((f"{word} {act}", below) for act, below in verb.acts.items())


def test_the_verbs_that_ask_are_those_that_the_documentation_names() -> None:
    commands = dict(_acts())
    destroy = {each for each in commands if each.split()[-1] in _DESTROYING}
    assert len(destroy) == 5
    assert {each for each, verb in commands.items() if yes in verb.options} == destroy
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")
    assert [each for each in destroy if f"`ett {each}`" not in page] == []
