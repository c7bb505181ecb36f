import pytest

from ett_service.core.words import UNKNOWN
from ett_service.storage.metrics.counters import label


@pytest.mark.parametrize("value", [None, ""])
def test_what_nobody_named_is_unknown(value: str | None) -> None:
    assert label(value) == UNKNOWN


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\x00b", "a\u2028b", "a\ud800b", "a\x7fb"])
def test_what_could_break_a_line_is_replaced(value: str) -> None:
    assert label(value) == "a\ufffdb"


def test_a_long_word_is_cut() -> None:
    assert len(label("x" * 1000)) == 128
