"""Routing: the directory of receivers, whom a notice concerns, and when it is tried again."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from sqlalchemy import Connection

from ett_service.core.intervals import HOUR_US, SECOND_US
from ett_service.notifications.formats import FORMATS
from ett_service.notifications.notice import OF_SETTINGS, Notice, Receiver
from ett_service.notifications.sender import Outcome
from ett_service.storage.engine.seal import CannotUnseal, Keyring, NoSecretKey
from ett_service.storage.receivers import receivers
from ett_service.storage.receivers.deliveries import Claim, DeliveryState, TryResult
from ett_service.storage.receivers.receivers import Resealed, StoredReceiver

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

    def reseal(self, conn: Connection) -> Resealed:
        """Seal the secrets of receivers with the newest key, as far as they can be read.

        Raises:
            NoSecretKey: There is no key to seal with.
        """
        return receivers.reseal(conn, self.keyring)

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


MOST_RETRY_AFTER_US = HOUR_US
JITTER = 0.1
"""The share by which a wait may be longer or shorter: receivers that failed together are retried
one after another."""

_MINUTE_US = 60 * SECOND_US
_LATER_HOURS = (2, 5, 10, 14, 20, 24)


@dataclass(frozen=True, slots=True)
class Breaker:
    """Pauses a receiver that fails every delivery, for longer and longer."""

    after: int = 5  #: failures in a row
    first_us: int = 30 * SECOND_US
    longest_us: int = 30 * _MINUTE_US

    def pause_us(self, failures: int) -> int:
        """Return the pause after so many failures in a row."""
        if failures < self.after:
            return 0
        return min(self.first_us << min(failures - self.after, 20), self.longest_us)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The consequences of a try."""

    steps_us: tuple[int, ...] = (
        0, 5 * SECOND_US, 5 * _MINUTE_US, 30 * _MINUTE_US,
        *(hours * HOUR_US for hours in _LATER_HOURS),
    )  # fmt: skip
    """How long to wait before each try; after the last the delivery is dead."""
    resend_us: int = _MINUTE_US  #: between repeats, for receivers that forget
    breaker: Breaker = Breaker()

    def settle(
        self, claim: Claim, outcome: Outcome, now_us: int, *, is_repeated: bool = False
    ) -> TryResult:
        """Return what follows from a try with this *outcome* that ended at *now_us*.

        A repeated delivery is sent every ``resend_us`` until it is superseded: it is never dead.
        """
        tried = outcome.tried(now_us)
        if outcome.is_success:
            done = DeliveryState.REPEATING if is_repeated else DeliveryState.SENT
            return TryResult(tried, done, now_us + self.resend_us, tries=0, failures=0)
        failures, tries = claim.failures + 1, claim.tries + 1
        if outcome.is_gone:
            why = "It answered 410 Gone."
            return TryResult(tried, DeliveryState.DEAD, now_us, tries, failures, disabled_why=why)
        asked_us = min(outcome.retry_after_us or 0, MOST_RETRY_AFTER_US)
        pause_us = max(self._pause_us(failures, is_repeated=is_repeated), asked_us)
        open_until_us = now_us + pause_us if pause_us else None
        wait_us = self._wait_us(claim.id, tries, is_repeated=is_repeated)
        if wait_us is None:
            return TryResult(tried, DeliveryState.DEAD, now_us, tries, failures, open_until_us)
        due_us = now_us + max(wait_us, asked_us)
        return TryResult(tried, DeliveryState.WAITING, due_us, tries, failures, open_until_us)

    def give_up(self, claim: Claim, outcome: Outcome, now_us: int) -> TryResult:
        """Return that a delivery is dead, for a reason that is no failure of its receiver."""
        tried = outcome.tried(now_us)
        return TryResult(tried, DeliveryState.DEAD, now_us, claim.tries + 1, claim.failures)

    def _pause_us(self, failures: int, *, is_repeated: bool) -> int:
        pause_us = self.breaker.pause_us(failures)
        return min(pause_us, self.resend_us) if is_repeated else pause_us

    def _wait_us(self, delivery_id: str, tries: int, *, is_repeated: bool) -> int | None:
        if tries >= len(self.steps_us):
            return self.resend_us if is_repeated else None
        wait_us = _jittered(self.steps_us[tries], f"{delivery_id}:{tries}")
        return min(wait_us, self.resend_us) if is_repeated else wait_us


def _jittered(wait_us: int, of: str) -> int:
    """Change *wait_us* by up to ``JITTER``, always by the same for the same try."""
    drawn = int.from_bytes(sha256(of.encode()).digest()[:4]) / (1 << 32)
    return round(wait_us * (1 + JITTER * (2 * drawn - 1)))
