"""Marks of what has begun."""

import os
from pathlib import Path

from ett_service.client.starting.begun import FOLDER, begins_first


def test_only_the_first_of_a_name_begins_first(tmp_path: Path) -> None:
    assert begins_first(tmp_path, "a/1")
    assert not begins_first(tmp_path, "a/1")
    assert begins_first(tmp_path, "a/2")


def test_where_no_mark_can_be_left_something_may_have_begun(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("in the way")
    assert not begins_first(tmp_path, "a")


def test_marks_are_forgotten_after_months(tmp_path: Path) -> None:
    begins_first(tmp_path, "old")
    os.utime(tmp_path / FOLDER / "old", (0, 0))
    begins_first(tmp_path, "new")
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == ["new"]
