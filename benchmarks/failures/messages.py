"""Real error messages with their origin and cause: ``messages.jsonl``, a line each."""

import json
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

from ett_service.core.events import AttemptEnded
from ett_service.core.ledger.attempt_results import Classification, classify
from ett_service.core.words import Cause, Origin, Outcome

MESSAGES = Path(__file__).with_name("messages.jsonl")


class Half(StrEnum):
    """What a message is for."""

    FIT = "fit"  #: the rules were written on these
    HELD_BACK = "held_back"  #: nobody looks at these while writing a rule


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledMessage:
    """What a failed attempt reported, and why it failed as far as *source* tells."""

    id: str
    source: str  #: ``owner/repository#number`` on GitHub
    half: Half
    origin: Origin
    cause: Cause
    exception: str | None = None
    message: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    scheduler_state: str | None = None
    why: str | None = None  #: where the label does not stand in the text itself


def half_of(name: str) -> Half:
    """Return the half that a message of this id belongs to, whatever it says."""
    return Half.HELD_BACK if sha256(name.encode()).digest()[0] & 1 else Half.FIT


def read_messages(path: Path = MESSAGES) -> tuple[LabelledMessage, ...]:
    """Return the messages of *path*, in its order."""
    return tuple(_message(line) for line in path.read_text("utf-8").splitlines())


def _message(line: str) -> LabelledMessage:
    members = json.loads(line)
    words = {
        "half": Half(members["half"]),
        "origin": Origin(members["origin"]),
        "cause": Cause(members["cause"]),
    }
    return LabelledMessage(**{**members, **words})


def judge(message: LabelledMessage) -> Classification:
    """Return what the rules say of an attempt that reported nothing else."""
    ended = AttemptEnded(
        id=message.id,
        at=0,
        outcome=Outcome.FAILED,
        exit_code=message.exit_code,
        signal=message.signal,
        exception=message.exception,
        message=message.message,
        scheduler_state=message.scheduler_state,
    )
    return classify(ended.outcome, ended, [(ended.at, ended)])
