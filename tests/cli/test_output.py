import json
import os
import sys
from pathlib import Path

import pytest

from ett_service.cli.output import minute, percent, shown, whole_file, write_json
from tests.builders import terminal


def test_a_name_cannot_move_the_cursor() -> None:
    assert shown("a\x1b[2Jb\nc") == "a�[2Jb�c"
    assert shown(None) == ""


def test_ratios_are_shown_as_percent_and_instants_to_the_second() -> None:
    assert (percent(0.87105), percent(None)) == ("87.11%", "-")
    assert minute("2026-03-01T08:00:00.000001Z") == "2026-03-01 08:00:00"


def test_json_keeps_every_letter(capsys: pytest.CaptureFixture[str]) -> None:
    write_json({"job": "Größe"})
    printed = capsys.readouterr().out
    assert "Größe" in printed
    assert json.loads(printed) == {"job": "Größe"}


def test_what_is_no_plain_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with whole_file(pipe) as file:
        file.write(b"all of it")
    assert os.read(reader, 100) == b"all of it"
    os.close(reader)
    assert pipe.is_fifo()


def test_a_terminal_shows_sentences_in_lines_of_whole_words() -> None:
    name = "a-job-of-a-very-long-name-that-nobody-breaks"
    program = (
        f"from ett_service.cli.output import write_prose; write_prose('It is {name} that was.')"
    )
    narrow = terminal.shown([sys.executable, "-c", program], 30, os.environ)
    wide = terminal.shown([sys.executable, "-c", program], 80, os.environ)
    assert narrow.split("\n") == ["It is", name, "that was.", ""]
    assert wide == f"It is {name} that was.\n"
