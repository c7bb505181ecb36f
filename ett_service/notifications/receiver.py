"""A receiver of notices, and what its format is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, TypeAlias

from ett_service.notifications.notice import Notice

OF_SETTINGS = 0
"""The owner of receivers that the settings name; they are notified of every project."""

JSON = "application/json; charset=utf-8"


class Secret(Enum):
    """What the secret of a receiver is for."""

    SIGNING_KEY = auto()  #: made by the API, and rotated
    ROUTING_KEY = auto()  #: given by the vendor; part of the body, which is not signed
    OPTIONAL = auto()  #: signs where the settings name one


@dataclass(frozen=True, slots=True)
class Receiver:
    """A receiver. Its address is a secret as well: that of Slack and its like lets anybody post."""

    owner: int  #: project, or ``OF_SETTINGS``
    name: str
    url: str = field(repr=False)
    format: "WebhookFormat"
    secrets: tuple[str, ...] = field(default=(), repr=False)  #: all sign, the newest first
    where: Mapping[str, str] = field(default_factory=dict)  #: project or dimensions to notify of


Render: TypeAlias = Callable[[Notice, Receiver, int], Any]
"""From a notice, its receiver and the longest text of a name to a body, as JSON can hold it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookFormat:
    """How one kind of receiver reads a notice."""

    name: str
    render: Render
    place: int = 100  #: in lists of formats; those of one place come by name
    secret: Secret = Secret.OPTIONAL
    repeats: bool = False  #: such receivers forget a firing notice unless it is repeated
    content_type: str = JSON
    most_bytes: int = 20_000  #: of a body
