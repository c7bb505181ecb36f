"""Facts about the job: the latest of each member, then the larger value."""

from itertools import permutations

from ett_service.core.events import JobFacts
from ett_service.core.ledger.attempts.attempts import facts


def test_each_member_and_each_label_has_its_own_latest_value() -> None:
    timed = [
        (10, JobFacts(id="a", at=10, team="x", gpus=8, labels={"run": "1", "lr": "3"})),
        (20, JobFacts(id="b", at=20, team="y", labels={"run": "2"})),
        (20, JobFacts(id="c", at=20, gpus=16)),
        (20, JobFacts(id="d", at=20, gpus=4)),
    ]

    for order in permutations(timed):
        latest = facts(order)
        assert (latest.team, latest.gpus, latest.name) == ("y", 16, None)
        assert dict(latest.labels) == {"run": "2", "lr": "3"}
