"""A real Alertmanager, and a receiver that keeps what it is sent."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.builders.servers.programs import Program, free_port, needed
from tests.builders.servers.waiting import wait_for

Alert = Mapping[str, Any]
"""One alert of a webhook: ``status``, ``labels``, ``annotations``, ``startsAt`` and more."""


class Receiver:
    """Takes webhooks on a free port."""

    def __init__(self) -> None:
        self._alerts: list[Alert] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _listening(self._alerts))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/"

    def stop(self) -> None:
        """End it."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def firing(self, name: str, **labels: str) -> list[Alert]:
        """Return the firing alerts of a name, with these labels."""
        expected = {"alertname": name, **labels}
        return [
            alert
            for alert in tuple(self._alerts)
            if alert["status"] == "firing" and expected.items() <= alert["labels"].items()
        ]

    def names(self, stack: str) -> set[str]:
        """Return the name of every alert that one Prometheus sent."""
        label_sets = (alert["labels"] for alert in tuple(self._alerts))
        return {labels["alertname"] for labels in label_sets if labels["stack"] == stack}

    def hears(self, name: str, patience_s: float, stack: str, **labels: str) -> Alert:
        """Wait until an alert fires, and return it."""
        alerts: list[Alert] = wait_for(
            lambda: self.firing(name, stack=stack, **labels),
            lambda: f"{name} did not fire; {sorted(self.names(stack))} came",
            patience_s=patience_s,
        )
        return alerts[0]


def _listening(alerts: list[Alert]) -> type[BaseHTTPRequestHandler]:
    class Listener(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            alerts.extend(message["alerts"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing: what came is what the tests look at."""

    return Listener


@dataclass
class Alertmanager:
    """One that sends *receiver* each alert at once."""

    folder: Path
    receiver: Receiver
    address: str = ""
    _program: Program | None = None

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        self.address = f"127.0.0.1:{free_port()}"
        (self.folder / "alertmanager.yml").write_text(json.dumps(self._config()))
        self._program = Program(
            [
                needed("prometheus-alertmanager", "prometheus-alertmanager"),
                f"--config.file={self.folder / 'alertmanager.yml'}",
                f"--storage.path={self.folder / 'kept'}",
                f"--web.listen-address={self.address}",
                "--cluster.listen-address=",
            ],
            self.folder,
        )
        self._program.ready(f"http://{self.address}/-/ready")

    def stop(self) -> None:
        """End it."""
        if self._program is not None:
            self._program.stop()

    def _config(self) -> dict[str, Any]:
        route = {
            "receiver": "test",
            "group_by": ["..."],
            "group_wait": "0s",
            "group_interval": "1s",
        }
        webhook = {"url": self.receiver.url, "send_resolved": True}
        return {"route": route, "receivers": [{"name": "test", "webhook_configs": [webhook]}]}
