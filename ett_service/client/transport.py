"""One HTTP exchange, on the standard library: no redirects, a deadline, bounded answers."""

import gzip
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from typing import IO, Protocol

ANSWER_LIMIT = 1 << 20
"""Bytes of an answer that are read unless the caller asks for more."""

_CHUNK = 1 << 16


class Unreachable(OSError):
    """No complete answer came back; the message names the address and what went wrong."""


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


class _Readable(Protocol):
    def read1(self, n: int = -1, /) -> bytes: ...


class _KeepRedirects(urllib.request.HTTPRedirectHandler):
    """Following a redirect would carry the key to a host that nobody named."""

    def redirect_request(  # noqa: PLR0913 -- the signature is urllib's
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        return None


def request(  # noqa: PLR0913 -- one exchange has these parts, and callers name them
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
    connection and again for the whole answer. Raises ``Unreachable``.
    """
    scheme = urllib.parse.urlsplit(url).scheme
    if scheme not in ("http", "https"):
        message = f"{url} is not an http or https address"
        raise Unreachable(message)
    sent = urllib.request.Request(url, data=body, headers=dict(headers or {}), method=method)  # noqa: S310 -- the scheme was checked above
    if key:
        sent.add_unredirected_header("Authorization", f"Bearer {key}")
    opener = urllib.request.build_opener(_KeepRedirects)
    try:
        return _exchange(opener, sent, timeout, answer_limit)
    except (OSError, HTTPException, ValueError) as error:
        # ValueError is http.client's word for a header it refuses; its text would show the key.
        reason = "a header is malformed" if type(error) is ValueError else _reason(error)
        message = f"{method} {url}: {reason}"
        raise Unreachable(message) from None


def compressed(body: bytes) -> bytes:
    """Return *body* as gzip, at a level that costs a trainer's core little."""
    return gzip.compress(body, compresslevel=3, mtime=0)


def _exchange(
    opener: urllib.request.OpenerDirector,
    sent: urllib.request.Request,
    timeout: float,
    answer_limit: int,
) -> Response:
    deadline = time.monotonic() + timeout
    try:
        with opener.open(sent, timeout=timeout) as answer:
            body = _read(answer, answer_limit, deadline)
            return Response(answer.status, _lowered(answer.headers), body)
    except urllib.error.HTTPError as error:
        with error:
            body = _read(error.fp, answer_limit, deadline)
            return Response(error.code, _lowered(error.headers), body)


def _read(answer: _Readable, limit: int, deadline: float) -> bytes:
    parts: list[bytes] = []
    left = limit
    while part := answer.read1(_CHUNK):
        left -= len(part)
        if left < 0:
            message = f"the answer is longer than {limit} bytes"
            raise OSError(message)
        if time.monotonic() > deadline:
            message = "the answer took too long"
            raise TimeoutError(message)
        parts.append(part)
    return b"".join(parts)


def _lowered(headers: HTTPMessage) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _reason(error: Exception) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate does not verify: {cause.verify_message}"
    return str(cause) or type(cause).__name__
