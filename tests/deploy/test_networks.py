"""Who reaches whom in the networks of the Compose project: its networks, as namespaces of Linux.

A bridge is a network, and what is no internal one leads on to a receiver outside.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import make_url

from ett_service.notifications.notice import OF_SETTINGS, to_json
from ett_service.notifications.notice import test_message as sample_notice
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import open_store
from ett_service.storage.receivers import deliveries
from ett_service.storage.receivers.deliveries import Message
from ett_service.storage.record.keys import create_project
from tests.builders.clock import NOON
from tests.builders.databases import postgres
from tests.builders.servers.programs import Program
from tests.builders.servers.waiting import wait_for
from tests.deploy.conftest import Parsed

OUTSIDE = "93.184.216.34"
"""In the namespaces it is a receiver of ours; no packet leaves them."""

PORT = 8000
PLACED = ("postgres", "worker", "ett")

#: Writes the body of each POST to the file that it is given.
RECEIVER = """
import http.server, pathlib, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        pathlib.Path(sys.argv[1]).write_bytes(body)
        self.send_response(200); self.send_header("content-length", "0"); self.end_headers()
http.server.HTTPServer(("", int(sys.argv[2])), Handler).serve_forever()
"""

CONNECT = """
import socket, sys
socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5).close()
"""

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
    pytest.mark.skipif(shutil.which("ip") is None, reason="ip is not installed (iproute2)"),
    pytest.mark.xdist_group("deploy"),
]


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@dataclass
class Networks:
    """The namespaces of some services, of the bridges between them, and of the outside."""

    project: Parsed
    tag: str = field(default_factory=lambda: uuid.uuid4().hex[:6])
    made: list[str] = field(default_factory=list)
    addresses: dict[tuple[str, str], str] = field(default_factory=dict)
    """By service and network."""

    def name(self, service: str) -> str:
        """Return the name of a namespace."""
        return f"ett-{self.tag}-{service}"

    def add(self, service: str) -> None:
        """Make a namespace with its loopback."""
        ip("netns", "add", self.name(service))
        self.made.append(self.name(service))
        ip("-n", self.name(service), "link", "set", "lo", "up")

    def link(self, service: str, place: int, bridge: str, address: str) -> None:
        """Lead from a service to a bridge of the switch."""
        inner, outer = f"e{place}", f"{bridge}{service[:4]}"
        ip("link", "add", inner, "netns", self.name(service), "type", "veth",
           "peer", "name", outer, "netns", self.name("switch"))  # fmt: skip
        ip("-n", self.name("switch"), "link", "set", outer, "master", bridge, "up")
        ip("-n", self.name(service), "addr", "add", f"{address}/24", "dev", inner)
        ip("-n", self.name(service), "link", "set", inner, "up")

    def build(self) -> None:
        """Make everything."""
        for service in ("switch", "outside", *PLACED):
            self.add(service)
        self._bridge("out", "93.184.216.1")
        self.link("outside", 0, "out", OUTSIDE)
        ip("-n", self.name("outside"), "route", "add", "default", "via", "93.184.216.1")
        forward = ["sysctl", "-qw", "net.ipv4.ip_forward=1"]
        self.run("switch", *forward)
        for number, (network, options) in enumerate(sorted(self.project["networks"].items())):
            gateway = "" if options.get("internal") else f"10.77.{number}.1"
            self._bridge(f"b{number}", gateway)
            for place, service in enumerate(PLACED):
                if network in self.project["services"][service]["networks"]:
                    self._place(service, number, f"10.77.{number}.{place + 10}", gateway)
                    self.addresses[service, network] = f"10.77.{number}.{place + 10}"

    def run(self, service: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command where a service runs."""
        return subprocess.run(
            ["ip", "netns", "exec", self.name(service), *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def reaches(self, service: str, address: str, port: int = PORT) -> bool:
        """Whether a connection from a service comes about."""
        return self.run(service, sys.executable, "-c", CONNECT, address, str(port)).returncode == 0

    def start(self, service: str, *command: str, folder: Path, **variables: str) -> Program:
        """Start a program where a service runs."""
        there = ["ip", "netns", "exec", self.name(service), *command]
        return Program(there, folder, os.environ | variables)

    def remove(self) -> None:
        """Remove everything."""
        for name in self.made:
            ip("netns", "del", name)

    def _bridge(self, name: str, address: str) -> None:
        switch = self.name("switch")
        ip("-n", switch, "link", "add", name, "type", "bridge")
        ip("-n", switch, "link", "set", name, "up")
        if address:
            ip("-n", switch, "addr", "add", f"{address}/24", "dev", name)

    def _place(self, service: str, number: int, address: str, gateway: str) -> None:
        self.link(service, number, f"b{number}", address)
        if gateway:
            routes = ["-n", self.name(service), "route", "replace", "default", "via", gateway]
            ip(*routes)


@pytest.fixture(scope="module")
def networks(project: Parsed) -> Iterator[Networks]:
    """Return the networks of the project."""
    made = Networks(project)
    try:
        made.build()
    except subprocess.CalledProcessError as error:
        made.remove()
        pytest.skip(f"namespaces cannot be made here: {error.stderr.strip()}")
    yield made
    made.remove()


@pytest.fixture(scope="module")
def received(networks: Networks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run a receiver outside; what it was sent last lies in the file."""
    folder = tmp_path_factory.mktemp("outside")
    file = folder / "received"
    program = networks.start(
        "outside", sys.executable, "-c", RECEIVER, str(file), str(PORT), folder=folder
    )
    assert wait_for(lambda: networks.reaches("outside", OUTSIDE), program.logged)
    yield file
    program.stop()


@pytest.mark.usefixtures("received")
def test_the_worker_has_a_way_out_and_the_database_none(networks: Networks) -> None:
    ways = {service: networks.reaches(service, OUTSIDE) for service in PLACED}
    assert ways == {"postgres": False, "worker": True, "ett": True}


def test_the_database_is_reached_in_its_network_alone(networks: Networks, tmp_path: Path) -> None:
    (address,) = {
        address for (service, _), address in networks.addresses.items() if service == "postgres"
    }
    listening = [sys.executable, "-m", "http.server", "5432", "--bind", address]
    program = networks.start("postgres", *listening, folder=tmp_path)
    try:
        assert wait_for(lambda: networks.reaches("worker", address, 5432), program.logged)
        assert networks.reaches("ett", address, 5432)
        assert not networks.reaches("outside", address, 5432)
    finally:
        program.stop()


@pytest.mark.long
def test_the_worker_delivers_from_where_it_runs(
    networks: Networks, services: Parsed, received: Path, tmp_path: Path
) -> None:
    programs = postgres.binaries()
    if programs is None:
        pytest.skip(postgres.MISSING)
    with postgres.server(programs) as url:
        migrate(url)
        with closing(open_store(url)) as store:
            project_id = store.write(lambda conn: create_project(conn, "research", NOON))
            now_us = time.time_ns() // 1000
            body = to_json(sample_notice(project_id, "research", "", now_us))
            messages = [Message(OF_SETTINGS, "outside", body)]
            store.write(lambda conn: deliveries.put(conn, project_id, "f", 1, messages, now_us))
        receivers = [{"name": "outside", "url": f"http://{OUTSIDE}:{PORT}/"}]
        command = [str(Path(sys.executable).with_name("ett")), services["worker"]["command"][0]]
        worker = networks.start(
            "worker",
            *command,
            folder=tmp_path,
            ETT_DATABASE_URL=make_url(url).render_as_string(hide_password=False),
            ETT_RECEIVERS=json.dumps(receivers),
        )
        try:
            assert wait_for(received.exists, worker.logged)
        finally:
            worker.stop()
    assert b"research" in received.read_bytes()
