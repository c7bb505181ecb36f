"""Connections go to the address that was checked, by the name that was given, and end in time."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ett_service.core.intervals import SECOND_US
from ett_service.notifications.notice import Receiver
from ett_service.notifications.sender import Outcome, Sender
from tests.builders.clock import NOON
from tests.builders.receivers.deliveries import SIGNING, named, notice, sender
from tests.builders.receivers.listening import Request, drip, flood, hang, receiving, reply, reset
from tests.notifications.certificates import Authority

OF_PROJECT = 1


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    """Return what ends receivers that hang."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return who signs the certificates of these tests."""
    return Authority(tmp_path_factory.mktemp("certificates"))


def sent(by: Sender, receiver: Receiver) -> Outcome:
    return by.send(receiver, "msg_1", notice(), NOON)


def test_the_name_goes_on_into_tls_and_the_request(authority: Authority) -> None:
    hosts: list[str] = []

    def answer(request: Request, sock: socket.socket) -> None:
        hosts.append(request.headers["host"])
        reply(204)(request, sock)

    secured = authority.serving("hooks.example")
    secured.sni_callback = lambda _sock, name, _context: hosts.append(str(name))
    with receiving(answer, secured=secured) as web:
        by = sender(
            trust=authority.trust(),
            resolve=lambda _host, _port: ["127.0.0.1"],
            allow=["hooks.example"],
        )
        outcome = sent(by, named("a", f"https://hooks.example:{web.port}/", OF_PROJECT))

    assert outcome.status == 204
    assert hosts == ["hooks.example", f"hooks.example:{web.port}"]


@pytest.mark.parametrize("fault", ["name", "authority"])
def test_a_certificate_of_another_name_or_authority_is_not_taken(
    authority: Authority, fault: str, tmp_path: Path
) -> None:
    trusted = authority if fault == "name" else Authority(tmp_path)
    with receiving(secured=authority.serving("other.example")) as web:
        host = "hooks.example" if fault == "name" else "other.example"
        by = sender(trust=trusted.trust(), resolve=lambda _host, _port: ["127.0.0.1"])
        outcome = sent(by, named("a", f"https://{host}:{web.port}/"))

    assert outcome.status is None
    assert "certificate" in outcome.said
    assert web.requests == []


def test_the_next_address_is_tried_where_nobody_listens_at_the_first() -> None:
    with receiving() as web:
        by = sender(resolve=lambda _host, _port: ["127.0.0.9", "127.0.0.1"])
        assert sent(by, named("a", f"http://hooks.example:{web.port}/")).status == 204


def test_a_resolver_that_hangs_takes_no_longer_than_a_connection_may(
    let_go: threading.Event,
) -> None:
    def resolve(_host: str, _port: int) -> list[str]:
        let_go.wait(120)
        return []

    outcome = sent(sender(resolve=resolve, connect_seconds=0.1), named("a", "http://a.example/"))

    assert outcome.took_us < 60 * SECOND_US
    assert outcome == Outcome(None, "The host was not resolved in time.", outcome.took_us)


def test_a_host_that_is_not_known_is_reported() -> None:
    def resolve(_host: str, _port: int) -> list[str]:
        raise OSError

    outcome = sent(sender(resolve=resolve), named("a", "http://a.example/"))

    assert outcome.said == "The host cannot be resolved."


def test_no_answer_takes_longer_than_it_may_however_slowly_it_comes(
    let_go: threading.Event,
) -> None:
    answers = [hang(let_go), drip(let_go, 0.02), drip(let_go, 0.02, b"HTTP/1.1 500 No\r\n\r\n")]
    for answer in answers:
        with receiving(answer) as web:
            outcome = sent(sender(total_seconds=0.2), named("a", web.url))
            assert outcome.took_us < 60 * SECOND_US  # and not two minutes and more
            assert outcome.status in (None, 500)


def test_a_receiver_that_takes_nothing_in_does_not_keep_us(let_go: threading.Event) -> None:
    with receiving(hang(let_go)) as web:
        slow = named("a", f"https://127.0.0.1:{web.port}/")
        outcome = sent(sender(total_seconds=0.2), slow)  # it never answers the TLS greeting

    assert outcome.status is None


def test_an_answer_without_end_is_not_read_to_its_end() -> None:
    with receiving(flood) as web:
        outcome = sent(sender(total_seconds=30), named("a", web.url))

    assert outcome.status == 200
    assert len(outcome.said) <= 2_000


def test_a_connection_that_is_reset_is_reported() -> None:
    with receiving(reset) as web:
        outcome = sent(sender(), named("a", web.url))

    assert outcome.status is None
    assert SIGNING not in repr(outcome)
