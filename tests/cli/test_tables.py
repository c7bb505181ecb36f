import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from ett_service.cli.tables import number, text, write_table
from tests.builders.servers.waiting import PATIENCE_S


def test_a_piped_table_is_plain_and_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    rows = [{"name": long, "count": 1}, {"name": "b", "count": 20}]
    write_table((text("name"), number("count")), rows)
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "count"]
    assert first == f"{long}      1"
    assert second.split() == ["b", "20"]


def test_a_narrow_terminal_folds_words_and_cuts_nothing() -> None:
    program = (
        "from ett_service.cli.tables import number, text, write_table\n"
        "row = {'name': 'n' * 50, 'count': '123456789', 'why': 'w' * 70}\n"
        "columns = text('name'), number('count'), text('why')\n"
        "write_table(columns, [row], last=('all', '987654321', ''))"
    )
    for columns in (20, 60):
        shown = _on_a_terminal(program, columns)
        assert "123456789" in shown
        assert "987654321" in shown
        assert (shown.count("n"), shown.count("w")) == (52, 71)  # with those of the heads


def _on_a_terminal(program: str, columns: int) -> str:
    """Run *program* on a terminal of so many columns and return what it shows."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    variables = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=theirs, env=variables | {"NO_COLOR": "1"}
    ) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError), os.fdopen(ours, "rb", buffering=0) as terminal:
            while part := terminal.read(1 << 16):
                shown += part
        assert process.wait(PATIENCE_S) == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())


def test_markup_in_a_name_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    write_table((text("name"),), [{"name": "[bold]a[/bold]"}])
    assert "[bold]a[/bold]" in capsys.readouterr().out


def test_a_column_reads_a_member_of_a_member_and_nothing_of_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    columns = (text("cohort", "where.team"), number("doubled", lambda row: row["n"], str))
    write_table(columns, [{"where": {"team": "a"}, "n": 2}, {"where": None, "n": None}])
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.split() == ["a", "2"]
    assert second.split() == ["None"]


def test_columns_of_one_heading_are_columns_of_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_table((number("n", "before"), number("n", "after")), [{"before": 1, "after": 2}])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["n", "n"],
        ["1", "2"],
    ]
