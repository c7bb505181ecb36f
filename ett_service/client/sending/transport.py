"""One HTTP exchange, on the standard library: no redirects, a deadline, bounded answers."""

import encodings.idna  # noqa: F401 -- a fork while a thread first looks it up would lose it
import gzip
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from io import BufferedReader
from typing import Any, cast

ANSWER_LIMIT = 1 << 20
"""Bytes of an answer that are read unless the caller asks for more."""

_CHUNK = 1 << 16
_HEAD_LIMIT = 1 << 15  #: bytes; while a longer head is parsed, no other thread would run for long


class Unreachable(OSError):
    """No complete answer came back; the message names the address and what went wrong."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message  #: without the address


class NoAddress(Unreachable):
    """What was given is no address of the web, whatever may be up or down."""


class MalformedKey(Unreachable):
    """The key has characters that no header can carry."""


@dataclass(frozen=True, slots=True)
class Response:
    """What the server said, whatever its status. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def content_type(self) -> str:
        """The media type alone, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def problem(self) -> str:
        """What a problem document (RFC 9457) says, in one line; without one, the status."""
        try:
            document = json.loads(self.body)
            detail = document.get("detail") or ""
            faults = [
                _fault(fault, is_explained=bool(detail))
                for fault in document.get("errors", ())
                if f": {fault['code']}." not in detail  # of a parameter, which detail then names
            ]
            return " ".join(filter(None, [f"{document['title']}.", detail, *faults]))
        except (ValueError, KeyError, TypeError, AttributeError):
            return f"the server answered with status {self.status}"


def _fault(fault: Mapping[str, Any], *, is_explained: bool) -> str:
    text = f"{fault['pointer']}: {fault['code']}."
    allowed = fault.get("allowed")
    if is_explained or not allowed:
        return text
    words = allowed if isinstance(allowed, str) else f"It may be {', '.join(allowed)}"
    return f"{text} {words.removesuffix('.')}."


def request(
    method: str,
    url: str,
    key: str | None = None,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    timeout: float = 10.0,
    answer_limit: int = ANSWER_LIMIT,
) -> Response:
    """Send one request and return the answer, redirects and errors included.

    The key travels in the ``Authorization`` header only. ``timeout`` is in seconds, for the
    connection and again for the whole answer. Raises ``Unreachable``, also as ``NoAddress`` and
    ``MalformedKey``.
    """
    if not _is_web(url):
        raise NoAddress(f"{url} is not an http or https address")
    sent = urllib.request.Request(url, data=body, headers=dict(headers or {}), method=method)  # noqa: S310 -- checked above
    if key:
        sent.add_unredirected_header("Authorization", f"Bearer {key}")
    try:
        return _exchange(sent, timeout, answer_limit)
    except ValueError:
        # http.client refuses a malformed header in words that would show the key.
        raise MalformedKey(f"{method} {url}: the key has characters that no key has") from None
    except (OSError, HTTPException) as error:
        reason = _reason(error)
        raise Unreachable(f"{method} {url}: {reason}", reason) from None


def compressed(body: bytes) -> bytes:
    """Return *body* as gzip, at a level that costs a trainer's core little."""
    return gzip.compress(body, compresslevel=3, mtime=0)


def _is_web(url: str) -> bool:
    try:
        return urllib.parse.urlsplit(url).scheme in ("http", "https")
    except ValueError:  # brackets around what is no address
        return False


def _opener() -> urllib.request.OpenerDirector:
    """Build an opener that returns every status and follows nothing.

    A redirect would carry the key to a host that nobody named.
    """
    opener = urllib.request.OpenerDirector()
    opener.add_handler(urllib.request.ProxyHandler())
    opener.add_handler(_OverTcp())
    opener.add_handler(_OverTls())
    return opener


class _Head:
    """Reads the lines of an answer up to its body, and no more than the limit."""

    def __init__(self, file: BufferedReader) -> None:
        self._file = file
        self._left = _HEAD_LIMIT

    def readline(self, size: int = -1) -> bytes:
        line = self._file.readline(size)
        self._left -= len(line)
        if self._left < 0:
            raise HTTPException(f"the head of the answer is longer than {_HEAD_LIMIT} bytes")
        return line


class _Answer(HTTPResponse):
    """An answer whose head is bounded."""

    def begin(self) -> None:
        whole = self.fp
        self.fp = cast("BufferedReader", _Head(whole))
        try:
            super().begin()
        finally:
            self.fp = whole


class _TcpConnection(HTTPConnection):
    response_class = _Answer


class _TlsConnection(HTTPSConnection):
    response_class = _Answer


class _OverTcp(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_TcpConnection, req)


class _OverTls(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_TlsConnection, req)


def _exchange(sent: urllib.request.Request, timeout: float, answer_limit: int) -> Response:
    deadline = time.monotonic() + timeout
    with _opener().open(sent, timeout=timeout) as answer:
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return Response(answer.status, headers, _read(answer, answer_limit, deadline))


def _read(answer: HTTPResponse, limit: int, deadline: float) -> bytes:
    parts: list[bytes] = []
    left = limit
    while part := answer.read1(_CHUNK):
        left -= len(part)
        if left < 0:
            raise OSError(f"the answer is longer than {limit} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError("the answer took too long")
        parts.append(part)
    return b"".join(parts)


def _reason(error: Exception) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate cannot be verified: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError) and cause.reason == "WRONG_VERSION_NUMBER":
        return "it does not speak TLS there: http:// instead of https:// may be right"
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
