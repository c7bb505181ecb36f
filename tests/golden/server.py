"""The service as its users meet it: the command ``ett``, a server, and its clock stood still."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from tests.builders.servers.waiting import wait_for
from tests.golden.fleet import NOW

ETT = str(Path(sys.executable).with_name("ett"))
HEADERS = frozenset(
    {"allow", "content-disposition", "content-type", "etag", "link", "retry-after", "x-request-id"}
)
"""Those of an answer that are recorded."""

PATIENCE_S = 240.0

_ROOT = Path(__file__).parents[2]
_SERVING = re.compile(r"Serving on (http://\S+)")

SETTINGS = """
database_url = "sqlite:///ett.db"
currency = "USD"
public_url = "https://ett.example"
webhook_allow = ["127.0.0.0/8"]
prices = [
    {{ hardware = "A100", from = 2020-01-01, per_gpu_hour = 1.8 }},
    {{ hardware = "H100", from = 2020-01-01, per_gpu_hour = 3.5 }},
    {{ hardware = "H100", from = 2026-03-06, per_gpu_hour = 3.0 }},
]
targets = [{{ ett_ratio = 0.9 }}, {{ where = {{ team = "recsys" }}, ett_ratio = 0.8 }}]

[detection]
impact_floor = 0.0001
settle_seconds = 1.0

[metrics]
every_seconds = 0.5
jobs = ["live-*"]

[alerting]
lease_seconds = 3.0

{receivers}
"""
FORMATS = ("generic", "slack", "pagerduty", "teams", "alertmanager")


def environment(**more: str) -> dict[str, str]:
    """Return the environment of all processes: nothing of ours from outside, and a still clock."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("ETT_")}
    ours = {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent / "clock"), str(_ROOT)]),
        "GOLDEN_NOW_NS": str(int(NOW.timestamp()) * 10**9),
        "COLUMNS": "100",
        "TZ": "UTC",
        "NO_COLOR": "1",
    }
    return outside | ours | more


def ett(folder: Path, *arguments: str) -> str:
    """Run the command in *folder* and return what it prints; it must not fail."""
    done = subprocess.run(
        [ETT, *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_settings(folder: Path, receiver_url: str) -> None:
    """Put the settings where the server starts, with a receiver of each format."""
    receivers = [
        f'[[receivers]]\nname = "{name}"\nformat = "{name}"\nurl = "{receiver_url}/{name}"\n'
        f'secret = "whsec_{"Z29sZGVu" * 4}"\n'
        for name in FORMATS
    ]
    (folder / "ett.toml").write_text(SETTINGS.format(receivers="\n".join(receivers)))


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        """The type alone."""
        return self.headers["content-type"].partition(";")[0]

    @property
    def json(self) -> Any:
        """The body, read."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Server:
    """A running server and a key that may do everything."""

    url: str
    key: str
    folder: Path

    def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: object = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> Answer:
        """Send one request, whatever the answer."""
        url = f"{self.url}{path}" + (f"?{urlencode(query, doseq=True)}" if query else "")
        given = {
            "Authorization": f"Bearer {self.key}",
            "Content-Type": "application/json",
            "X-Request-Id": "golden",
            **headers,
        }
        sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        request = Request(url, sent, given, method=method)  # noqa: S310 - our own server
        try:
            with urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310
                return Answer(answer.status, _shown(answer.headers), answer.read())
        except HTTPError as error:
            with error:
                return Answer(error.code, _shown(error.headers), error.read())

    def read(self, path: str, **query: Any) -> Any:
        """Return what is at *path*, which must be there."""
        answer = self.ask("GET", path, query)
        assert answer.status == 200, answer.body
        return answer.json

    def settle(self) -> None:
        """Wait until all that came in is in the numbers."""
        wait_for(lambda: not self.read("/readyz")["waiting_jobs"])


def _shown(headers: Message) -> dict[str, str]:
    return {name.lower(): text for name, text in headers.items() if name.lower() in HEADERS}


@contextmanager
def serving(folder: Path, key: str, **variables: str) -> Iterator[Server]:
    """Serve what lies in *folder* on a free port until the block ends."""
    log = folder / "golden.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [ETT, "serve", "--port", "0"],
            cwd=folder,
            env=environment(**variables),
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
    try:
        wait_for(lambda: _SERVING.search(log.read_text()) or process.poll() is not None)
        address = _SERVING.search(log.read_text())
        assert address is not None, log.read_text()
        yield Server(address.group(1), key, folder)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
