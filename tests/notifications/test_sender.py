"""One delivery, one request: what it says, and what is made of the answer."""

import json
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from ett_service.core.intervals import HOUR_US, SECOND_US, rfc3339
from ett_service.notifications.formats import FORMATS
from ett_service.notifications.notice import Receiver, Status
from ett_service.notifications.sender import Sender, Sending, retry_after_us, shown
from tests.builders.clock import NOON
from tests.builders.receivers.deliveries import SIGNING, named, notice, sender
from tests.builders.receivers.listening import receiving, reply


def test_a_request_is_signed_over_what_it_says() -> None:
    with receiving() as web:
        outcome = sender().send(named("a", f"{web.url}hook?x=1"), "msg_1", notice(), NOON)

    (request,) = web.requests
    assert outcome.is_success
    assert request.target == "/hook?x=1"
    assert request.id == "msg_1"
    assert int(request.headers["webhook-timestamp"]) == NOON // SECOND_US
    again = Webhook(SIGNING).sign("msg_1", _at(request.headers), request.body.decode())
    assert request.headers["webhook-signature"] == again
    assert json.loads(request.body)["alerts"][0]["status"] == "firing"


def test_a_routing_key_signs_nothing() -> None:
    with receiving() as web:
        receiver = Receiver(0, "a", web.url, FORMATS["pagerduty"], ("key",))
        sender().send(receiver, "msg_1", notice(), NOON)

    assert "webhook-signature" not in web.requests[0].headers


def test_alertmanager_is_notified_until_when_it_is_to_keep_what_fires() -> None:
    by = Sender(Sending(resend_us=60 * SECOND_US))
    with receiving() as web:
        receiver = named("a", web.url, kind="alertmanager")
        by.send(receiver, "msg_1", notice(), NOON)
        by.send(receiver, "msg_2", notice(Status.RESOLVED), NOON)

    firing, resolved = (json.loads(request.body)[0] for request in web.requests)
    assert firing["endsAt"] == rfc3339(NOON + 240 * SECOND_US)
    assert resolved["endsAt"] == rfc3339(NOON + 24 * HOUR_US)


def test_no_redirect_is_followed() -> None:
    with receiving() as inside:
        for status in (301, 302, 303, 307, 308):
            with receiving(reply(status, location=inside.url)) as web:
                outcome = sender().send(named("a", web.url), "msg_1", notice(), NOON)
            assert outcome.status == status
            assert not outcome.is_success

    assert inside.connections == 0


def test_no_proxy_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as web, receiving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert sender().send(named("a", web.url), "msg_1", notice(), NOON).is_success

    assert proxy.connections == 0


def test_what_an_answer_begins_with_is_reported_where_it_does_no_harm() -> None:
    answer = b"no \x1b[31mred\x1b[0m\r\n\xe2\x80\xaetxt \xff" + b"x" * 1_000
    with receiving(reply(500, answer)) as web:
        outcome = sender().send(named("a", web.url), "msg_1", notice(), NOON)

    assert outcome.said.startswith(r"no \x1b[31mred\x1b[0m\r\n\u202etxt ")
    assert outcome.said.isprintable()
    assert len(shown(b"x" * 1_000)) == 200


def test_an_answer_that_is_not_http_is_reported() -> None:
    with receiving(lambda _, sock: sock.sendall(b"220 mail.example ESMTP\r\n\r\n")) as web:
        outcome = sender().send(named("a", web.url), "msg_1", notice(), NOON)

    assert outcome.status is None
    assert outcome.said == "The connection ended without an HTTP answer."


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("5", 5),
        ("0", 0),
        ("9" * 400, 999_999_999),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("", None),
        ("-1", None),
        ("NaN", None),
        ("1e3", None),
        ("٣", None),
        ("soon", None),
        ("Wed, 99 Oct 9999 07:28:00 GMT", None),
    ],
)
def test_how_long_a_receiver_asks_for_is_read_as_seconds_or_a_date(
    header: str, seconds: int | None
) -> None:
    expected = None if seconds is None else seconds * SECOND_US
    assert retry_after_us(header, NOON) == expected


def _at(headers: dict[str, str]) -> datetime:
    return datetime.fromtimestamp(int(headers["webhook-timestamp"]), tz=UTC)
