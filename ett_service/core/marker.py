"""Markers: what people did to the fleet, and when."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto


class MarkerKind(StrEnum):
    """What a marker is of: the closed list."""

    DEPLOY = auto()  #: other code or another image went out
    LAUNCH = auto()  #: an effort, a model or a cluster began
    MAINTENANCE = auto()  #: planned work on the machines
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class Marker:
    """One of them; instants are microseconds since the Unix epoch."""

    id: str  #: unique in its project
    at: int
    kind: MarkerKind
    title: str
    end: int | None = None  #: None for what took no time
    labels: Mapping[str, str] = field(default_factory=dict)
