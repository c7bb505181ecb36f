"""Every receiver there is: those of the settings, and those that projects made."""

import logging
from collections.abc import Iterable

from sqlalchemy import Connection

from ett_service.alerting.receiver import OF_SETTINGS, Format, Receiver
from ett_service.storage import receivers
from ett_service.storage.receivers import KeptReceiver
from ett_service.storage.sealing import CannotUnseal, Keyring, NoSecretKey

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

    def opened(self, kept: KeptReceiver, now_us: int) -> Receiver:
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

    def _readable(self, kept: KeptReceiver, now_us: int) -> Receiver | None:
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
