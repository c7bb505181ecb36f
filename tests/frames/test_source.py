from pathlib import Path

import pytest

from ett_service.frames import FrameError, HttpSource, connect


def test_an_address_of_the_web_is_asked_over_http() -> None:
    assert isinstance(connect("https://ett.example", "ett_key"), HttpSource)


@pytest.mark.parametrize("address", ["", "ett.db", "127.0.0.1:8080"])
def test_what_is_no_address_is_refused_with_what_to_name(address: str) -> None:
    with pytest.raises(FrameError) as refused:
        connect(address)
    assert "sqlite:///" in refused.value.hint


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    missing = tmp_path / "ett.db"
    with pytest.raises(FrameError, match="no database"):
        connect(f"sqlite:///{missing}")
    assert not missing.exists()
