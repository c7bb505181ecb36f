"""Finding files and reading their lines."""

import gzip
import os
import shutil
from pathlib import Path

import pytest

from ett_service.importers.files import Line, Unreadable, files_under, lines_of
from ett_service.importers.importer import Report

PATTERNS = ("result_*.txt", "result_*.txt.gz")


def test_lines_are_numbered_and_the_last_may_still_grow(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one\n\xff\n\nlast")

    assert list(lines_of(path)) == [
        Line(1, "one\n", is_whole=True),
        Line(2, "\N{REPLACEMENT CHARACTER}\n", is_whole=True),
        Line(3, "\n", is_whole=True),
        Line(4, "last", is_whole=False),
    ]


def test_gzip_is_read_like_plain_text_whatever_its_name(tmp_path: Path) -> None:
    for name, content in (("plain", b"one\ntwo"), ("packed", gzip.compress(b"one\ntwo"))):
        (tmp_path / name).write_bytes(content)

    assert list(lines_of(tmp_path / "packed")) == list(lines_of(tmp_path / "plain"))


@pytest.mark.parametrize("lost", [1, 20])
def test_gzip_that_is_cut_names_the_line(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(os.urandom(30_000).hex().encode() + b"\nend\n")[:-lost])

    with pytest.raises(Unreadable, match="gzip data is truncated or damaged after line"):
        list(lines_of(path))


def test_what_cannot_be_opened_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="Is a directory"):
        list(lines_of(tmp_path))


def test_what_would_never_end_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "is a FIFO"), (Path("/dev/zero"), "is a device")):
        with pytest.raises(Unreadable, match=kind):
            list(lines_of(path))


def test_a_pipe_that_a_shell_passes_on_is_read() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"one\n")
    os.close(writing)
    lines = list(lines_of(Path(f"/dev/fd/{reading}")))
    os.close(reading)

    assert [line.text for line in lines] == ["one\n"]


def test_folders_are_searched_for_names_that_fit(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "empty").mkdir()
    names = ["result_1.txt", "b/result_0.txt.gz", "result_0.txt", "notes.txt"]
    for name in names:
        (tmp_path / name).touch()
    os.mkfifo(tmp_path / "result_9.txt")
    report = Report()

    paths = [tmp_path, tmp_path / "notes.txt", tmp_path / "empty"]
    files = list(files_under(paths, PATTERNS, report))

    assert [str(file.relative_to(tmp_path)) for file in files] == [
        "result_0.txt", "result_1.txt", "b/result_0.txt.gz", "notes.txt",
    ]  # fmt: skip
    assert report.unread == [
        f"{tmp_path / 'result_9.txt'}: not a plain file",
        f"{tmp_path / 'empty'}: no result_*.txt in it",
    ]


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A path that is too long is refused to every user; permissions are not, to root."""
    top = tmp_path / "top"
    top.mkdir()
    begin = os.open(".", os.O_RDONLY)
    try:
        os.chdir(top)
        for _ in range(20):
            os.mkdir("d" * 250)  # noqa: PTH102 -- the whole path is too long for a path
            os.chdir("d" * 250)
        os.fchdir(begin)
        report = Report()

        assert list(files_under([top], PATTERNS, report)) == []
    finally:
        os.fchdir(begin)
        os.close(begin)
        shutil.rmtree(top)
    (remark,) = report.unread
    assert remark.startswith(f"{top}/ddd")
