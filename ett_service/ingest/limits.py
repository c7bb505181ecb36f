"""How much a sender may ask of the service at once."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What a body, a batch and an event may be at most."""

    max_body_bytes: int = 8 << 20
    max_inflated_bytes: int = 64 << 20
    max_batch_events: int = 10_000
    max_event_bytes: int = 16 << 10
    max_depth: int = 8  #: of objects and lists inside each other, the event being the first
    max_future_us: int = 86_400_000_000
