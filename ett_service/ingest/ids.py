"""Ids for events that came without one."""

import hashlib
from dataclasses import replace

from ett_service.core.event import Event
from ett_service.storage.body import encode_body

_LENGTH = 40


def derived_id(event: Event) -> str:
    """Return the id that says what *event* says: the same content always has the same one."""
    content = f"{event.type}\n{encode_body(replace(event, id=''))}"
    return hashlib.sha256(content.encode()).hexdigest()[:_LENGTH]
