import re
import subprocess
import sys

import pytest

from ett_service.cli.main import VERBS, main
from tests.builders.servers.processes import ETT


def test_the_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    printed = capsys.readouterr().out
    assert [
        verb for verb in VERBS if not re.search(rf"^    {verb}( |$)", printed, re.MULTILINE)
    ] == []


def test_without_a_verb_it_is_the_help_that_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("usage: ett ")
    assert "ett demo" in printed


def test_an_order_from_the_largest_down_needs_no_equals_sign(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["jobs", "--sort", "-failures", "--url", "http://127.0.0.1:1"]) == 4
    assert "cannot be reached" in capsys.readouterr().err


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_explains_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([verb, "--help"])
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: ett {verb}")


def test_the_command_starts_on_the_standard_library_alone() -> None:
    program = (
        "import sys, ett_service.cli.main as cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "sys.exit(str(names & {'pydantic', 'sqlalchemy', 'fastapi', 'rich', 'msgspec', 'torch'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stderr == "set()\n"


def test_a_verb_without_its_packages_prints_how_to_install_them() -> None:
    program = (
        "import sys; sys.modules['pydantic'] = None\n"
        "from ett_service.cli.main import main; sys.exit(main(['config', 'check']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    (first, second) = done.stderr.splitlines()
    assert first == "ett: `ett config` needs the server's packages (pydantic is missing)"
    assert second.strip() == "Install them: pip install 'ett-service[server]'"


def test_a_reader_that_has_had_enough_is_no_fault() -> None:
    with subprocess.Popen(
        [ETT, "config", "show"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=120) == 1


def test_the_version_is_the_one_installed() -> None:
    for flag in ("--version", "-V"):
        done = subprocess.run([ETT, flag], capture_output=True, text=True, check=True)
        assert re.fullmatch(r"ett \d+\.\d+\.\d+\n", done.stdout)
