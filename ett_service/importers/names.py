"""Names as events can have them, made from what logs call things."""

import re
import unicodedata

from ett_service.core.intervals import rfc3339

_LONGEST_JOB = 200
_NO_JOBS = ("", ".", "..")
_DAMAGED = "\ufffd"


def word(text: str, longest: int = 200) -> str:
    """Return *text* as members of events can have it: one printable line; it may be empty."""
    safe = (each if each.isprintable() and each != _DAMAGED else " " for each in text)
    return unicodedata.normalize("NFC", "".join(safe)).strip()[:longest].strip()


def job_name(text: str, otherwise: str) -> str:
    """Return *text* as a job can be called, without ``/``; *otherwise* where none is left."""
    name = word(text.replace("/", "-"), _LONGEST_JOB)
    return otherwise if name in _NO_JOBS else name


def launch_name(begin_us: int) -> str:
    """Name a launch that its log does not name, by its begin: ``20260801T120000.000000Z``."""
    return re.sub(r"[-:]", "", rfc3339(begin_us))
