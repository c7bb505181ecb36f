"""Sends one delivery with one signed request, and tells how that went."""

import ssl
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpcore2
from standardwebhooks import Webhook

from ett_service.core.intervals import SECOND_US
from ett_service.notifications.connection import Deadline, GuardedNetwork
from ett_service.notifications.formats import render
from ett_service.notifications.guard import NONE_ALLOWED, Allowed, Guard, Refused, Resolve, resolve
from ett_service.notifications.notice import Notice, Status
from ett_service.notifications.routing import OF_SETTINGS, Format, Receiver
from ett_service.storage.receivers.deliveries import DeliveryTry


def signed(delivery_id: str, body: bytes, secrets: Iterable[str], now_us: int) -> dict[str, str]:
    """Return the headers of a delivery: its id, when it is sent, and a signature by each secret.

    While a secret is replaced both sign, so that a receiver may change over when it likes. Secrets
    are base64, ``whsec_`` before them or not.

    Raises:
        ValueError: A secret is not base64.
    """
    seconds = now_us // SECOND_US
    at = datetime.fromtimestamp(seconds, tz=UTC)
    text = body.decode()
    signatures = [Webhook(secret).sign(delivery_id, at, text) for secret in secrets]
    headers = {"webhook-id": delivery_id, "webhook-timestamp": str(seconds)}
    return headers | ({"webhook-signature": " ".join(signatures)} if signatures else {})


MOST_ANSWER_BYTES = 64 << 10
_SAID_LENGTH = 200
_ASKS_TO_WAIT = frozenset({429, 503})
_GONE = 410
_SUCCESS = range(200, 300)
_TIMES_RESEND = 4


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one request went; without an answer ``status`` is None."""

    status: int | None
    said: str  #: how the answer began, fit to be shown, or what went wrong
    took_us: int = 0
    retry_after_us: int | None = None

    @property
    def is_success(self) -> bool:
        """Whether the receiver took it; one that sends us elsewhere did not."""
        return self.status in _SUCCESS

    @property
    def is_gone(self) -> bool:
        """Whether the receiver wants nothing any more."""
        return self.status == _GONE

    def tried(self, ended_us: int) -> DeliveryTry:
        """Return what the delivery keeps of it."""
        return DeliveryTry(ended_us - self.took_us, self.took_us, self.status, self.said)


@dataclass(frozen=True, slots=True)
class Sending:
    """What requests go by."""

    connect_seconds: float = 5.0
    total_seconds: float = 15.0
    resend_us: int = 60 * SECOND_US
    allowed: Allowed = NONE_ALLOWED  #: to receivers made by API, beside what is public


class Sender:
    """Sends deliveries, from any number of threads.

    It follows no redirect, takes no proxy from the environment, checks certificates by *trust*,
    and reads no more of an answer than it keeps.
    """

    def __init__(
        self,
        sending: Sending | None = None,
        *,
        trust: ssl.SSLContext | None = None,
        resolve: Resolve = resolve,
    ) -> None:
        self._sending = sending or Sending()
        self._trust = trust or httpcore2.default_ssl_context()
        self._resolve = resolve

    @property
    def longest_seconds(self) -> float:
        """How long one request takes at most."""
        return self._sending.total_seconds

    def guard(self, receiver: Receiver) -> Guard:
        """Return what says where *receiver* may be."""
        return Guard(receiver.owner != OF_SETTINGS, self._sending.allowed)

    def check(self, receiver: Receiver) -> None:
        """Look whether *receiver* is where requests may go by now.

        Raises:
            Refused: It is not.
        """
        guard = self.guard(receiver)
        to = guard.destination(receiver.url)
        try:
            answers = self._resolve(to.host, to.port)
        except OSError:
            raise Refused("The host has no address.") from None
        guard.addresses(to.host, answers)

    def send(self, receiver: Receiver, delivery_id: str, notice: Notice, now_us: int) -> Outcome:
        """Send *notice*; whatever befalls the request is told, and not raised."""
        began = time.perf_counter()
        try:
            outcome = self._asked(receiver, delivery_id, notice, now_us)
        except Refused as refused:
            outcome = Outcome(None, str(refused))
        except (httpcore2.TimeoutException, httpcore2.NetworkError) as error:
            outcome = Outcome(None, str(error))
        except httpcore2.ProtocolError:
            outcome = Outcome(None, "The connection ended without an answer of HTTP.")
        return replace(outcome, took_us=round((time.perf_counter() - began) * SECOND_US))

    def _asked(self, receiver: Receiver, delivery_id: str, notice: Notice, now_us: int) -> Outcome:
        guard = self.guard(receiver)
        to = guard.destination(receiver.url)
        rendered = render(self._lasting(notice, receiver, now_us), receiver)
        headers = {
            "Host": _authority(to.host, to.port, to.scheme),
            "User-Agent": "ett-service",
            "Accept-Encoding": "identity",
            "Connection": "close",
            "Content-Length": str(len(rendered.body)),
            **rendered.headers,
            **signed(delivery_id, rendered.body, _signing(receiver), now_us),
        }
        url = httpcore2.URL(scheme=to.scheme, host=to.host, port=to.port, target=to.target)
        request = httpcore2.Request(
            "POST",
            url,
            headers=list(headers.items()),
            content=rendered.body,
            extensions={"timeout": {"connect": self._sending.connect_seconds}},
        )
        deadline = Deadline(self._sending.total_seconds)
        network = GuardedNetwork(guard, self._resolve, deadline)
        with httpcore2.HTTPConnection(
            url.origin, ssl_context=self._trust, network_backend=network
        ) as connection:
            response = connection.handle_request(request)
            return _outcome(response, now_us)

    def _lasting(self, notice: Notice, receiver: Receiver, now_us: int) -> Notice:
        """Have Alertmanager keep what fires until well after it is told again."""
        if not repeats(receiver, notice):
            return notice
        return replace(notice, ends_us=now_us + _TIMES_RESEND * self._sending.resend_us)


def repeats(receiver: Receiver, notice: Notice) -> bool:
    """Tell whether *receiver* forgets *notice* unless it is told again and again."""
    return receiver.format is Format.ALERTMANAGER and notice.status is Status.FIRING


def _signing(receiver: Receiver) -> tuple[str, ...]:
    """Return what signs; PagerDuty's secret is its routing key, and stands in the body."""
    return () if receiver.format is Format.PAGERDUTY else receiver.secrets


def _authority(host: str, port: int, scheme: str) -> str:
    written = f"[{host}]" if ":" in host else host
    is_default = port == (443 if scheme == "https" else 80)
    return written if is_default else f"{written}:{port}"


def _outcome(response: httpcore2.Response, now_us: int) -> Outcome:
    wait_us = None
    if response.status in _ASKS_TO_WAIT:
        wait_us = retry_after_us(_header(response, b"retry-after"), now_us)
    return Outcome(response.status, shown(_beginning(response)), retry_after_us=wait_us)


def _beginning(response: httpcore2.Response) -> bytes:
    """Read as much of the answer as is kept: its status has been decided upon."""
    read = bytearray()
    try:
        for chunk in response.iter_stream():
            read += chunk
            if len(read) >= MOST_ANSWER_BYTES:
                break
    except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError):
        pass
    return bytes(read[:MOST_ANSWER_BYTES])


def shown(answer: bytes) -> str:
    """Return how *answer* begins, with what could do more than be read in escapes."""
    text = answer[: _SAID_LENGTH * 4].decode("utf-8", "replace")[:_SAID_LENGTH]
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def retry_after_us(header: str | None, now_us: int) -> int | None:
    """Read ``Retry-After``, seconds or a date; None where it says neither."""
    if not header:
        return None
    if header.isascii() and header.isdigit():
        return int(header[:9]) * SECOND_US
    try:
        at = parsedate_to_datetime(header)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(int(at.timestamp()) * SECOND_US - now_us, 0)


def _header(response: httpcore2.Response, name: bytes) -> str | None:
    found = [value for key, value in response.headers if key.lower() == name]
    return found[0].decode("ascii", "replace").strip() if found else None
