"""What the application runs on, and how much it takes on at once."""

from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from threading import Event
from typing import Protocol

from ett_service.core.regressions.clocks import Sla
from ett_service.fleet.economy import Economy
from ett_service.ingest.wire import Limits
from ett_service.notifications.routing import Directory
from ett_service.notifications.sender import Sender
from ett_service.storage.engine.store import Store
from ett_service.storage.record.sessions import Sessions


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one class of work may take."""

    requests: int  #: worked on at once
    cost: int  #: of them together, in bytes; one alone may cost more
    waiting: int = 256  #: requests that wait
    wait_s: float = 3.0  #: the longest that one waits


@dataclass(frozen=True, slots=True)
class Capacities:
    """What a process takes on."""

    writes: Capacity = Capacity(64, 4 << 20)
    large_writes: Capacity = Capacity(8, 64 << 20, waiting=64)
    reads: Capacity = Capacity(24, 64 << 20)
    body_bytes: int = 64 << 20  #: of all bodies in memory


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What a connection may take, and how many there may be."""

    connections: int = 2000
    header_bytes: int = 32 << 10
    headers: int = 100
    address_bytes: int = 8 << 10
    header_s: float = 10.0  #: from the first byte of a request until its headers are whole
    idle_s: float = 60.0  #: between requests
    answer_s: float = 30.0  #: in which a quarter of what is left of an answer must be taken


class Waker(Protocol):
    """The worker inside this process, as far as the API knows it."""

    def wake(self) -> None:
        """Look for marked jobs now rather than at the next poll."""

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""

    @property
    def folds(self) -> bool:
        """Whether not every fold fails."""


@dataclass(frozen=True, slots=True)
class Notifications:
    """The receivers of regression messages, and what sends to them."""

    directory: Directory = field(default_factory=Directory)
    sender: Callable[[], Sender] = Sender
    public_url: str = ""  #: where people reach this server


def is_loopback(host: str) -> bool:
    """Whether *host* is a name or an address of this machine alone."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class AppState:
    """The store, the clock, the limits, and the worker where one runs in this process."""

    store: Store
    now_us: Callable[[], int]
    limits: Limits
    worker: Waker | None = None
    version: str = "0"
    open_metrics: bool = False  #: ``/metrics`` without a key
    local_metrics: bool = False  #: likewise, for whoever asks on this machine and no proxy does
    body_deadline_s: float = 30.0  #: for the whole body of a request
    capacities: Capacities = field(default_factory=Capacities)
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    cohort_histograms: bool = True  #: on ``/metrics``
    economy: Economy = field(default_factory=Economy)
    notifications: Notifications = field(default_factory=Notifications)
    sla: Sla = field(default_factory=Sla)  #: the limits of a regression's clocks
    sessions: Sessions = field(default_factory=Sessions)  #: of browsers
    first_keys: dict[str, str] = field(default_factory=dict)
    """Keys of trainers, by project, that are shown until the first event: no disk has them."""
    grafana_url: str = ""  #: where the dashboards are
    stopping: Event = field(default_factory=Event)  #: set when the server ends
