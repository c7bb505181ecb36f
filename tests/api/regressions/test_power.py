"""The smallest detectable changes are listed, so that silence is not read as health."""

import json
from typing import Any

from ett_service.core.intervals import DAY_US
from ett_service.storage.record.keys import create_project
from tests.builders.clock import NOON
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.regressions.stored import POWER, searched
from tests.builders.servers.application import Service


def power(service: Service, **query: Any) -> Any:
    return service.get("/v1/regressions/power", **query)


def searched_twice(service: Service, project: str = "research") -> None:
    project_id = service.store.write(lambda conn: create_project(conn, project, NOON))
    searched(service.store, project_id, NOON - DAY_US, power=POWER[:1])
    searched(service.store, project_id, NOON)


def test_the_smallest_detectable_change_of_the_last_search_is_listed_by_series(
    service: Service,
) -> None:
    assert power(service) == {"runs": [], "power": [], "next_cursor": None}
    searched_twice(service)
    answer = power(service)
    assert answer["runs"] == [
        {"project": "research", "at": "2026-03-01T12:00:00.000000Z", "took_seconds": 2.0,
         "series": 9}
    ]  # fmt: skip
    assert sorted(row["recent"] for row in answer["power"]) == [3, 14, 68]
    (rare,) = power(service, where="model:rare")["power"]
    assert (rare["smallest"], rare["cohort"]) == (None, {"cluster": "a", "model": "rare"})
    (ett,) = power(service, metric="ett_ratio")["power"]
    assert (ett["smallest"], ett["phase"], ett["cohort"]) == (0.98, None, {})
    assert len(power(service, phase="pt2_compile")["power"]) == 2


@ON_ONE_ENGINE
def test_pages_follow_each_other_without_a_gap(service: Service) -> None:
    searched_twice(service)
    searched_twice(service, "zoo")
    read: list[str] = []
    cursor: dict[str, Any] = {}
    while len(read) < 6:
        page = power(service, limit=2, **cursor)
        read += [json.dumps(row) for row in page["power"]]
        cursor = {"cursor": page["next_cursor"]}
    assert cursor == {"cursor": None}
    assert len(set(read)) == 6
    assert power(service, project="zoo")["runs"][0]["project"] == "zoo"
    answer = service.client.get("/v1/regressions/power", params={"format": "csv"})
    assert len(answer.text.splitlines()) == 7
    assert service.get("/v1/regressions/power", 422, cursor="e30")


@ON_ONE_ENGINE
def test_a_project_reads_its_own(service: Service) -> None:
    searched_twice(service)
    headers = {"Authorization": f"Bearer {service.key({'read'}, 'other')}"}
    answer = service.client.get("/v1/regressions/power", headers=headers)
    assert answer.json()["runs"] == []
