from typing import Any

import pytest

from ett_service.api import pagination as cursor
from ett_service.api.problems import Problem, ProblemKind

PLACE = tuple[cursor.Whole, cursor.Word]


def test_a_cursor_says_where_the_page_ended() -> None:
    assert cursor.read(cursor.write((17, "llm-70b")), PLACE) == (17, "llm-70b")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "!",
        "not-a-cursor",
        "AAAA",
        cursor.write((17,)),
        cursor.write(("17", "llm-70b")),
        cursor.write((17, "with\x00nul")),
        cursor.write((1 << 63, "llm-70b")),
        "\u2603",
    ],
)
def test_a_cursor_that_this_list_did_not_make_is_refused(text: str) -> None:
    with pytest.raises(Problem) as refusal:
        cursor.read(text, PLACE)
    assert refusal.value.kind is ProblemKind.VALIDATION_FAILED
    members: Any = refusal.value.members
    assert members["errors"] == [{"code": "bad_cursor", "pointer": "/query/cursor"}]
