"""Names as events can have them."""

import pytest

from ett_service.importers.importer import job_name, launch_name, word


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("llm-70b", "llm-70b"),
        ("a/b c", "a-b c"),
        (" x\x00y\ufffd\u00a0", "x y"),
        ("e\u0301", "\u00e9"),
        ("..", "otherwise"),
        ("\n", "otherwise"),
        ("n" * 300, "n" * 200),
    ],
)
def test_a_job_has_a_name_that_the_service_takes(text: str, name: str) -> None:
    assert job_name(text, "otherwise") == name


def test_a_word_is_printable_and_not_too_long() -> None:
    assert word("a\u2028b\tc\udcff", 4) == "a b"


def test_a_launch_is_named_by_its_instant() -> None:
    assert launch_name(1_785_000_000_123_456) == "20260725T172000.123456Z"
