"""One exchange over HTTP: what arrives, what is refused, what is never sent."""

import socket
import time

import pytest

from ett_service.client.sending.transport import NoAddress, Unreachable, compressed, request
from tests.builders.servers.web import Received, Reply, serving

KEY = "ett_secret"


def test_the_answer_comes_back_with_status_headers_and_body() -> None:
    def answer(received: Received) -> Reply:
        return Reply(201, received.body[::-1], {"Content-Type": "text/plain; charset=utf-8"})

    with serving(answer) as web:
        response = request("POST", f"{web.url}/v1/x", KEY, b"abc", {"ETT-Producer": "p"})

    assert (response.status, response.body) == (201, b"cba")
    assert response.content_type == "text/plain"
    (received,) = web.received
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert received.headers["ett-producer"] == "p"


def test_an_error_status_is_an_answer_and_no_exception() -> None:
    problem = {"Content-Type": "application/problem+json"}
    with serving(lambda _: Reply(422, b"{}", problem)) as web:
        assert request("GET", web.url).status == 422


def test_a_redirect_is_returned_and_the_key_stays_here() -> None:
    with serving() as elsewhere:
        away = Reply(307, b"", {"Location": f"{elsewhere.url}/v1/events"})
        with serving(lambda _: away) as web:
            response = request("POST", f"{web.url}/v1/events", KEY, b"{}")

    assert response.status == 307
    assert elsewhere.received == []


@pytest.mark.parametrize("url", ["file:///etc/hostname", "127.0.0.1:8080", "http://[::1", ""])
def test_an_address_that_is_not_http_is_refused(url: str) -> None:
    with pytest.raises(NoAddress, match="not an http"):
        request("GET", url)


def test_a_closed_port_is_unreachable_and_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(Unreachable, match=f"127.0.0.1:{port}.*refused"):
        request("GET", f"http://127.0.0.1:{port}/", timeout=2)


def test_a_silent_server_is_given_up_after_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(Unreachable, match="timed out"):
            request("GET", f"http://127.0.0.1:{silent.getsockname()[1]}/", timeout=0.2)
    assert time.monotonic() - began < 60  # and not for ever


def test_a_server_that_trickles_is_given_up_as_well() -> None:
    def answer(_: Received) -> Reply:
        time.sleep(0.3)
        return Reply(200, b"x" * 10)

    with serving(answer) as web, pytest.raises(Unreachable):
        request("GET", web.url, timeout=0.1)


def test_an_endless_answer_is_cut_off() -> None:
    with (
        serving(lambda _: Reply(200, b"x" * 5000)) as web,
        pytest.raises(Unreachable, match="longer than 1000 bytes"),
    ):
        request("GET", web.url, answer_limit=1000)


@pytest.mark.parametrize("names", ["X", "XYZ"])
def test_a_long_head_is_not_read(names: str) -> None:
    long = dict.fromkeys(names, "x" * (33_000 // len(names)))
    short = dict.fromkeys(names, "x" * (30_000 // len(names)))
    with (
        serving(lambda _: Reply(200, b"x", long)) as web,
        pytest.raises(Unreachable, match="head of the answer is longer than 32768 bytes"),
    ):
        request("GET", web.url)
    with serving(lambda _: Reply(200, b"x", short)) as web:
        assert request("GET", web.url).body == b"x"


def test_a_malformed_key_is_never_shown() -> None:
    with serving() as web, pytest.raises(Unreachable) as caught:
        request("GET", web.url, "ett_sec\nret")
    assert "sec" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_compressing_the_same_bytes_gives_the_same_bytes() -> None:
    assert compressed(b"a" * 100) == compressed(b"a" * 100)
