"""Renders a notice as its receiver reads it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec

from ett_service.notifications.formats import alertmanager, generic, pagerduty, slack, teams
from ett_service.notifications.notice import Notice
from ett_service.notifications.routing import Format, Receiver

MOST_BYTES = 20_000
"""No body is longer: what a receiver has not taken yet waits here."""

MOST_TEAMS_BYTES = 14_000
"""Teams takes 28 KB, and counts two bytes a character where it does not believe in UTF-8."""

_TEXT_LENGTHS = (300, 100, 40, 15)
_HEADERS = MappingProxyType({"Content-Type": "application/json; charset=utf-8"})

_RENDERERS: Mapping[Format, Callable[[Notice, Receiver, int], Any]] = {
    Format.GENERIC: generic.body,
    Format.SLACK: slack.body,
    Format.PAGERDUTY: pagerduty.body,
    Format.TEAMS: teams.body,
    Format.ALERTMANAGER: alertmanager.body,
}


@dataclass(frozen=True, slots=True)
class Rendered:
    """One request without its address and signature."""

    headers: Mapping[str, str]
    body: bytes


def render(notice: Notice, receiver: Receiver) -> Rendered:
    """Write what *receiver* is sent; names that people chose are cut as far as it must be."""
    render_one = _RENDERERS[receiver.format]
    most = MOST_TEAMS_BYTES if receiver.format is Format.TEAMS else MOST_BYTES
    body = b""
    for length in _TEXT_LENGTHS:
        body = msgspec.json.encode(render_one(notice, receiver, length))
        if len(body) <= most:
            break
    return Rendered(_HEADERS, body)
