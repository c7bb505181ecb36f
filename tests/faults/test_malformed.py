"""Over four hundred malformed bodies: never a failure, and the same verdict on both engines."""

from typing import Any

import pytest

from ett_service.storage.engine.store import Store
from tests.builders.databases.engines import clear
from tests.builders.servers.application import Service, running
from tests.builders.tally import Tally
from tests.faults.malformed import Malformed, bodies

FEWEST = 400
SHORT_SHARE = 10  #: of the bodies, one in so many


@pytest.fixture(params=[SHORT_SHARE, pytest.param(1, marks=pytest.mark.long)])
def sent(request: pytest.FixtureRequest, tally: Tally) -> list[Malformed]:
    """Return what is sent: in the short form other bodies in each run."""
    every = list(bodies())
    assert len(every) >= FEWEST
    share: int = request.param
    return tally.draw.sample(every, len(every) // share)


def verdict(service: Service, malformed: Malformed) -> tuple[int, list[tuple[str, str]]]:
    """Send one, and return the status and every code with its place."""
    headers = {"Content-Type": "application/json", "Content-Encoding": malformed.encoding}
    answer = service.client.post("/v1/events", content=malformed.body, headers=headers)
    body: dict[str, Any] = answer.json()
    return answer.status_code, [(each["code"], each["pointer"]) for each in body.get("errors", [])]


def verdicts(store: Store, sent: list[Malformed]) -> dict[str, Any]:
    clear(store)
    with running(store) as service:
        return {each.name: verdict(service, each) for each in sent}


def test_no_malformed_body_breaks_anything_and_both_engines_say_the_same(
    request: pytest.FixtureRequest, sent: list[Malformed], tally: Tally
) -> None:
    sqlite = verdicts(request.getfixturevalue("_sqlite_store"), sent)
    postgresql = verdicts(request.getfixturevalue("_postgresql_store"), sent)
    tally.add(others=len(sqlite) + len(postgresql))
    assert {name: each for name, each in sqlite.items() if each[0] >= 500} == {}
    assert sqlite == postgresql
