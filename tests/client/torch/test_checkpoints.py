"""What is made of the savers and of the records of ``torch_checkpointing``, without it."""

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import pytest

from ett_service.client.session import step
from ett_service.client.torch import checkpoints
from tests.builders.servers.waiting import wait_for
from tests.builders.trainers import Recording, recording

WAITED = {
    "event_name": "train.checkpoint_write.submit.wait_for_prev.latency_ms",
    "value": 20,
    "step": 104,
}


class Package:
    """Stands for the module of the savers."""

    def __init__(self) -> None:
        lasting = type("AsyncCheckpointSaver", (), {"save": self._save})
        sync = type("SyncCheckpointSaver", (), {"save": staticmethod(lambda: None)})
        self.logger = logging.getLogger("torch_checkpointing.checkpoint_saver")
        self.staged: Future[None] = Future()
        self.upload: Future[None] = Future()
        self.module = SimpleNamespace(AsyncCheckpointSaver=lasting, SyncCheckpointSaver=sync)
        checkpoints.hook_torch_checkpointing_save(self.module)

    def _save(self) -> tuple[Future[None], Future[None]]:
        time.sleep(0.03)
        self.logger.info("Finished waiting", extra=WAITED)
        return self.staged, self.upload


@pytest.fixture
def package() -> Iterator[Package]:
    package = Package()
    yield package
    for name in checkpoints.LOGGERS:
        logger = logging.getLogger(name)
        logger.filters.clear()
        logger.setLevel(logging.NOTSET)


def spans(here: Recording) -> list[tuple[str | None, float]]:
    """The stages of what blocked, with their seconds."""
    begins: dict[str | None, int] = {}
    closed = []
    for event in here.events_of("phase_started", "phase_ended", "span"):
        stage = event.get("stage")
        if event["type"] == "phase_started":
            begins[stage] = event["mono_us"]
        elif event["type"] == "phase_ended":
            closed.append((stage, (event["mono_us"] - begins[stage]) / 1e6))
        else:
            closed.append((stage, 0.0))
    return closed


def test_a_save_in_the_background_is_durable_with_its_write_and_the_wait_before_it_is_a_stage(
    package: Package, tmp_path: Path
) -> None:
    with recording(tmp_path) as here:
        step(4)
        _, upload = package.module.AsyncCheckpointSaver.save()
        assert [name for name, _ in spans(here)] == ["wait_for_previous", "staging", None]
        assert here.events_of("checkpoint_saved") == []
        threading.Timer(0.05, upload.set_result, (None,)).start()
        upload.result()
        (saved,) = wait_for(lambda: here.events_of("checkpoint_saved"))
        waits = spans(here)[3:]
    assert saved["step"] == 104  # as the trainer has named it
    assert saved["attributes"]["blocking_seconds"] >= 0.03
    assert [name for name, _ in waits] == ["wait_for_upload", None]
    assert waits[0][1] >= 0.03


def test_a_wait_for_what_is_done_is_none(package: Package, tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        step(4)
        staged, upload = package.module.AsyncCheckpointSaver.save()
        upload.set_result(None)
        staged.set_result(None)
        upload.result()
        assert [name for name, _ in spans(here)] == ["wait_for_previous", "staging", None]


def test_a_save_that_returns_is_durable(package: Package, tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        step(4)
        package.module.SyncCheckpointSaver.save()
        (saved,) = here.events_of("checkpoint_saved")
        assert [name for name, _ in spans(here)] == ["save", None]
    assert (saved["step"], saved["attributes"]) == (4, {"source": "auto"})


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING])
def test_its_user_reads_the_records_that_were_wanted_and_no_others(
    package: Package, caplog: pytest.LogCaptureFixture, level: int
) -> None:
    caplog.set_level(level)
    for each in (logging.INFO, logging.ERROR):
        package.logger.log(each, "%s", each)
    wanted = [each for each in (logging.INFO, logging.ERROR) if each >= level]
    assert [record.levelno for record in caplog.records] == wanted
