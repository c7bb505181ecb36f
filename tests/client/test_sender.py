"""The background thread against servers that are away, wrong, slow or hostile."""

import os
import socket
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from ett_service.client.reporting.phase import phase
from ett_service.client.sending import spool
from ett_service.client.sending.backlog import adopted, spools
from ett_service.client.sending.delivery import MAX_EVENTS
from ett_service.client.session import step
from tests.builders.servers.waiting import PATIENCE_S, wait_for
from tests.builders.servers.web import Received, Reply, accepting, serving
from tests.builders.spools import leave_spool
from tests.builders.trainers import recording, spooled


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def test_a_flushed_event_is_with_the_server_and_the_spool_goes_away(tmp_path: Path) -> None:
    with serving() as web, recording(tmp_path, url=web.url) as here:
        with phase("evaluation"):
            pass
        assert here.session.sender.flush(30)
        assert [event["type"] for event in web.events] == ["phase_started", "phase_ended"]
        assert web.received[0].headers["authorization"] == "Bearer ett_key"
        assert web.received[-1].batch["sent_at"] > web.events[-1]["at"]
        here.session.close()
    assert list(tmp_path.rglob("*.jsonl")) == []


def test_what_was_recorded_while_the_server_was_down_arrives_when_it_is_up(
    tmp_path: Path,
) -> None:
    port = free_port()
    with recording(tmp_path, url=f"http://127.0.0.1:{port}") as here:
        with phase("evaluation"):
            pass
        assert not here.session.sender.flush(0.5)
        with serving(port=port) as web:
            assert here.session.sender.flush(30)
            assert len(web.events) == 2


def test_a_restart_goes_on_where_the_server_has_it_and_sends_what_dead_processes_left(
    tmp_path: Path,
) -> None:
    with recording(tmp_path) as dead, phase("evaluation"):
        pass
    assert dead.events == spooled(tmp_path)
    with serving() as web, recording(tmp_path, url=web.url) as here:
        with phase("stalled"):
            pass
        assert here.session.sender.flush(30)
        assert wait_for(lambda: len(web.events) == 4)
        assert {event["phase"] for event in web.events} == {"evaluation", "stalled"}
        producers = {received.batch["producer"] for received in web.received}
        assert producers == {event["producer"] for event in web.events}
        assert all("sent_at" in received.batch for received in web.received)


def test_a_process_that_ends_removes_its_spool_while_nobody_else_may_adopt_it(
    tmp_path: Path,
) -> None:
    contested: list[Path] = []
    is_over = threading.Event()

    def adopt() -> None:
        while not is_over.is_set():
            for directory in spools(tmp_path):
                with adopted(directory) as backlog:
                    if backlog is not None:
                        contested.append(directory)

    sibling = threading.Thread(target=adopt)
    sibling.start()
    try:
        with serving() as web:
            for _ in range(5):
                with recording(tmp_path, url=web.url), phase("evaluation"):
                    pass
    finally:
        is_over.set()
        sibling.join()
    assert contested == []
    assert spools(tmp_path) == []


def test_what_a_dead_process_left_keeps_no_live_one_from_its_say(tmp_path: Path) -> None:
    leave_spool(tmp_path, 20 * MAX_EVENTS)
    with serving() as web, recording(tmp_path, url=web.url) as here:
        assert wait_for(lambda: bool(web.received))
        with phase("stalled"):
            pass
        assert here.session.sender.flush(30)
        assert len(web.received) < 20


def test_an_answer_from_something_in_between_is_no_acknowledgement(tmp_path: Path) -> None:
    portal = Reply(200, b"<html>Please log in</html>", {"Content-Type": "text/html"})
    with serving(lambda _: portal) as web, recording(tmp_path, url=web.url) as here:
        with phase("evaluation"):
            pass
        assert not here.session.sender.flush(0.5)
        assert len(here.events) == 2
        web.answer = accepting
        assert here.session.sender.flush(30)


def test_a_redirect_is_refused_and_the_key_stays_here(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with serving() as elsewhere:
        away = Reply(308, b"", {"Location": f"{elsewhere.url}/v1/events"})
        with serving(lambda _: away) as web, recording(tmp_path, url=web.url) as here:
            with phase("evaluation"):
                pass
            assert not here.session.sender.flush(0.5)
            assert len(here.events) == 2
    assert elsewhere.received == []
    assert "308" in capfd.readouterr().err


def test_a_wrong_key_is_noticed_once_and_not_retried_soon(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with serving(lambda _: Reply(401)) as web, recording(tmp_path, url=web.url) as here:
        for _ in range(2):
            with phase("evaluation"):
                time.sleep(1.1)  # longer than between two looks of the sender
        assert len(web.received) == 1
        assert len(here.events) == 4
    noticed = capfd.readouterr().err
    assert noticed.count("set ETT_API_KEY to a key with the scope `write`") == 1
    assert "401" in noticed
    assert "ett_key" not in noticed


def test_an_address_that_is_none_is_to_be_mended(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with recording(tmp_path, url="localhost:8080") as here, phase("evaluation"):
        assert not here.session.sender.flush(0.3)
    line = capfd.readouterr().err
    assert "localhost:8080 is not an http or https address; training goes on" in line
    assert "; check ETT_URL" in line


def test_a_key_that_is_none_is_to_be_mended(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with (
        serving() as web,
        recording(tmp_path, url=web.url, key="ett_k\ney") as here,
        phase("evaluation"),
    ):
        assert not here.session.sender.flush(0.3)
    line = capfd.readouterr().err
    assert "ETT_API_KEY has characters that no key has; training goes on" in line
    assert "set ETT_API_KEY" in line
    assert "ney" not in line


def test_a_disk_that_takes_nothing_is_not_said_to_keep_anything(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    with recording(tmp_path / "file", url="ftp://h") as here, phase("evaluation"):
        assert not here.session.sender.flush(0.3)
    assert "training goes on, events are kept in memory; check ETT_URL" in capfd.readouterr().err


def test_a_server_out_of_reach_is_noticed_once_and_the_events_are_kept(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):  # processes of one launch
        with recording(tmp_path, url="http://127.0.0.1:1") as here:
            with phase("evaluation"):
                pass
            for _ in range(4):
                assert not here.session.sender.flush(0.3)
    noticed = capfd.readouterr().err
    (line,) = [line for line in noticed.splitlines() if "training goes on" in line]
    assert "http://127.0.0.1:1 cannot be reached (Connection refused)" in line
    assert f"events are kept in {tmp_path}" in line


def test_a_server_that_does_not_answer_keeps_no_step_waiting(tmp_path: Path) -> None:
    let_go, answered = threading.Event(), threading.Event()

    def answer(received: Received) -> Reply:
        let_go.wait(PATIENCE_S)
        answered.set()
        return accepting(received)

    with serving(answer) as web, recording(tmp_path, url=web.url) as here:
        step(1)
        assert wait_for(lambda: bool(web.received))
        for n in range(2, 100_000):
            step(n)
            if n % 1000 == 0:
                with phase("evaluation"):
                    pass
        assert not answered.is_set()
        assert len(here.events_of("phase_ended")) == 99
        let_go.set()


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return how many bytes of each file under a spool are on the disk for sure."""
    sizes: Counter[str] = Counter()
    sync = os.fsync

    def syncing(fd: int) -> None:
        sync(fd)
        sizes[str(Path(f"/proc/self/fd/{fd}").readlink())] = os.fstat(fd).st_size

    monkeypatch.setattr(spool, "_sync", syncing)
    return sizes


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:1"])
def test_what_the_server_does_not_take_soon_survives_the_machine(
    tmp_path: Path, synced: Counter[str], url: str | None
) -> None:
    with recording(tmp_path, url=url) as here:
        segment = here.recorder.spool.directory / "000001.jsonl"
        for _ in range(2):
            with phase("evaluation"):
                pass
            assert wait_for(lambda: synced[str(segment)] == segment.stat().st_size)
        with phase("stalled"):
            pass
    assert synced[str(segment)] == segment.stat().st_size  # at the end as well


def test_what_the_server_has_costs_the_disk_no_sync(tmp_path: Path, synced: Counter[str]) -> None:
    with serving() as web, recording(tmp_path, url=web.url) as here:
        for _ in range(3):
            with phase("evaluation"):
                pass
            assert here.session.sender.flush(30)
    assert synced == {}


def test_what_was_dropped_is_reported_once(tmp_path: Path) -> None:
    with serving() as web, recording(tmp_path, url=web.url) as here:
        here.recorder.spool.dropped["spool_full"] += 7
        for _ in range(2):
            with phase("evaluation"):
                pass
            assert here.session.sender.flush(30)
        dropped = [
            received.batch["dropped"] for received in web.received if "dropped" in received.batch
        ]
    assert [counts.get("spool_full") for counts in dropped] == [7]


def test_what_the_disk_did_not_take_is_sent_from_memory(tmp_path: Path) -> None:
    with serving() as web, recording(tmp_path, url=web.url) as here:
        here.recorder.spool.fd = -1
        with phase("evaluation"):
            pass
        assert here.session.sender.flush(30)
        assert len(web.events) == 2
        assert not here.recorder.spool.ring
