"""What the application stands on. An entry point makes it; a test makes its own."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from ett_service.core.regressions.clocks import Sla
from ett_service.fleet.economy import Economy
from ett_service.ingest.limits import Limits
from ett_service.notifications.routing import Directory
from ett_service.notifications.sender import Sender
from ett_service.storage.engine.store import Store


class Waker(Protocol):
    """The worker inside this process, as far as the API knows it."""

    def wake(self) -> None:
        """Look for marks now rather than at the next poll."""

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""


@dataclass(frozen=True, slots=True)
class Telling:
    """Who is told of regressions, and what tries whether they can be."""

    directory: Directory = field(default_factory=Directory)
    sender: Callable[[], Sender] = Sender
    public_url: str = ""  #: where people reach this server


@dataclass(frozen=True, slots=True)
class Parts:
    """The store, the clock, the limits, and the worker where one runs in this process."""

    store: Store
    now_us: Callable[[], int]
    limits: Limits
    worker: Waker | None = None
    version: str = "0"
    open_metrics: bool = False  #: ``/metrics`` without a key, for one who listens on loopback
    body_deadline_s: float = 30.0  #: for the whole body of a request
    cohort_histograms: bool = True  #: on ``/metrics``
    economy: Economy = field(default_factory=Economy)
    telling: Telling = field(default_factory=Telling)
    sla: Sla = field(default_factory=Sla)  #: what the clocks of regressions are held to
