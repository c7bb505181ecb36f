"""What a server acknowledged and then lost, with its disk, comes again from trainers that live."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ett_service.cli.main import main
from ett_service.client.reporting.phase import phase
from ett_service.client.session import step
from ett_service.storage.engine.migrate import migrate
from tests.builders.servers.ett import Server
from tests.builders.servers.programs import free_port
from tests.builders.servers.waiting import wait_for
from tests.builders.trainers import recording

_MOST = "?limit=10000"


def events_of(server: Server, job: str) -> dict[str, Any]:
    answer = server.get(f"/v1/jobs/{job}/events{_MOST}") or {"events": []}
    return {each["id"]: each["type"] for each in answer["events"]}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Serve a new file, whose address stays while the server is restarted."""
    url = f"sqlite:///{tmp_path / 'ett.db'}"
    monkeypatch.setenv("ETT_DATABASE_URL", url)
    migrate(url)
    server = Server(url, tmp_path, ETT_PORT=str(free_port()))
    server.start()
    try:
        yield server
    finally:
        server.stop()


def restore(server: Server, copy: Path) -> None:
    """Lose the disk under a server, and put the copy in its place."""
    server.kill()
    for path in server.folder.glob("ett.db*"):
        path.unlink()
    shutil.copyfile(copy, server.folder / "ett.db")
    server.start()


@pytest.mark.slow
def test_nothing_is_lost_with_a_disk_while_trainers_live(server: Server, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with recording(tmp_path / "spool", url=server.url, key=server.key) as here:
        sender, job = here.session.sender, here.recorder.identity.job
        with phase("evaluation"):
            pass
        assert sender.flush(30)
        assert main(["backup", str(copy)]) == 0
        with phase("train_loop"):
            for number in range(200):
                step(number)
        assert sender.flush(30)
        acknowledged = events_of(server, job)

        restore(server, copy)

        assert len(events_of(server, job)) < len(acknowledged)
        with phase("evaluation"):
            pass
        assert sender.flush(30)
        wait_for(lambda: acknowledged.items() <= events_of(server, job).items())
        assert len(events_of(server, job)) == len(acknowledged) + 2
