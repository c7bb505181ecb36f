"""The conformance suite: timelines with answers, stored outside the project."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest

from ett_service.core.events import EVENT_TYPES, AttemptEnded, Event
from ett_service.core.words import Cause, Origin, Outcome, Phase
from tests.builders.clock import instant

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("ETT_CORPUS", ROOT / "../shared/corpus")) / "timelines"
FILES = ("lifelike", "rough", "dense")

_WORDS = {"phase": Phase, "outcome": Outcome, "origin": Origin, "cause": Cause}


@dataclass(frozen=True, slots=True)
class Case:
    """One job's events with the answer on which others agreed."""

    name: str
    as_of: int
    events: tuple[Event, ...]
    expected: Mapping[str, Any]


def cases(file: str) -> Iterator[Case]:
    """Read one file of the suite; skip the test where it is absent."""
    path = FOLDER / f"{file}.jsonl"
    if not path.exists():
        pytest.skip(f"the conformance suite is not there: {path} (set ETT_CORPUS)")
    for line in path.read_text().splitlines():
        case = json.loads(line)
        yield Case(
            case["case"],
            instant(case["as_of"]),
            tuple(event(wire) for wire in case["events"]),
            case["expected"],
        )


def event(wire: Mapping[str, Any]) -> Event:
    """Build an event from its members on the wire; equal content gives an equal ``id``."""
    kind = EVENT_TYPES[wire["type"]]
    names = {field.name for field in fields(kind)}
    members = {name: _value(name, value) for name, value in wire.items() if name in names}
    if kind is not AttemptEnded:
        members.setdefault("cycle", 0)
    built = kind(**{"id": "", **members})
    return (
        built if built.id else replace(built, id=hashlib.sha256(repr(built).encode()).hexdigest())
    )


def _value(name: str, value: Any) -> Any:
    if name in {"at", "start"}:
        return instant(value)
    return _WORDS[name](value) if name in _WORDS else value
