"""Sessions of browsers: each stands for a key, and ends with it.

The text of a session is sealed, holds no secret of the key and lies in a cookie alone; nothing of
it is stored. What cannot be sealed with a lasting key is sealed with one of this process.
"""

import hashlib
import secrets
from hmac import compare_digest

from cryptography.fernet import Fernet, InvalidToken
from sqlalchemy import Connection

from ett_service.core.intervals import DAY_US
from ett_service.storage.engine.seal import CannotUnseal, Keyring, NoSecretKey
from ett_service.storage.record.keys import Key, standing_key

PURPOSE = b"ett-service: sessions of browsers"
LIFETIME_US = 30 * DAY_US


class Sessions:
    """Opens sessions, and finds whom they stand for."""

    def __init__(self, keyring: Keyring | None = None) -> None:
        self._keyring = keyring
        self._of_process = Fernet(Fernet.generate_key())
        self._tickets: dict[str, str] = {}

    def open(self, prefix: str, now_us: int) -> str:
        """Return the text of a session of the key that begins with *prefix*."""
        text = f"{prefix} {now_us} {secrets.token_hex(8)}"
        if self._keyring is not None:
            try:
                return self._keyring.seal(text)
            except NoSecretKey:
                pass  # it ends with this process, then
        return self._of_process.encrypt(text.encode()).decode()

    def key_of(self, conn: Connection, session: str, now_us: int) -> Key | None:
        """Return the key that *session* stands for; None if it is over, or the key is."""
        prefix, _, rest = self._text(session).partition(" ")
        opened_at = rest.partition(" ")[0]
        if not opened_at or not 0 <= now_us - int(opened_at) < LIFETIME_US:
            return None
        return standing_key(conn, prefix, now_us)

    def _text(self, session: str) -> str:
        if self._keyring is not None:
            try:
                return self._keyring.unseal(session)
            except (CannotUnseal, NoSecretKey):
                pass  # it may be of this process
        try:
            return self._of_process.decrypt(session).decode()
        except InvalidToken:
            return ""

    def ticket(self, prefix: str) -> str:
        """Return a word that signs in once, for the key that begins with *prefix*."""
        word = secrets.token_urlsafe(24)
        self._tickets[word] = prefix
        return word

    def redeem(self, word: str) -> str | None:
        """Return the prefix of the key that *word* signs in for; it is used up."""
        return self._tickets.pop(word, None)


def form_token(session: str) -> str:
    """Return what a form of this session carries: another site cannot compute it."""
    return hashlib.sha256(f"form {session}".encode()).hexdigest()


def is_form_token(session: str, text: str) -> bool:
    """Whether *text* came with a form of this session."""
    return compare_digest(form_token(session).encode(), text.encode())
