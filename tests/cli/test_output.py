import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from ett_service.cli.output import (
    clock,
    counted,
    minute,
    percent,
    shown,
    whole_file,
    write_json,
    write_table,
)


def test_a_piped_table_is_plain_and_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    write_table(("name", "count"), [(long, 1), ("b", 20)], right=("count",))
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "count"]
    assert first == f"{long}      1"
    assert second.split() == ["b", "20"]


def test_a_narrow_terminal_folds_words_and_cuts_nothing() -> None:
    program = (
        "from ett_service.cli.output import write_table\n"
        "write_table(('name', 'count', 'why'), [('n' * 50, '123456789', 'w' * 70)],"
        " right=('count',), last=('all', '987654321', ''))"
    )
    for columns in (20, 60):
        said = _on_a_terminal(program, columns)
        assert "123456789" in said
        assert "987654321" in said
        assert (said.count("n"), said.count("w")) == (52, 71)  # with those of the heads


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
        assert process.wait(20) == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())


def test_markup_in_a_name_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(("name",), [("[bold]a[/bold]",)])
    assert "[bold]a[/bold]" in capsys.readouterr().out


def test_a_name_cannot_move_the_cursor() -> None:
    assert shown("a\x1b[2Jb\nc") == "a�[2Jb�c"
    assert shown(None) == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0:00:00.0"),
        (59.96, "0:01:00.0"),
        (3661.25, "1:01:01.2"),
        (9e5, "250:00:00.0"),
    ],
)
def test_durations_are_shown_as_a_clock(seconds: float | None, text: str) -> None:
    assert clock(seconds) == text


def test_ratios_are_shown_as_percent_and_instants_to_the_second() -> None:
    assert (percent(0.87105), percent(None)) == ("87.11%", "-")
    assert minute("2026-03-01T08:00:00.000001Z") == "2026-03-01 08:00:00"


def test_counting_passes_everything_on_and_prints_no_data(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert list(counted(iter("abc"), "letters")) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "")


def test_json_keeps_every_letter(capsys: pytest.CaptureFixture[str]) -> None:
    write_json({"job": "Größe"})
    said = capsys.readouterr().out
    assert "Größe" in said
    assert json.loads(said) == {"job": "Größe"}


def test_what_is_no_plain_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with whole_file(pipe) as file:
        file.write(b"all of it")
    assert os.read(reader, 100) == b"all of it"
    os.close(reader)
    assert pipe.is_fifo()
