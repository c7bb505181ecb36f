"""Routing: the directory of receivers, and which of them a notice concerns."""

import logging
from collections.abc import Iterable

from sqlalchemy import Connection

from ett_service.notifications.formats import FORMATS
from ett_service.notifications.notice import Notice
from ett_service.notifications.receiver import OF_SETTINGS, Receiver
from ett_service.storage.engine.seal import CannotUnseal, Keyring, NoSecretKey
from ett_service.storage.receivers import receivers
from ett_service.storage.receivers.receivers import StoredReceiver

log = logging.getLogger(__name__)


class Directory:
    """The receivers of the settings and of the database, with the secrets that sign by now."""

    def __init__(
        self, of_settings: Iterable[Receiver] = (), keyring: Keyring | None = None
    ) -> None:
        self.of_settings = tuple(of_settings)
        self.keyring = keyring or Keyring()

    def all(self, conn: Connection, now_us: int) -> list[Receiver]:
        """Return all receivers but those whose secrets cannot be read, which are logged."""
        readable = list(self.of_settings)
        for stored in receivers.listing(conn):
            try:
                readable.append(self.opened(stored, now_us))
            except (CannotUnseal, NoSecretKey) as error:
                log.warning(
                    "Receiver %s is not notified: %s",
                    stored.name,
                    error,
                    extra={"event": "receiver_unreadable", "project_id": stored.project_id},
                )
        return readable

    def find(self, conn: Connection, owner: int, name: str, now_us: int) -> Receiver | None:
        """Return one receiver; None if it does not exist.

        Raises:
            CannotUnseal: Its secrets cannot be read.
            NoSecretKey: There is no key to read them with.
        """
        if owner == OF_SETTINGS:
            return next((named for named in self.of_settings if named.name == name), None)
        stored = receivers.get(conn, owner, name)
        return None if stored is None else self.opened(stored, now_us)

    def opened(self, stored: StoredReceiver, now_us: int) -> Receiver:
        """Return *stored* with its address and secrets.

        Raises:
            CannotUnseal: They cannot be read.
            NoSecretKey: There is no key to read them with.
        """
        return Receiver(
            owner=stored.project_id,
            name=stored.name,
            url=self.keyring.unseal(stored.sealed_url),
            format=FORMATS[stored.format],
            secrets=stored.secrets(self.keyring, now_us),
            where=stored.cohort,
        )


def targets(notice: Notice, receivers: Iterable[Receiver]) -> list[Receiver]:
    """Return the *receivers* that *notice* concerns.

    A receiver of a project is notified of that project alone. A cohort spans the dimensions that
    it does not name, so a notice of the whole project concerns every value of them.
    """
    labels = {"project": notice.project, **notice.cohort}
    return [
        receiver
        for receiver in receivers
        if receiver.owner in (OF_SETTINGS, notice.project_id)
        and all(labels.get(name, value) == value for name, value in receiver.where.items())
    ]
