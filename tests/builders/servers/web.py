"""A small real HTTP server that records requests and answers as scripted."""

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from typing_extensions import override

from tests.builders.servers.threads import in_thread


@dataclass(frozen=True)
class Received:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def batch(self) -> dict[str, Any]:
        """The body as JSON, inflated where it was compressed."""
        raw = gzip.decompress(self.body) if self.headers.get("content-encoding") else self.body
        decoded: dict[str, Any] = json.loads(raw)
        return decoded


@dataclass(frozen=True)
class Reply:
    """An answer of the server."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


def accepting(received: Received) -> Reply:
    """Accept every event of a batch, as the service would; it knows no job."""
    if received.method == "GET":
        return Reply(404)
    batch = received.batch
    verdict = {
        "batch_id": batch["batch_id"],
        "store_epoch": "1",
        "accepted": len(batch["events"]),
        "duplicate": 0,
        "rejected": 0,
        "errors": [],
    }
    return Reply(body=json.dumps(verdict).encode())


@dataclass
class Web:
    """A running server; ``answer`` may be exchanged while it runs."""

    url: str
    answer: Callable[[Received], Reply] = accepting
    received: list[Received] = field(default_factory=list)

    @property
    def events(self) -> list[dict[str, Any]]:
        """Every event that was accepted, in order of arrival, each id once."""
        events: dict[str, dict[str, Any]] = {}
        for request in list(self.received):
            if request.path == "/v1/events" and self.answer(request).status == 200:
                for event in request.batch["events"]:
                    events.setdefault(event["id"], event)
        return list(events.values())


def _handler(web: Web) -> type[BaseHTTPRequestHandler]:
    class Answering(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(length)
            if len(body) < length:  # the client died as it sent: no request has arrived
                return
            received = Received(self.command, self.path, headers, body)
            web.received.append(received)
            reply = web.answer(received)
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            with suppress(ConnectionError):  # a client that gave up is part of some tests
                self.wfile.write(reply.body)

        do_GET = do_POST = _answer  # noqa: N815 -- the names are http.server's

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Keep the test's output clean."""

    return Answering


class _Server(ThreadingHTTPServer):
    """Takes as many connections at once as a test may open: past its queue, Linux resets them."""

    daemon_threads = True
    request_queue_size = 128


@contextmanager
def serving(answer: Callable[[Received], Reply] = accepting, port: int = 0) -> Iterator[Web]:
    """Serve on a free loopback port until the block ends."""
    web = Web(url="", answer=answer)
    server = _Server(("127.0.0.1", port), _handler(web))
    web.url = f"http://127.0.0.1:{server.server_address[1]}"
    with in_thread(server):
        yield web
