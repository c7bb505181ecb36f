"""The format: begins and ends of one thread nest like brackets."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ett_service.api.jobs.timeline import Slice, drawn


def slice_(start: int, end: int, name: str = "a") -> Slice:
    return Slice(start, end, name, "phase", {})


def lengths(events: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Close each end against the begin that is open last, and sum the time by name."""
    lengths_by_name: dict[str, int] = defaultdict(int)
    open_begins: list[dict[str, Any]] = []
    at = None
    for event in events:
        assert at is None or event["ts"] >= at
        at = event["ts"]
        if event["ph"] == "B":
            open_begins.append(event)
        else:
            begin = open_begins.pop()
            lengths_by_name[begin["name"]] += event["ts"] - begin["ts"]
    assert open_begins == []
    return lengths_by_name


def test_a_slice_inside_another_is_drawn_inside_it() -> None:
    events = list(drawn(1, 0, [slice_(2, 3, "inner"), slice_(0, 9, "outer")]))
    assert [(event["ph"], event["ts"]) for event in events] == [
        ("B", 0),
        ("B", 2),
        ("E", 3),
        ("E", 9),
    ]


def test_a_slice_that_outlasts_the_one_it_began_in_goes_on_beside_it() -> None:
    events = list(drawn(1, 0, [slice_(0, 10, "init"), slice_(5, 15, "compile")]))
    assert lengths(events) == {"init": 10, "compile": 10}
    assert [event["args"] for event in events if event["ph"] == "B"][-1] == {"continued": True}


def test_an_empty_slice_begins_and_ends() -> None:
    events = list(drawn(1, 0, [slice_(4, 4), slice_(4, 4)]))
    assert [event["ph"] for event in events] == ["B", "E", "B", "E"]


intervals = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted)


@given(st.lists(intervals, max_size=12))
def test_every_begin_has_its_end_and_no_length_is_lost(pairs: list[list[int]]) -> None:
    slices = [slice_(start, end, f"s{number}") for number, (start, end) in enumerate(pairs)]
    drawn_lengths = lengths(drawn(1, 0, slices))
    assert drawn_lengths == {span.name: span.end_at - span.start_at for span in slices}
