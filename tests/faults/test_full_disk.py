"""The disk of a database fills up: reads go on, nothing acknowledged is lost, and room mends it."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ett_service.client.sending.transport import request
from ett_service.storage.engine.migrate import migrate
from tests.builders.record import wire
from tests.builders.servers.ett import Server, serving
from tests.builders.servers.waiting import wait_for
from tests.builders.tally import Tally
from tests.faults.senders import Senders, check

MIB = 1 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return a small disk of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=10m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def fill(file: Path, leave: int = 0) -> None:
    """Take what is free of a disk but so many bytes."""
    free = os.statvfs(file.parent)
    with suppress(OSError), file.open("wb", buffering=0) as filling:
        left = free.f_bavail * free.f_frsize - leave
        while left > 0:
            left -= filling.write(bytes(min(left, 1 << 16)))


def status(server: Server, method: str, path: str) -> int:
    return request(method, server.url + path, server.key, timeout=30).status


@pytest.mark.parametrize(
    "watermark",
    [2 * MIB, pytest.param(0, marks=pytest.mark.long)],
    ids=["watermark", "none"],
)
def test_a_full_disk_refuses_events_and_nothing_else_while_something_is_kept_free(
    disk: Path, tmp_path: Path, watermark: int, tally: Tally
) -> None:
    url = f"sqlite:///{disk / 'ett.db'}"
    migrate(url)
    quiet = {"ETT_DETECTION": '{"enabled": false}', "ETT_MIN_FREE_BYTES": str(watermark)}
    with serving(url, tmp_path, **quiet) as server:
        assert server.send([wire(job="spare")]).status == 200
        senders = Senders(server)
        with senders.sending():
            wait_for(senders.progressed(), senders.explain)
            fill(disk / "filling", leave=MIB if watermark else 0)
            before = senders.statuses[503]
            wait_for(lambda: senders.statuses[503] > before + 8, senders.explain)
            tally.add(others=1)
            assert status(server, "GET", "/v1/jobs") == 200
            assert status(server, "GET", "/readyz") == (503 if watermark else 200)
            deleted = status(server, "DELETE", "/v1/jobs/spare")
            assert deleted == (200 if watermark else 503)
            (disk / "filling").unlink()
            wait_for(senders.progressed(), senders.explain)
        assert set(senders.statuses) == {200, 503}
        check(senders, tally)
