"""The canonical content of an event: what is stored, and equal in a duplicate, type aside.

JSON with sorted keys in which instants are integers, members at their defaults are left out, and
whatever the sender may write in several ways is written in one.
"""

from dataclasses import MISSING, fields

import msgspec

from ett_service.core.event import EVENT_TYPES, Event

_ENCODER = msgspec.json.Encoder(order="sorted")

DECODERS = {name: msgspec.json.Decoder(kind).decode for name, kind in EVENT_TYPES.items()}
"""What reads the event of each type from its body."""


def _default_of(kind: type[Event]) -> tuple[tuple[str, object], ...]:
    return tuple(
        (each.name, {} if each.default_factory is not MISSING else each.default)
        for each in fields(kind)
    )


_DEFAULTS = {name: _default_of(kind) for name, kind in EVENT_TYPES.items()}


def encode_body(event: Event) -> str:
    """Return the canonical content of *event*, its id included."""
    content = {
        name: value
        for name, default in _DEFAULTS[event.type]
        if (value := getattr(event, name)) != default
    }
    return _ENCODER.encode(content).decode()


def decode_body(kind: str, body: str) -> Event:
    """Return the event of type *kind* that was stored as *body*."""
    return DECODERS[kind](body)
