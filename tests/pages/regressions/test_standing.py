"""A finding's state is said with all that qualifies it."""

from typing import Any

import pytest

from ett_service.pages.regressions.standing import standing

FIRING: dict[str, Any] = {
    "state": "firing",
    "ended": None,
    "muted_until": None,
    "triage": None,
    "acknowledged_at": None,
}


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({}, "firing"),
        ({"muted_until": "2026-03-16T06:00:00Z"}, "firing, muted until 2026-03-16 06:00"),
        ({"triage": "noise"}, "firing, triaged as noise"),
        ({"acknowledged_at": "2026-03-16T06:00:00Z"}, "firing, acknowledged"),
        ({"state": "resolved", "ended": "merged"}, "resolved, merged"),
        ({"state": "resolved", "ended": "better"}, "resolved"),
    ],
)
def test_a_state_is_said_with_what_qualifies_it(members: dict[str, Any], said: str) -> None:
    assert standing({**FIRING, **members}) == said
