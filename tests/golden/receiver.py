"""A real receiver on loopback that takes whatever it is sent, and keeps it."""

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Message:
    """One message as it arrived."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, inflated and read."""
        is_compressed = self.headers.get("content-encoding") == "gzip"
        return json.loads(gzip.decompress(self.body) if is_compressed else self.body)


@dataclass
class Receiver:
    """Where it listens, and what came."""

    url: str
    messages: list[Message] = field(default_factory=list)


def _accepted(message: Message) -> bytes:
    """Return what the service answers to events; other senders do not look at it."""
    batch = message.json
    if message.path != "/v1/events":
        return b""
    counts = {"accepted": len(batch["events"]), "duplicate": 0, "rejected": 0, "errors": []}
    named = {"batch_id": batch["batch_id"], "store_epoch": "golden"}
    return json.dumps({**named, **counts}).encode()


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Listen until the block ends."""
    receiver = Receiver("")

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.messages.append(Message(self.path, headers, body))
            accepted = _accepted(receiver.messages[-1])
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(accepted)))
            self.end_headers()
            self.wfile.write(accepted)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Taking) as server:
        receiver.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
