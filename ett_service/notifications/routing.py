"""Receivers: whom to notify, how, and who is told of what."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto

from sqlalchemy import Connection

from ett_service.notifications.notice import Notice
from ett_service.storage.engine.seal import CannotUnseal, Keyring, NoSecretKey
from ett_service.storage.receivers import receivers
from ett_service.storage.receivers.receivers import StoredReceiver

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


log = logging.getLogger(__name__)


class Directory:
    """Looks receivers up, with the secrets that sign at an instant."""

    def __init__(
        self, of_settings: Iterable[Receiver] = (), keyring: Keyring | None = None
    ) -> None:
        self.of_settings = tuple(of_settings)
        self.keyring = keyring or Keyring()

    def all(self, conn: Connection, now_us: int) -> list[Receiver]:
        """Return all receivers whose secrets can be read; a log line tells of the others."""
        kept = [self._readable(one, now_us) for one in receivers.listing(conn)]
        return [*self.of_settings, *(one for one in kept if one is not None)]

    def find(self, conn: Connection, owner: int, name: str, now_us: int) -> Receiver | None:
        """Return one receiver, or None where there is no such one.

        Raises:
            CannotUnseal: Its secrets cannot be read.
            NoSecretKey: There is no key to read them with.
        """
        if owner == OF_SETTINGS:
            return next((one for one in self.of_settings if one.name == name), None)
        kept = receivers.get(conn, owner, name)
        return None if kept is None else self.opened(kept, now_us)

    def opened(self, kept: StoredReceiver, now_us: int) -> Receiver:
        """Return *kept* with its address and secrets.

        Raises:
            CannotUnseal: They cannot be read.
            NoSecretKey: There is no key to read them with.
        """
        return Receiver(
            owner=kept.project_id,
            name=kept.name,
            url=self.keyring.unseal(kept.sealed_url),
            format=Format(kept.format),
            secrets=kept.secrets(self.keyring, now_us),
            where=kept.cohort,
        )

    def _readable(self, kept: StoredReceiver, now_us: int) -> Receiver | None:
        try:
            return self.opened(kept, now_us)
        except (CannotUnseal, NoSecretKey) as error:
            log.warning(
                "Receiver %s is left out: %s",
                kept.name,
                error,
                extra={"event": "receiver_unreadable", "project_id": kept.project_id},
            )
            return None


def targets(notice: Notice, receivers: Iterable[Receiver]) -> list[Receiver]:
    """Choose those of *receivers* that *notice* concerns.

    A receiver of a project hears of that project alone. A dimension that a cohort does not tell
    it spans, so what concerns the whole project concerns every value of it.
    """
    return [one for one in receivers if _is_entitled(notice, one) and _is_concerned(notice, one)]


def _is_entitled(notice: Notice, receiver: Receiver) -> bool:
    return receiver.owner in (OF_SETTINGS, notice.project_id)


def _is_concerned(notice: Notice, receiver: Receiver) -> bool:
    known = {"project": notice.project, **notice.cohort}
    return all(known.get(name, value) == value for name, value in receiver.where.items())
