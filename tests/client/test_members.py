"""Members of events made to fit the wire."""

from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest

from ett_service.client.members import fitted


class Seven:
    """A whole number that is no int, as numpy's and torch's are."""

    def __index__(self) -> int:
        return 7


@pytest.mark.parametrize(
    ("member", "given", "expected"),
    [
        ("step", 7, 7),
        ("step", Seven(), 7),
        ("tokens", 1e9, 1_000_000_000),
        ("tokens", 1.5, None),
        ("tokens", True, None),
        ("samples", -1, None),
        ("samples", 2**53, None),
        ("samples", "7", None),
        ("samples", float("inf"), None),
        ("flops", Fraction(5, 2), 2.5),
        ("flops", float("nan"), None),
        ("gpus", 1_000_001, None),
        ("team", "a\nb\ud800", "a?b?"),
        ("team", "x" * 300, "x" * 256),
        ("team", "", None),
        ("team", 7, None),
        ("message", "line\n\x00\x1b[0m", "line\n??[0m"),
        ("signal", 128, None),
        ("labels", {"a": "b", "c": 7, "": "d"}, {"a": "b"}),
        ("labels", ["a"], None),
        ("submitted_at", datetime(2026, 11, 21, 4, 5, 6, 7, UTC), "2026-11-21T04:05:06.000007Z"),
        ("submitted_at", "2026-11-21T05:05:06+01:00", "2026-11-21T04:05:06.000000Z"),
        ("submitted_at", "2026-11-21T05:05:06", None),
        ("submitted_at", 1_795_205_987, None),
    ],
)
def test_a_member_is_mended_or_left_out(member: str, given: Any, expected: Any) -> None:
    assert fitted({member: given, "type": "x"}) == {member: expected, "type": "x"}


@pytest.mark.parametrize("step", [None, "seven", -1, 1.5, object()])
def test_a_step_that_is_none_is_no_progress(step: Any) -> None:
    with pytest.raises(ValueError, match="step"):
        fitted({"step": step})


def test_sixteen_labels_are_kept() -> None:
    labels = {f"l{n}": "x" for n in range(20)}
    assert len(fitted({"labels": labels})["labels"]) == 16
