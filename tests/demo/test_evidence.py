"""The rules infer every cause from its evidence."""

from collections.abc import Mapping
from typing import Any

import pytest

from ett_service.core.events import AttemptEnded
from ett_service.core.ledger.attempt_results import classify
from ett_service.core.words import ORIGIN_OF_CAUSE, Outcome
from ett_service.demo.fleet import LLAMA3_OF_USERS, LLAMA3_UNEXPECTED
from ett_service.demo.stops import (
    OF_MACHINES,
    OF_USERS,
    OUTAGE,
    TIME_LIMIT,
    USERS_WEIGHTS,
    Failure,
    Members,
)

NAMED: Mapping[str, Failure] = {
    **OF_MACHINES,
    **OF_USERS,
    "outage": OUTAGE,
    "time_limit": TIME_LIMIT,
}
LEFT = [
    pytest.param(failure, members, id=f"{name}-{number}")
    for name, failure in NAMED.items()
    for number, members in enumerate(failure.leaves)
]


@pytest.mark.parametrize(("failure", "members"), LEFT)
def test_the_rules_find_the_cause(failure: Failure, members: Members) -> None:
    end: dict[str, Any] = dict(members)
    assert not {"cause", "origin"} & set(end)
    ending = AttemptEnded(id="e", at=0, outcome=Outcome.FAILED, **end)
    verdict = classify(Outcome.FAILED, ending, [(0, ending)])
    assert verdict.cause is failure.cause
    assert verdict.evidence.rule not in ("reported", "none")


def test_each_row_of_the_published_table_can_happen() -> None:
    assert set(OF_MACHINES) == set(LLAMA3_UNEXPECTED)
    assert len(USERS_WEIGHTS) == len(OF_USERS)


def test_software_bugs_alone_are_laid_at_a_users_door() -> None:
    of_users = [
        row for row, failure in OF_MACHINES.items() if ORIGIN_OF_CAUSE[failure.cause] == "user"
    ]
    assert sum(LLAMA3_UNEXPECTED[row] for row in of_users) == LLAMA3_OF_USERS
