"""The disk of a database takes nothing more: reads go on, nothing is lost, and room mends it."""

import os
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ett_service.client.sending.transport import request
from ett_service.storage.engine.migrate import migrate
from tests.builders.databases import postgres
from tests.builders.databases.engines import new_postgresql
from tests.builders.record import wire
from tests.builders.servers.ett import Server, serving
from tests.builders.servers.waiting import wait_for
from tests.builders.tally import Tally
from tests.faults.senders import Senders, check

MIB = 1 << 20


QUIET = {"ETT_DETECTION": '{"enabled": false}'}


@contextmanager
def mounted(disk: Path, size: str) -> Iterator[None]:
    """Have a small disk there."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return a small disk of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    with mounted(disk, "10m"):
        yield disk


@pytest.fixture
def cluster() -> Iterator[postgres.Cluster]:
    """Return a PostgreSQL on a small disk of its own, which its user can reach."""
    programs = postgres.binaries()
    if programs is None:
        pytest.skip(postgres.MISSING)
    with tempfile.TemporaryDirectory(prefix="ett-disk-") as name:
        disk = Path(name)
        disk.chmod(0o755)
        with (
            mounted(disk, "160m"),
            postgres.cluster(programs, "max_wal_size=32MB", disk=disk) as cluster,
        ):
            yield cluster


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
    with serving(url, tmp_path, **QUIET, ETT_MIN_FREE_BYTES=str(watermark)) as server:
        assert server.send([wire(job="spare")]).status == 200
        senders = Senders(server)
        with senders.sending():
            wait_for(senders.progressed(), senders.explain)
            fill(disk / "filling", leave=MIB if watermark else 0)
            wait_for(senders.refused(8), senders.explain)
            tally.add(others=1)
            assert status(server, "GET", "/v1/jobs") == 200
            assert status(server, "GET", "/readyz") == (503 if watermark else 200)
            deleted = status(server, "DELETE", "/v1/jobs/spare")
            assert deleted == (200 if watermark else 503)
            (disk / "filling").unlink()
            wait_for(senders.progressed(), senders.explain)
        assert set(senders.statuses) == {200, 503}
        check(senders, tally)


@pytest.mark.long
def test_a_full_disk_of_postgresql_refuses_events_until_there_is_room(
    cluster: postgres.Cluster, tmp_path: Path, tally: Tally
) -> None:
    with new_postgresql(cluster.url) as url:
        migrate(url)
        with serving(url, tmp_path, **QUIET) as server:
            senders = Senders(server)
            with senders.sending():
                wait_for(senders.progressed(), senders.explain)
                filling = cluster.folder.parent / "filling"
                fill(filling)
                wait_for(senders.refused(8), senders.explain)
                tally.add(others=1)
                filling.unlink()
                cluster.mend()
                wait_for(senders.progressed(), senders.explain)
            assert set(senders.statuses) == {200, 503}
            check(senders, tally)


FEW_BYTES = 32 << 10
"""What a log takes, and no write-ahead log."""


@pytest.mark.slow
def test_a_disk_that_takes_no_writes_refuses_events_and_nothing_else_until_it_does(
    tmp_path: Path, tally: Tally
) -> None:
    url = f"sqlite:///{tmp_path / 'ett.db'}"
    migrate(url)
    with serving(url, tmp_path, **QUIET) as server:
        senders = Senders(server)
        with senders.sending():
            wait_for(senders.progressed(), senders.explain)
            limits = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (FEW_BYTES, limits[1]))
            wait_for(senders.refused(8), senders.explain)
            tally.add(others=1)
            assert status(server, "GET", "/v1/jobs") == 200
            assert status(server, "GET", "/healthz") == 200
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, limits)
            wait_for(senders.progressed(), senders.explain)
        assert set(senders.statuses) == {200, 503}
        check(senders, tally)
