import pytest

from ett_service.cli.main import main
from ett_service.storage.engine.store import open_store


def test_a_new_file_gets_the_schema_and_a_second_run_changes_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["migrate"]) == 0
    open_store("sqlite:///ett.db").close()
    assert main(["migrate"]) == 0
    assert capsys.readouterr().out == "sqlite:///ett.db has the newest schema.\n" * 2
