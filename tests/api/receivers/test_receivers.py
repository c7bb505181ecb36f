"""Receivers over HTTP: created, tested, rotated, replayed, and their secrets never shown."""

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import pytest
from sqlalchemy import Connection, insert
from standardwebhooks import Webhook
from starlette.testclient import TestClient

from ett_service.api.app import create_app
from ett_service.api.receivers.receivers import ReceiverRequest
from ett_service.api.state import Notifications
from ett_service.core.intervals import HOUR_US, rfc3339
from ett_service.notifications.formats import FORMATS
from ett_service.notifications.guard import Allowed
from ett_service.notifications.notice import OF_SETTINGS, Receiver
from ett_service.notifications.routing import Directory
from ett_service.notifications.sender import Sender, Sending
from ett_service.storage.engine.seal import Keyring
from ett_service.storage.engine.store import Store
from ett_service.storage.jobs.listing import project_id
from ett_service.storage.receivers import deliveries
from ett_service.storage.receivers.deliveries import DeliveryState, Message
from ett_service.storage.record.keys import SCOPES, create_key
from ett_service.storage.schema import delivery, receiver_health
from tests.builders.clock import RECEIVED_AT, Clock
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.receivers.listening import receiving, reply
from tests.builders.servers.application import state_of

NAMED = Receiver(OF_SETTINGS, "fleet", "https://hooks.example/CANARYsettings", FORMATS["slack"])
LOOPBACK = Sending(connect_seconds=2, total_seconds=4, allowed=Allowed.of(["127.0.0.0/8"]))
REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"url": "https://10.0.0.1/"}, "/url"),
    ({"url": "https://169.254.169.254/latest/meta-data"}, "/url"),
    ({"url": "https://[::ffff:10.0.0.1]/"}, "/url"),
    ({"url": "https://user:CANARY@example.com/"}, "/url"),
    ({"url": "ftp://example.com/"}, "/url"),
    ({"url": "https://localhost:22/"}, "/url"),
    ({"url": "https://no-such-host.invalid/"}, "/url"),
    ({"url": "http://a b/"}, "/url"),
    ({"url": "x" * 2001}, "/url"),
    ({"name": "On Call"}, "/name"),
    ({"format": "smoke"}, "/format"),
    ({"where": {"planet": "mars"}}, "/where/planet/[key]"),
    ({"format": "pagerduty"}, "/routing_key"),
    ({"routing_key": "R0UT1NG"}, "/routing_key"),
    ({"secret": "mine"}, "/secret"),
)


@dataclass
class Desk:
    """The application as an administrator of receivers uses it."""

    client: TestClient
    store: Store
    clock: Clock

    def key(self, *scopes: str, project: str = "research") -> dict[str, str]:
        """Make a key, and return the header that names it."""
        secret = self.store.write(
            lambda conn: create_key(conn, project=project, name="test", scopes=scopes, now_us=1)
        )
        return {"Authorization": f"Bearer {secret}"}

    def add(self, url: str, name: str = "oncall", **more: Any) -> Any:
        """Make a receiver."""
        answer = self.client.post("/v1/receivers", json={"name": name, "url": url, **more})
        assert answer.status_code == 201, answer.text
        return answer.json()

    def act(self, act: str, status: int = 200, name: str = "oncall") -> Any:
        """Post to a receiver's route."""
        answer = self.client.post(f"/v1/receivers/{name}/{act}")
        assert answer.status_code == status, answer.text
        return answer.json()

    def listed(self, **headers: str) -> dict[str, Any]:
        """List the receivers by name."""
        answer = self.client.get("/v1/receivers", headers=headers)
        assert answer.status_code == 200, answer.text
        return {receiver["name"]: receiver for receiver in answer.json()["receivers"]}


@pytest.fixture
def open_desk(store: Store) -> Iterator[Callable[[Keyring], Desk]]:
    """Return a function that starts the application with a keyring."""
    started: list[TestClient] = []

    def start(keyring: Keyring) -> Desk:
        clock = Clock(RECEIVED_AT)
        notifications = Notifications(
            Directory([NAMED], keyring), lambda: Sender(LOOPBACK), "https://ett.example"
        )
        state = state_of(store, clock, notifications=notifications)
        client = TestClient(create_app(lambda: nullcontext(state)))
        started.append(client)
        desk = Desk(client.__enter__(), store, clock)
        client.headers.update(desk.key(*SCOPES))
        return desk

    yield start
    for client in started:
        client.__exit__(None, None, None)


@pytest.fixture
def desk(open_desk: Callable[[Keyring], Desk]) -> Desk:
    """Return the application with a key to seal secrets with."""
    return open_desk(Keyring("k" * 32))


def test_a_receiver_is_made_listed_and_deleted(desk: Desk) -> None:
    created = desk.add("http://127.0.0.1:9/CANARYurl", where={"model": "llm-70b"})
    assert created["secret"].startswith("whsec_")
    oncall = desk.listed()["oncall"]
    assert (oncall["host"], oncall["state"], oncall["where"]) == (
        "127.0.0.1",
        "working",
        {"model": "llm-70b"},
    )
    assert desk.client.delete("/v1/receivers/oncall").status_code == 204
    assert desk.client.delete("/v1/receivers/oncall").status_code == 404
    assert set(desk.listed()) == {"fleet"}


def test_a_test_message_arrives_signed_and_marked_as_a_test(desk: Desk) -> None:
    desk.clock.now_us = time.time_ns() // 1000  # the reference library looks at the real clock
    with receiving(reply(200, b"<b>thanks\x1b")) as hook:
        secret = desk.add(hook.url)["secret"]
        verdict = desk.act("test")
    (request,) = hook.requests
    alert = Webhook(secret).verify(request.body, request.headers)["alerts"][0]
    assert alert["ett"]["test"] is True
    assert alert["annotations"]["summary"].startswith("Test: pt2_compile +65%")
    assert verdict["delivered"] is True
    assert verdict["outcome"].startswith("It answered 200 within ")
    assert verdict["said"] == "<b>thanks\\x1b"


@ON_ONE_ENGINE
def test_a_test_message_that_does_not_arrive_gives_the_reason(desk: Desk) -> None:
    with receiving(reply(302, Location="http://169.254.169.254/")) as hook:
        desk.add(hook.url)
        refused = desk.act("test")
    gone = desk.act("test")
    assert (refused["delivered"], refused["status"]) == (False, 302)
    assert refused["outcome"].startswith("It refused: it answered 302")
    assert (gone["delivered"], gone["status"]) == (False, None)
    assert gone["outcome"].startswith("It was not notified: ")
    assert len(hook.requests) == 1


def test_after_a_rotation_both_secrets_verify(desk: Desk) -> None:
    desk.clock.now_us = time.time_ns() // 1000
    with receiving() as hook:
        former = desk.add(hook.url)["secret"]
        rotated = desk.act("rotate")
        desk.act("test")
        assert desk.listed()["oncall"]["both_sign_until"] == rotated["both_sign_until"]
        desk.clock.now_us += 86_400_000_000
        desk.act("test")
    both, later = hook.requests
    for secret in (former, rotated["secret"]):
        Webhook(secret).verify(both.body, both.headers)
    assert len(later.headers["webhook-signature"].split()) == 1
    assert desk.listed()["oncall"]["both_sign_until"] is None


@ON_ONE_ENGINE
def test_pagerduty_gets_its_routing_key_and_no_signature(desk: Desk) -> None:
    with receiving() as hook:
        created = desk.add(hook.url, format="pagerduty", routing_key="CANARYrouting")
        desk.act("test")
    (request,) = hook.requests
    assert created["secret"] is None
    assert json.loads(request.body)["routing_key"] == "CANARYrouting"
    assert "webhook-signature" not in request.headers
    assert desk.act("rotate", status=409)["detail"].startswith("Messages of this format")


@ON_ONE_ENGINE
def test_a_receiver_that_cannot_be_is_refused(desk: Desk) -> None:
    for members, pointer in REFUSED:
        good = {"name": "oncall", "url": "http://127.0.0.1:9/"}
        answer = desk.client.post("/v1/receivers", json={**good, **members})
        assert answer.status_code == 422, members
        assert [fault["pointer"] for fault in answer.json()["errors"]] == [pointer], members
        assert "CANARY" not in answer.text
    assert set(desk.listed()) == {"fleet"}


@ON_ONE_ENGINE
def test_a_name_is_taken_once_and_those_of_the_settings_stay_theirs(desk: Desk) -> None:
    desk.add("http://127.0.0.1:9/")
    for name in ("oncall", "fleet"):
        body = {"name": name, "url": "http://127.0.0.1:9/"}
        assert desk.client.post("/v1/receivers", json=body).status_code == 409
    assert desk.client.delete("/v1/receivers/fleet").status_code == 409
    assert "settings" in desk.act("rotate", status=409, name="fleet")["detail"]


def test_a_project_sees_its_own_receivers_alone(desk: Desk) -> None:
    desk.add("http://127.0.0.1:9/")
    assert set(desk.listed(**desk.key("read"))) == {"oncall"}
    assert set(desk.listed(**desk.key("read", project="other"))) == set()
    assert set(desk.listed(**desk.key("admin", project="other"))) == {"fleet"}
    for path in ("oncall/deliveries", "fleet/deliveries"):
        answer = desk.client.get(f"/v1/receivers/{path}", headers=desk.key("read", project="other"))
        assert answer.status_code == 404
    foreign = desk.client.get(
        "/v1/receivers?project=research", headers=desk.key("read", project="x")
    )
    assert foreign.status_code == 404


def _put(desk: Desk, done: DeliveryState = DeliveryState.DEAD, version: int = 1) -> None:
    def put(conn: Connection) -> None:
        owner = project_id(conn, "research")
        assert owner is not None
        at_us = desk.clock.now_us + version
        deliveries.put(conn, owner, "f", version, [Message(owner, "oncall", "{}")], at_us)
        conn.execute(delivery.update().values(done=done.value))

    desk.store.write(put)


def test_dead_letters_are_listed_and_sent_again(desk: Desk) -> None:
    desk.add("http://127.0.0.1:9/")
    _put(desk)
    path = "/v1/receivers/oncall/deliveries"
    (dead,) = desk.client.get(path, params={"state": "dead"}).json()["deliveries"]
    assert (dead["state"], dead["fingerprint"], dead["state_version"]) == ("dead", "f", 1)
    assert desk.listed()["oncall"]["dead"] == 1
    desk.store.write(
        lambda conn: conn.execute(
            receiver_health.update().values(disabled_us=1, disabled_why="It answered 410.")
        )
    )
    assert desk.listed()["oncall"]["state"] == "disabled"
    assert desk.act("replay") == {"replayed": 1}
    assert desk.act("replay") == {"replayed": 0}
    oncall = desk.listed()["oncall"]
    assert (oncall["state"], oncall["waiting"], oncall["dead"]) == ("working", 1, 0)
    (waits,) = desk.client.get(path).json()["deliveries"]
    assert (waits["id"], waits["state"]) == (dead["id"], "waiting")


def test_a_receiver_that_fails_again_and_again_is_paused_for_a_while(desk: Desk) -> None:
    desk.add("http://127.0.0.1:9/")
    until_us = desk.clock.now_us + HOUR_US

    def pause(conn: Connection) -> None:
        owner = project_id(conn, "research")
        health = {"owner": owner, "name": "oncall", "failures": 6, "open_until_us": until_us}
        conn.execute(insert(receiver_health), health)

    desk.store.write(pause)
    oncall = desk.listed()["oncall"]
    assert (oncall["state"], oncall["paused_until"]) == ("paused", rfc3339(until_us))
    desk.clock.now_us = until_us
    oncall = desk.listed()["oncall"]
    assert (oncall["state"], oncall["paused_until"]) == ("failing", None)


def test_deliveries_come_a_page_at_a_time(desk: Desk) -> None:
    desk.add("http://127.0.0.1:9/")
    for version in range(3):
        _put(desk, DeliveryState.SENT, version)
    path, versions, cursor = "/v1/receivers/oncall/deliveries", [], None
    while True:
        query = {"limit": 2} if cursor is None else {"limit": 2, "cursor": cursor}
        page = desk.client.get(path, params=query).json()
        versions += [delivery["state_version"] for delivery in page["deliveries"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert versions == [2, 1, 0]


def test_without_a_key_to_seal_with_a_receiver_is_refused_by_the_settings_name(
    open_desk: Callable[[Keyring], Desk],
) -> None:
    desk = open_desk(Keyring("", "postgresql+psycopg://ett@localhost/ett"))
    body = {"name": "oncall", "url": "http://127.0.0.1:9/"}
    answer = desk.client.post("/v1/receivers", json=body)
    assert answer.status_code == 409
    assert "`secret_key`" in answer.json()["detail"]


@ON_ONE_ENGINE
def test_one_that_was_sealed_with_another_key_is_listed_as_unreadable(
    open_desk: Callable[[Keyring], Desk],
) -> None:
    open_desk(Keyring("k" * 32)).add("http://127.0.0.1:9/")
    desk = open_desk(Keyring("o" * 32))
    oncall = desk.listed()["oncall"]
    assert (oncall["state"], oncall["host"]) == ("unreadable", None)
    assert "another key" in desk.act("test", status=409)["detail"]


def test_no_answer_and_no_line_of_the_log_holds_a_secret(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with receiving(reply(500, b"no")) as hook:
        created = desk.add(f"{hook.url}CANARYurl")
        rotated = desk.act("rotate")
        desk.add(hook.url + "CANARYurl", "pager", format="pagerduty", routing_key="CANARYkey")
        texts = [json.dumps(desk.act("test")), json.dumps(desk.act("test", name="pager"))]
    texts += [json.dumps(desk.listed()), json.dumps(desk.act("replay")), caplog.text]
    texts.append(desk.client.get("/v1/receivers/oncall/deliveries").text)
    texts.append(desk.client.get("/v1/receivers?format=csv").text)
    body = ReceiverRequest(name="a", url="https://CANARY", routing_key="CANARY")
    texts += [repr(NAMED), repr(body)]
    for secret in ("CANARY", created["secret"], rotated["secret"]):
        assert not [text for text in texts if secret in text]
    assert replace(NAMED, name="x").url  # the canary was there to be found
