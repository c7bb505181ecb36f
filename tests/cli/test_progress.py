import pytest

from ett_service.cli.progress import bar, counted


def test_counting_passes_everything_on_and_prints_no_data(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert list(counted(iter("abc"), "letters")) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "")


def test_a_bar_prints_nothing_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with bar("jobs") as reach:
        reach(1, 2)
        reach(3, 2)
    assert capsys.readouterr() == ("", "")
