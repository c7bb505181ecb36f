from enum import StrEnum
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from ett_service.api import pagination as cursor
from ett_service.api.answers import Instant
from ett_service.api.fleet.summary import GroupAnswer
from ett_service.api.jobs.answers import SegmentAnswer
from ett_service.api.pagination import Column, ColumnKind, columns_of, event_columns
from ett_service.api.problems import Problem, ProblemKind
from ett_service.core.words import Category

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


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(BaseModel):
    count: int
    at: Instant | None


class Row(BaseModel):
    name: str | None
    colour: Colour
    share: float
    fine: bool
    inner: Inner | None
    by_colour: dict[Colour, float] | None
    worth: dict[Colour, float | None]
    labels: dict[str, str]
    numbers: list[int]
    either: int | str
    worded: Colour | Literal["none"] | None


def test_columns_follow_from_the_schema() -> None:
    assert [(column.name, column.kind) for column in columns_of(Row)] == [
        ("name", ColumnKind.TEXT),
        ("colour", ColumnKind.TEXT),
        ("share", ColumnKind.NUMBER),
        ("fine", ColumnKind.FLAG),
        ("inner.count", ColumnKind.WHOLE),
        ("inner.at", ColumnKind.INSTANT),
        ("by_colour.red", ColumnKind.NUMBER),
        ("by_colour.blue", ColumnKind.NUMBER),
        ("worth.red", ColumnKind.NUMBER),
        ("worth.blue", ColumnKind.NUMBER),
        ("labels", ColumnKind.JSON),
        ("numbers", ColumnKind.JSON),
        ("either", ColumnKind.JSON),
        ("worded", ColumnKind.TEXT),
    ]


def test_a_word_that_an_object_leaves_out_is_0_and_one_of_no_object_is_null() -> None:
    column = next(column for column in columns_of(Row) if column.name == "by_colour.red")
    assert column.value({"by_colour": {"blue": 2.0}}) == 0
    assert column.value({"by_colour": {"red": 2.0}}) == 2.0
    assert column.value({"by_colour": None}) is None


def test_what_may_be_null_is_null_and_not_0_where_it_is_so() -> None:
    column = next(column for column in columns_of(Row) if column.name == "worth.red")
    assert column.value({"worth": {"red": None}}) is None


def test_a_member_of_an_object_that_is_null_is_null() -> None:
    count = next(column for column in columns_of(Row) if column.name == "inner.count")
    assert count.value({"inner": None}) is None
    assert count.value({"inner": {"count": 3}}) == 3


def test_the_columns_of_events_are_all_members_that_an_event_may_have() -> None:
    columns = {column.name: column.kind for column in event_columns()}
    assert list(columns)[:4] == ["type", "id", "at", "received_at"]
    assert {"step", "exception", "preempted_by", "start", "attributes", "rank"} <= columns.keys()
    assert columns["start"] is columns["received_at"] is ColumnKind.INSTANT
    assert columns["tokens"] is ColumnKind.WHOLE
    assert columns["labels"] is columns["attributes"] is ColumnKind.JSON


def test_a_group_has_a_column_for_each_category_whatever_was_grouped_by() -> None:
    names = [column.name for column in columns_of(GroupAnswer)]
    assert {f"gpu_categories.{category}" for category in Category} <= set(names)
    assert {"group.team", "time_to_start.p90", "cost.by_category.shutdown"} <= set(names)
    assert {"phases.pt2_compile.mean", "target.distance", "preemption.unknown.count"} <= set(names)


def test_a_plain_row_has_its_members_for_columns() -> None:
    assert columns_of(SegmentAnswer)[0] == Column(("start",), ColumnKind.INSTANT)
