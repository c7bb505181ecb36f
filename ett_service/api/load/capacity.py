"""How much a process takes on at once."""

from dataclasses import dataclass


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
