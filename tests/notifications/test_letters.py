"""Names are shown as they are, and cut where nothing breaks."""

from hypothesis import given
from hypothesis import strategies as st

from ett_service.notifications.wording import cut, exact, fitted, shown


def _escape(character: str) -> str:
    return {"&": "&amp;", "<": "&lt;"}.get(character, character)


def test_what_cannot_be_seen_is_made_visible() -> None:
    assert shown("a\u202eb\x1b[31m\ud800c", 50) == "a�b�[31m�c"
    assert shown("two\nlines\tand\u00a0more", 50) == "two lines and more"


def test_a_program_gets_the_name_as_it_is() -> None:
    assert exact("a\u202eb\n", 50) == "a\u202eb\n"
    assert exact("\ud800", 50) == "?"


def test_a_cut_is_marked() -> None:
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdefg", 6) == "abcde…"


def test_a_cut_falls_beside_an_escape() -> None:
    assert fitted("a&b", 7, _escape) == "a&amp;b"
    assert [fitted("ab&cd", most, _escape) for most in (8, 9)] == ["ab&amp;…", "ab&amp;cd"]
    assert fitted("ab&cd", 7, _escape) == "ab…"


@given(text=st.text(), most=st.integers(1, 60))
def test_what_is_cut_is_short_enough_and_has_whole_escapes(text: str, most: int) -> None:
    escaped = fitted(text, most, _escape)
    assert len(escaped) <= most
    plain = escaped.replace("&amp;", "+").replace("&lt;", "+")
    assert "&" not in plain
    assert "<" not in plain
