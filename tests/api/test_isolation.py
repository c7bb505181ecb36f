"""Whatever a key of another project names, by path or query, is as if it were not there."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from httpx2 import Response
from sqlalchemy import select

from ett_service.api.state import Notifications
from ett_service.core.intervals import DAY_US, rfc3339
from ett_service.core.regressions.finding import Triage
from ett_service.core.words import Cause
from ett_service.metrics.families import TextFormat
from ett_service.notifications.routing import Directory
from ett_service.notifications.sender import Sender
from ett_service.storage.engine.seal import Keyring
from ett_service.storage.engine.store import Store
from ett_service.storage.schema import metadata, project
from ett_service.worker.metrics import MetricsThread
from tests.builders.clock import NOON, RECEIVED_AT
from tests.builders.jobs import failing_job
from tests.builders.regressions.stored import finding, fires
from tests.builders.servers.application import Service, running

OWNER, OTHER = "research", "other"
WHY = {"why": "because"}
LATER = rfc3339(RECEIVED_AT + 20 * DAY_US)
JOB, MISSING = "llm-70b", "nothing"

#: What the routes take in their bodies, of those whose path or body names something.
BODIES: dict[str, dict[str, Any]] = {
    "accept_trainer_status": {"trainerStatus": {"lastUpdatedTime": rfc3339(NOON)}},
    "put_verdict": {"cause": next(iter(Cause)), **WHY},
    "put_exclusion": {"from": rfc3339(NOON), **WHY},
    "triage_regression": {"verdict": next(iter(Triage)), **WHY},
    "acknowledge_regression": WHY,
    "accept_regression": WHY,
    "mute_regression": {"until": LATER, **WHY},
    "confirm_regression": {"base_job": JOB, "job": JOB},
    "rotate_key": {},
}


class Names(NamedTuple):
    """What one project has of each kind, by the parameter of a path that names it."""

    job: str
    number: str
    attempt_id: str
    marker_id: str
    regression_id: str
    mute_id: str
    prefix: str
    name: str


NOWHERE = Names(MISSING, "0", "0000000000000000-1", MISSING, "01JCXK7V4W", "01JCXK7V4W",
                "ett_00000000", MISSING)  # fmt: skip


@pytest.fixture
def service(store: Store) -> Iterator[Service]:
    """Return the application with a key to seal the secrets of receivers with."""
    directory = Directory([], Keyring("k" * 32))
    notifications = Notifications(directory, Sender, "https://ett.example")
    with running(store, notifications=notifications) as service:
        yield service


@pytest.fixture
def names(service: Service) -> Names:
    """Fill the owner's project with one of everything."""
    service.ingest(failing_job())
    with service.store.reading() as conn:
        number = conn.scalar(select(project.c.id).where(project.c.name == OWNER))
    assert number is not None
    (regression,) = fires(service.store, number, finding())

    def made(path: str, body: dict[str, Any], member: str) -> str:
        answer = service.client.post(path, json=body)
        assert answer.status_code in (200, 201), answer.text
        return str(answer.json()[member])

    MetricsThread(service.store, service.clock).publish()
    text = service.client.get("/metrics", headers={"Accept": TextFormat.OPENMETRICS.value}).text
    (attempt_id, *_) = re.findall(r'attempt_id="([^"]+)"', text)
    receiver = {"name": "oncall", "url": "https://8.8.8.8/hook", "format": "generic"}
    return Names(
        job=JOB,
        number="0",
        attempt_id=attempt_id,
        marker_id=made(
            "/v1/markers",
            {"at": rfc3339(NOON), "kind": "deploy", "title": "2.14", "id": "m-1"},
            "id",
        ),
        regression_id=regression,
        mute_id=made("/v1/regressions/mutes", {"until": LATER, **WHY}, "id"),
        prefix=made("/v1/keys", {"project": OWNER, "name": "b", "scopes": ["read"]}, "prefix"),
        name=made("/v1/receivers", receiver, "name"),
    )


class Operation(NamedTuple):
    """What the description of the API says that may be asked."""

    name: str
    method: str
    path: str
    queries: tuple[str, ...]


def operations(service: Service) -> Iterator[Operation]:
    """Yield every one that needs a key."""
    for path, methods in service.get("/openapi.json")["paths"].items():
        for method, told in methods.items():
            if path not in ("/healthz", "/readyz"):
                given = told.get("parameters", ())
                queries = tuple(each["name"] for each in given if each["in"] == "query")
                yield Operation(told["operationId"], method, path, queries)


@pytest.fixture
def other_key(service: Service) -> str:
    """Make a key of the other project, which may do all that is of its project."""
    return service.key({"read", "write"}, project=OTHER)


def ask(
    service: Service, key: str, asked: Operation, names: Names, query: dict[str, str]
) -> tuple[int, str]:
    """Return status and body, in which ids of requests and *names* are made equal."""
    answer: Response = service.client.request(
        asked.method,
        asked.path.format(**names._asdict()),
        params=query,
        json=BODIES.get(asked.name),
        headers={"Authorization": f"Bearer {key}"},
    )
    text = re.sub(r"urn:req:\w+", "", answer.text)
    for name in {*names, *query.values()} - {"0"}:
        text = text.replace(name, "-")
    return answer.status_code, text


def rows_of(service: Service, name: str) -> dict[str, list[Any]]:
    """Return all that the database has of a project, but for what is counted of its keys."""
    kept: dict[str, list[Any]] = {}
    with service.store.reading() as conn:
        number = conn.scalar(select(project.c.id).where(project.c.name == name))
        for table in metadata.sorted_tables:
            if "project_id" in table.c:
                columns = [each for each in table.c if each.name != "last_used_us"]
                rows = conn.execute(select(*columns).where(table.c.project_id == number))
                kept[table.name] = sorted(map(repr, rows))
    return kept


def test_what_a_path_names_of_another_project_looks_like_what_is_not_there(
    service: Service, names: Names, other_key: str
) -> None:
    before, tried = rows_of(service, OWNER), []
    for asked in operations(service):
        if "{" in asked.path:
            tried.append(asked.name)
            foreign = ask(service, other_key, asked, names, {})
            missing = ask(service, other_key, asked, NOWHERE, {})
            assert foreign == missing, asked
    service.settle()

    assert rows_of(service, OWNER) == before
    assert len(tried) > 30


def test_what_a_query_names_of_another_project_looks_like_what_is_not_there(
    service: Service, names: Names, other_key: str
) -> None:
    cursors = {
        asked.name: service.get(asked.path.format(**names._asdict()), limit=1)["next_cursor"]
        for asked in operations(service)
        if asked.method == "get" and {"limit", "cursor"} <= {*asked.queries}
    }
    before, tried = rows_of(service, OWNER), 0
    for asked in operations(service):
        named = {
            "project": (OWNER, MISSING),
            "q": (names.job, MISSING),
            "marker": (names.marker_id, MISSING),
            "base": (f"job={names.job}", f"job={MISSING}"),
            "with": (f"job={names.job}", f"job={MISSING}"),
            "where": ("team=llm", "team=none"),
            "cursor": (cursors.get(asked.name), None),
        }
        for query in set(asked.queries) & named.keys():
            of_owner, of_nobody = (
                {} if value is None else {query: value} for value in named[query]
            )
            tried += 1
            foreign = ask(service, other_key, asked, NOWHERE, of_owner)
            assert foreign == ask(service, other_key, asked, NOWHERE, of_nobody), (asked, query)
            assert query != "project" or foreign[0] in (403, 404), asked
    service.settle()

    assert rows_of(service, OWNER) == before
    assert tried > 80
