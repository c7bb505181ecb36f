"""The receiver of the how-to takes what is ours, once, and nothing else."""

import importlib.util
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from ett_service.core.intervals import SECOND_US
from ett_service.notifications.formats import FORMATS
from ett_service.notifications.notice import OF_SETTINGS, Notice, Receiver, Status
from ett_service.notifications.sender import Sender
from ett_service.storage.receivers.receivers import new_secret
from tests.builders.receivers.deliveries import notice
from tests.builders.servers.threads import in_thread

ROOT = Path(__file__).parents[2]
HOWTO = ROOT / "docs" / "howto" / "webhooks-receive.md"
EXAMPLE = ROOT / "examples" / "webhook_receiver.py"
OLD, NEW = new_secret(), new_secret()


class Example(NamedTuple):
    """Where the example listens, and what it printed."""

    url: str
    printed: list[str]


@pytest.fixture(scope="module")
def sender() -> Sender:
    """Return what sends to it."""
    return Sender()


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Example]:
    """Run the example."""
    example = _example()
    printed: list[str] = []
    monkeypatch.setattr(example, "act", lambda alert: printed.append(alert["status"]))
    listening = example.server(0, [NEW, OLD], tmp_path / "told.db")
    with in_thread(listening):
        yield Example(f"http://127.0.0.1:{listening.server_port}/", printed)


def send(
    sender: Sender,
    example: Example,
    message: str = "msg_1",
    news: Notice | None = None,
    *,
    secret: str = NEW,
    late_seconds: int = 0,
) -> int | None:
    receiver = Receiver(
        OF_SETTINGS, "a", example.url, FORMATS["generic"], secrets=(secret,) if secret else ()
    )
    now_us = (int(time.time()) - late_seconds) * SECOND_US
    return sender.send(receiver, message, news or notice(), now_us).status


def test_a_message_is_acted_on_once_however_often_it_comes(
    sender: Sender, example: Example
) -> None:
    assert [send(sender, example) for _ in range(3)] == [204, 204, 204]

    assert example.printed == ["firing"]


def test_an_old_state_that_comes_late_changes_nothing(sender: Sender, example: Example) -> None:
    send(sender, example, "msg_2", notice(Status.RESOLVED, version=2))
    send(sender, example, "msg_1", notice(Status.FIRING, version=1))

    assert example.printed == ["resolved"]


def test_either_secret_is_taken_while_it_is_rotated_and_no_other(
    sender: Sender, example: Example
) -> None:
    assert send(sender, example, secret=OLD) == 204
    assert send(sender, example, "msg_2", secret=new_secret()) == 401
    assert send(sender, example, "msg_2", secret="") == 401


def test_what_is_older_or_newer_than_five_minutes_is_not_taken(
    sender: Sender, example: Example
) -> None:
    assert [send(sender, example, late_seconds=late) for late in (400, -400)] == [401, 401]

    assert example.printed == []


def test_the_how_to_shows_what_the_example_does() -> None:
    block = HOWTO.read_text("utf-8").split("```python\n")[1].split("```")[0]

    assert block in EXAMPLE.read_text("utf-8")


def _example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("webhook_receiver", EXAMPLE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
