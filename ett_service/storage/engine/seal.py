"""Seals the secrets of receivers and the sessions of browsers.

Who has the database has neither.

Fernet (AES-128-CBC and HMAC-SHA256) under keys that lie outside of the database: those of the
setting ``secret_key``, or for SQLite without one a file of its own beside the database.
"""

import base64
import contextlib
import os
import stat
import tempfile
from functools import cached_property
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ett_service.core.errors import EttError
from ett_service.storage.engine import migrate, sqlite

FEWEST_CHARACTERS = 32
"""A shorter key could be guessed."""

_KEY_BYTES = 32
SECRETS = b"ett-service: secrets of receivers"
"""What is sealed for one purpose cannot be unsealed for another."""

_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class NoSecretKey(EttError):
    """There is no key to seal with, or none that can be used."""

    hint = (
        "Set `secret_key` (ETT_SECRET_KEY) to at least 32 random characters, such as those of "
        "`openssl rand -base64 32`, the same for every process; see docs/operations.md."
    )


class CannotUnseal(EttError):
    """It was sealed with a key that is not there any more."""

    hint = (
        "`secret_key` may name several keys separated by commas: the first encrypts, all decrypt. "
        "Put the former one last, or remove the receiver and add it again."
    )


class Keyring:
    """Seals with the newest key and unseals with every one; a key file is made at first use."""

    def __init__(
        self, secret_key: str = "", database_url: str = "", *, purpose: bytes = SECRETS
    ) -> None:
        self._secret_key = secret_key
        self._database_url = database_url
        self._purpose = purpose

    def seal(self, text: str) -> str:
        """Return *text* as the database may keep it.

        Raises:
            NoSecretKey: There is none to seal with.
        """
        return self._every.encrypt(text.encode()).decode()

    def unseal(self, sealed: str) -> str:
        """Return what was sealed.

        Raises:
            CannotUnseal: None of the keys fits.
            NoSecretKey: There is none.
        """
        try:
            return self._every.decrypt(sealed).decode()
        except InvalidToken:
            raise CannotUnseal(
                "The secrets of a receiver were encrypted with another key."
            ) from None

    def is_newest(self, sealed: str) -> bool:
        """Whether it was sealed with the key that seals now.

        Raises:
            NoSecretKey: There is none.
        """
        try:
            self._keys[0].decrypt(sealed)
        except InvalidToken:
            return False
        return True

    @property
    def _every(self) -> MultiFernet:
        return MultiFernet(self._keys)

    @cached_property
    def _keys(self) -> list[Fernet]:
        named = [part.strip() for part in self._secret_key.split(",") if part.strip()]
        if any(len(part) < FEWEST_CHARACTERS for part in named):
            raise NoSecretKey(f"`secret_key` has under {FEWEST_CHARACTERS} characters.")
        keys = [Fernet(_derived(part, self._purpose)) for part in named]
        file = self._file
        if not named and file is None:
            raise NoSecretKey("Secrets of receivers need the setting `secret_key`.")
        if file is not None and (not named or file.exists()):
            key = _of_file(file)
            own = key if self._purpose == SECRETS else _derived(key.decode(), self._purpose)
            keys.append(Fernet(own))
        return keys

    @property
    def _file(self) -> Path | None:
        """The key file of an embedded database, which decrypts beside a key of the settings."""
        if not self._database_url.startswith("sqlite:"):
            return None
        return key_file(sqlite.path_of(migrate.address(self._database_url)))


def key_file(database: Path) -> Path:
    """Return where the key of an embedded *database* lies."""
    return database.with_name(database.name + ".key")


def _derived(text: str, purpose: bytes) -> bytes:
    kdf = HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=purpose)
    return base64.urlsafe_b64encode(kdf.derive(text.encode()))


def _of_file(path: Path) -> bytes:
    if not path.exists():
        _make(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        reason = error.strerror
        raise NoSecretKey(f"{path.name} cannot be opened: {reason}.") from error
    with os.fdopen(descriptor, "rb") as file:
        if os.fstat(descriptor).st_mode & _OF_OTHERS:
            raise NoSecretKey(f"{path.name} can be read by others.", f"Run `chmod 600 {path}`.")
        key = file.read().strip()
    try:
        Fernet(key)
    except ValueError:
        raise NoSecretKey(f"{path.name} holds no key.") from None
    return key


def _make(path: Path) -> None:
    """Write a key that appears whole or not at all; of two who do so at once, one wins."""
    descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(Fernet.generate_key() + b"\n")
            file.flush()
            os.fsync(descriptor)
        with contextlib.suppress(FileExistsError):
            Path(path).hardlink_to(name)
    finally:
        Path(name).unlink()
