"""Receives messages about regressions, verifies signatures, and acts on each state once.

It needs only Python:

    WEBHOOK_SECRETS="whsec_..." python webhook_receiver.py 9000

During a rotation, name both secrets. The service sends to https only, so run it behind a proxy that
terminates TLS.
"""

import base64
import hmac
import json
import os
import sqlite3
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

TOLERANCE_SECONDS = 300
MOST_BYTES = 1 << 20
TABLES = """
CREATE TABLE IF NOT EXISTS message (id TEXT PRIMARY KEY) STRICT;
CREATE TABLE IF NOT EXISTS alert (id TEXT PRIMARY KEY, version INTEGER NOT NULL) STRICT;
"""
NEWER = """
INSERT INTO alert VALUES (?, ?)
ON CONFLICT (id) DO UPDATE SET version = excluded.version WHERE excluded.version > alert.version
"""


def is_genuine(headers: Mapping[str, str], body: bytes, secrets: Iterable[str], now: float) -> bool:
    """Return whether one of *secrets* signed these exact bytes recently."""
    message, at = headers.get("webhook-id") or "", headers.get("webhook-timestamp") or ""
    if not at.isdecimal() or abs(now - int(at)) > TOLERANCE_SECONDS:
        return False
    signed = b".".join((message.encode(), at.encode(), body))
    given = (headers.get("webhook-signature") or "").split()
    for secret in secrets:
        key = base64.b64decode(secret.removeprefix("whsec_"))
        own = b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256"))
        if any(hmac.compare_digest(own, signature.encode()) for signature in given):
            return True
    return False


def news(database: sqlite3.Connection, message: str, payload: Mapping[str, Any]) -> list[Any]:
    """Return the alerts of a message that are new.

    A message may come twice, and an old one after a newer: of each alert the highest
    ``state_version`` counts.
    """
    with database:
        if not database.execute("INSERT OR IGNORE INTO message VALUES (?)", [message]).rowcount:
            return []
        return [
            alert
            for alert in payload["alerts"]
            if database.execute(NEWER, [alert["ett"]["id"], alert["ett"]["state_version"]]).rowcount
        ]


def act(alert: Mapping[str, Any]) -> None:
    """Do what is to be done; here it is printed."""
    print(alert["status"], alert["annotations"]["summary"], flush=True)


def server(port: int, secrets: Iterable[str], path: Path) -> HTTPServer:
    """Return what listens on *port*, and remembers in the file at *path*."""
    trusted = tuple(secrets)

    class Receiving(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            if length > MOST_BYTES:
                self._answer(413)
                return
            body = self.rfile.read(length)
            headers = {name.lower(): value for name, value in self.headers.items()}
            if not is_genuine(headers, body, trusted, time.time()):
                self._answer(401)
                return
            with closing(sqlite3.connect(path)) as database:
                alerts = news(database, headers["webhook-id"], json.loads(body))
            for alert in alerts:
                act(alert)
            self._answer(204)

        def _answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Leave standard output to the alerts."""

    with closing(sqlite3.connect(path)) as database:
        database.executescript(TABLES)
    return HTTPServer(("127.0.0.1", port), Receiving)


if __name__ == "__main__":
    server(int(sys.argv[1]), os.environ["WEBHOOK_SECRETS"].split(), Path("told.db")).serve_forever()
