"""Log lines as text or JSON, on stderr, without the secrets that may have got into them."""

import json
import logging
import re
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal, TextIO

HIDDEN = "***"

_SECRET_NAMES = frozenset(
    {"api_key", "apikey", "authorization", "cookie", "key_text", "password", "secret", "token"}
)
_SECRETS: tuple[tuple[re.Pattern[str], str], ...] = (
    # The first twelve characters of a key are its public name.
    (re.compile(r"\b(ett_[0-9A-Za-z]{8})[0-9A-Za-z]{8,}"), rf"\1{HIDDEN}"),
    (re.compile(r"\bwhsec_[0-9A-Za-z+/=]{8,}"), f"whsec_{HIDDEN}"),
    (
        re.compile(
            r"(authorization\W{1,5})(?:(?:basic|bearer|digest)\s+)?[^\s'\"]+", re.IGNORECASE
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"\b(bearer)\s+[\w.~+/=-]{8,}", re.IGNORECASE), rf"\1 {HIDDEN}"),
    (re.compile(r"(://[^\s/:@]*):[^\s/]+@"), rf"\1:{HIDDEN}@"),
    (
        re.compile(
            r"\b(api_?key|passw(?:or)?d|secret|token)(['\"]?\s*[=:]\s*['\"]?)[^\s'\"&,;]+",
            re.IGNORECASE,
        ),
        rf"\1\2{HIDDEN}",
    ),
)
#: What each of them has; nearly no line does, and one look is faster than six.
_SUSPICIOUS = re.compile(
    r"ett_|whsec_|authorization|bearer|://|api_?key|passw|secret|token", re.IGNORECASE
)
_OF_EVERY_RECORD = frozenset(
    {*vars(logging.makeLogRecord({})), "asctime", "message", "color_message"}
)
#: Loggers that report each of their own steps, of which ours report what matters.
_TALKATIVE = ("alembic", "uvicorn.error")


_MINUTE_S = 60.0

_log = logging.getLogger(__name__)


def redact(text: str) -> str:
    """Return *text* with API keys, passwords and authorizations blotted out."""
    if _SUSPICIOUS.search(text):
        for pattern, replacement in _SECRETS:
            text = pattern.sub(replacement, text)
    return text


def configure(level: str, form: Literal["text", "json"], stream: TextIO | None = None) -> None:
    """Send the log of the whole process to *stream* (stderr), as the only handler."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    handler.addFilter(Outages())
    handler.addFilter(WithoutSecrets())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel("NOTSET" if level == "debug" else "WARNING")
    logging.captureWarnings(capture=True)


def catch_all() -> None:
    """Log the tracebacks that would be written to stderr beside the log."""

    def of_thread(hook: threading.ExceptHookArgs) -> None:
        error = hook.exc_value or hook.exc_type()
        _log.critical("A thread failed.", exc_info=error, extra={"event": "crashed"})

    def of_process(_: type[BaseException], error: BaseException, __: TracebackType | None) -> None:
        _log.critical("The process failed.", exc_info=error, extra={"event": "crashed"})

    def unraisable(hook: "sys.UnraisableHookArgs") -> None:
        text = hook.err_msg or "Exception ignored in"
        _log.error("%s: %r", text, hook.object, exc_info=hook.exc_value, extra={"event": "ignored"})

    threading.excepthook, sys.excepthook, sys.unraisablehook = of_thread, of_process, unraisable


class Outages(logging.Filter):
    """Tells of a database that is unavailable in one line a minute, without a traceback.

    Threads that retry and every request that is refused would report the same.
    """

    def __init__(self) -> None:
        super().__init__()
        self._quiet_until = 0.0
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Let other lines pass, and of an outage the first of a minute."""
        error = record.exc_info[1] if record.exc_info else None
        is_outage = getattr(error, "is_outage", False)
        if not is_outage and getattr(record, "event", "") != "storage_unavailable":
            return True
        if record.created < self._quiet_until:
            self._left_out += 1
            return False
        if is_outage:
            record.msg, record.args = f"{_message(record)} {error}", ()
            record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.left_out = self._left_out
        self._left_out, self._quiet_until = 0, record.created + _MINUTE_S
        return True


class WithoutSecrets(logging.Filter):
    """Blots secrets out of message, arguments, extras and traceback of every record."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redact(_message(record)), ()
        for name, value in _extras(record).items():
            setattr(record, name, _without_secrets(name, value))
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = redact(record.exc_text)
        if record.stack_info:
            record.stack_info = redact(record.stack_info)
        return True


class TextLines(logging.Formatter):
    """``instant LEVEL logger: message name=value``; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        extras = "".join(f" {name}={_word(value)}" for name, value in _extras(record).items())
        line = f"{_instant(record)} {record.levelname} {record.name}: {_one_line(record)}{extras}"
        return "\n".join([line, *_traces(record)])


class JsonLines(logging.Formatter):
    """One JSON object a line; extras are members of their own."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            **_extras(record),
            "at": _instant(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if traces := _traces(record):
            line["trace"] = "\n".join(traces)
        return json.dumps(line, default=str)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        # A call whose arguments do not fit its format must not break the caller.
        return f"{record.msg} {record.args!r}"


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _OF_EVERY_RECORD}


def _without_secrets(name: str, value: object) -> object:
    if name.lower() in _SECRET_NAMES:
        return HIDDEN
    if isinstance(value, Mapping):
        return {str(key): _without_secrets(str(key), item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_without_secrets("", item) for item in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return redact(str(value))


def _instant(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")


def _one_line(record: logging.LogRecord) -> str:
    return record.getMessage().replace("\r", "\\r").replace("\n", "\\n")


def _word(value: object) -> str:
    text = str(value)
    plain = text.isprintable() and not any(mark in text for mark in ' "=')
    return text if plain and text else json.dumps(text)


def _traces(record: logging.LogRecord) -> list[str]:
    return [text for text in (record.exc_text, record.stack_info) if text]
