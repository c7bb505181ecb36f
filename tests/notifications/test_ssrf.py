"""Nobody has the server connect to where it may not, whatever they write or have DNS answer."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ett_service.notifications.guard import Allowed, Guard, Refused, Resolve
from ett_service.notifications.sender import Deadline, GuardedNetwork
from tests.builders.receivers.listening import receiving
from tests.builders.servers.waiting import wait_for
from tests.notifications.hostile_urls import URLS

ROOT = Path(__file__).parents[2]
METADATA = (
    "169.254.169.254", "0xa9fea9fe", "[fd00:ec2::254]", "[fe80::1]", "[::ffff:a9fe:a9fe]",
    "[64:ff9b::a9fe:a9fe]", "metadata.google.internal", "metadata6.example", "link.example",
    "late.example", "100.100.100.200",
)  # fmt: skip
INSIDE, ALLOWED = "127.0.0.1", "127.0.0.2"
DELIVERIES = 1_000


def probed(**order: Any) -> dict[str, list[str]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.notifications.probing"],
        cwd=ROOT,
        input=json.dumps(order),
        capture_output=True,
        text=True,
        check=True,
    )
    result: dict[str, list[str]] = json.loads(done.stdout)
    return result


def always(answers: list[str]) -> Resolve:
    return lambda _host, _port: answers


def test_no_address_has_the_server_connect_to_what_is_not_public_or_to_metadata() -> None:
    metadata = [f"{scheme}://{host}/" for scheme in ("http", "https") for host in METADATA]
    with receiving(host=ALLOWED) as web:  # shows that the program reports connections
        result = probed(by_api=[*URLS, web.url], of_settings=metadata, allowed=[f"{ALLOWED}/32"])

    assert len(URLS) >= 120
    assert len(web.requests) == 1
    assert result["connected"] == [str((ALLOWED, web.port))]
    assert result["said"].count("") == 1


def test_an_answer_that_changes_after_the_check_is_never_connected_to() -> None:
    lookups = 0

    def rebinding(_host: str, _port: int) -> list[str]:
        nonlocal lookups
        lookups += 1
        return [ALLOWED if lookups % 2 else INSIDE]

    with receiving(host=ALLOWED) as web, _listening(INSIDE, web.port) as inside:
        guard = Guard(True, Allowed.of([f"{ALLOWED}/32"]), frozenset({web.port}))
        refused = 0
        for _ in range(DELIVERIES):
            network = GuardedNetwork(guard, rebinding, Deadline(30))
            try:
                network.connect_tcp("hooks.example", web.port).close()
            except Refused:
                refused += 1
        assert wait_for(lambda: web.connections == DELIVERIES // 2)

    assert (lookups, refused) == (DELIVERIES, DELIVERIES // 2)
    assert inside == []


def test_mixed_answers_are_refused_as_a_whole() -> None:
    guard = Guard(public_only=True, allowed=Allowed.of([f"{ALLOWED}/32"]))
    for answers in ([ALLOWED, INSIDE], [INSIDE, ALLOWED], [ALLOWED, "169.254.169.254"]):
        network = GuardedNetwork(guard, always(answers), Deadline(30))
        with pytest.raises(Refused):
            network.connect_tcp("hooks.example", 443)


@contextmanager
def _listening(host: str, port: int) -> Iterator[list[object]]:
    """Listen where nobody may connect, and record who did."""
    came: list[object] = []
    with socket.create_server((host, port)) as server:
        yield came
        server.settimeout(0)
        with suppress(BlockingIOError):
            came.append(server.accept())
