"""What a real bash completes; zsh and fish run the same program with a script of their own."""

import subprocess
from pathlib import Path

import pytest

from ett_service.cli.completion import SHELLS
from ett_service.cli.main import main
from tests.builders.servers.ett import Server
from tests.builders.servers.processes import ETT, bare_environment

_COMPLETE = """
eval "$(ett completion bash)"
read -r _ _ function _ <<< "$(complete -p ett | sed 's/.*-F/complete -F/')"
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
read -ra COMP_WORDS <<< "$1"
[[ $1 == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
"$function" ett
printf '%s\\n' "${COMPREPLY[@]}"
"""


def _completed(line: str, **variables: str) -> list[str]:
    environment = bare_environment() | variables
    environment["PATH"] = f"{Path(ETT).parent}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-c", _COMPLETE, "bash", line],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return [word.strip() for word in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ett fl", ["fleet"]),
        ("ett fleet --b", ["--by"]),
    ],
)
def test_bash_completes_verbs_and_options(line: str, words: list[str]) -> None:
    assert [word for word in _completed(line) if word] == words


def test_bash_completes_the_names_of_jobs_that_the_server_has(served: Server) -> None:
    assert _completed("ett job llm-", ETT_URL=served.url, ETT_API_KEY=served.key) == ["llm-7b"]
    assert _completed("ett job llm-", ETT_URL="http://127.0.0.1:1") == [""]


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_its_code(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    printed = capsys.readouterr().out
    assert ("compdef" in printed, "complete --command ett" in printed) == (
        (False, True) if shell == "fish" else (True, False)
    )
