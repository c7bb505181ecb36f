"""Whom to tell, and how."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto

OF_SETTINGS = 0
"""The owner of receivers that the settings name; they are told of every project."""


class Format(StrEnum):
    """What the messages of a receiver look like."""

    GENERIC = auto()
    SLACK = auto()
    PAGERDUTY = auto()
    TEAMS = auto()
    ALERTMANAGER = auto()


@dataclass(frozen=True, slots=True)
class Receiver:
    """A receiver. Its address is a secret as well: that of Slack and its like lets anybody post."""

    owner: int  #: project, or ``OF_SETTINGS``
    name: str
    url: str = field(repr=False)
    format: Format = Format.GENERIC
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """All of them sign, the newest first; PagerDuty's is its routing key."""
    where: Mapping[str, str] = field(default_factory=dict)  #: only what concerns these
