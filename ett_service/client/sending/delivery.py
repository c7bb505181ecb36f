"""Handing a piece of a spool to the server, and judging what it said."""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from ett_service.client.sending import transport

MAX_EVENTS = 1000
MAX_BYTES = 1 << 20

_GZIP_FROM = 2048
_RETRY_CAP = 3600.0
_BUSY = (":rate-limited", ":overloaded")


class Fate(Enum):
    """What became of a batch."""

    SETTLED = auto()  #: every event has its final verdict
    LATER = auto()  #: the server is away: the same again, after a while
    BUSY = auto()  #: the server takes others first, and says when to come back
    FORBIDDEN = auto()  #: the key may not write: nothing will do until that changes
    ASTRAY = auto()  #: this address takes no events: likewise
    REFUSED = auto()  #: not in this form: in halves, and one alone never


BLOCKED = frozenset({Fate.FORBIDDEN, Fate.ASTRAY})
"""Somebody has to change something before trying again makes sense."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where events go."""

    url: str
    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one exchange, or several, came to."""

    fate: Fate
    accepted: int = 0
    duplicate: int = 0
    refused: tuple[tuple[bytes, str], ...] = ()
    wait_seconds: float | None = None  #: as the server asked
    reason: str = ""
    epoch: str = ""  #: of the store that settled it
    finished: Mapping[str, object] = field(default_factory=dict)
    """Jobs that were so before an attempt in it began, with the outcome of their ``job_ended``."""

    def __add__(self, other: "Verdict") -> "Verdict":
        """Put the verdicts of two halves together; the one that is not settled decides."""
        worse = self if self.fate is not Fate.SETTLED else other
        return Verdict(
            worse.fate,
            self.accepted + other.accepted,
            self.duplicate + other.duplicate,
            self.refused + other.refused,
            worse.wait_seconds,
            worse.reason,
            other.epoch or self.epoch,
            {**self.finished, **other.finished},
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """Some lines of one producer, as they are to be sent."""

    lines: Sequence[bytes]
    producer: str
    sent_at: str | None  #: on the producer's own clock; None where nobody can read that any more
    dropped: Mapping[str, int] = field(default_factory=dict)

    def body(self, batch_id: str) -> bytes:
        """Write the batch as JSON; the lines go in as they are."""
        head: dict[str, object] = {"batch_id": batch_id, "producer": self.producer}
        if self.sent_at:
            head["sent_at"] = self.sent_at
        if self.dropped:
            head["dropped"] = dict(self.dropped)
        return json.dumps(head).encode()[:-1] + b',"events":[' + b",".join(self.lines) + b"]}"


def deliver(target: Target, batch: Batch, timeout: float = 10.0) -> Verdict:
    """Send a batch; what is refused as a whole is tried in halves, down to the one at fault."""
    verdict = _post(target, batch, timeout)
    if verdict.fate is not Fate.REFUSED:
        return verdict
    if len(batch.lines) == 1:
        return Verdict(Fate.SETTLED, refused=((batch.lines[0], verdict.reason),))
    middle = len(batch.lines) // 2
    first = deliver(target, _part(batch, batch.lines[:middle], batch.dropped), timeout)
    if first.fate is not Fate.SETTLED:
        return first
    return first + deliver(target, _part(batch, batch.lines[middle:], {}), timeout)


def _part(batch: Batch, lines: Sequence[bytes], dropped: Mapping[str, int]) -> Batch:
    return Batch(lines, batch.producer, batch.sent_at, dropped)


def _post(target: Target, batch: Batch, timeout: float) -> Verdict:
    batch_id = secrets.token_hex(16)
    body = batch.body(batch_id)
    headers = {"Content-Type": "application/json"}
    if len(body) >= _GZIP_FROM:
        body = transport.compressed(body)
        headers["Content-Encoding"] = "gzip"
    url = target.url.rstrip("/") + "/v1/events"
    try:
        answer = transport.request("POST", url, target.key, body, headers, timeout=timeout)
    except transport.NoAddress:
        reason = f"{target.url} is not an http or https address"
        return Verdict(Fate.ASTRAY, reason=reason)
    except transport.MalformedKey:
        return Verdict(Fate.FORBIDDEN, reason="ETT_API_KEY has characters that no key has")
    except transport.Unreachable as error:
        return Verdict(Fate.LATER, reason=f"{target.url} cannot be reached ({error.reason})")
    return judge(answer, batch.lines, batch_id)


def judge(answer: transport.Response, lines: Sequence[bytes], batch_id: str) -> Verdict:
    """Return the fate of a batch from the answer.

    Only the service itself can settle or refuse one: an answer that does not echo the batch or
    is no problem document comes from something in between, and nothing is thrown away for it.
    """
    members = _members(answer)
    reason = f"the server answered {answer.status}"
    if title := members.get("title"):
        reason = f"{reason}: {title}"
    if answer.status in (200, 422) and members.get("batch_id") == batch_id:
        return _settled(members, lines)
    if answer.status in (400, 413, 415, 422) and "problem" in answer.content_type:
        return Verdict(Fate.REFUSED, reason=reason)
    if answer.status == 413:  # noqa: PLR2004 -- a proxy's own limit
        return Verdict(Fate.REFUSED if len(lines) > 1 else Fate.LATER, reason=reason)
    wait_seconds = _retry_after(answer)
    if wait_seconds is not None and _is_busy(answer.status, members):
        return Verdict(Fate.BUSY, wait_seconds=wait_seconds, reason=reason)
    return Verdict(_fate(answer.status), wait_seconds=wait_seconds, reason=reason)


def _is_busy(status: int, members: Mapping[str, object]) -> bool:
    return status in (429, 503) and str(members.get("type")).endswith(_BUSY)


def _fate(status: int) -> Fate:
    if status in (401, 403):
        return Fate.FORBIDDEN
    redirected = 300 <= status < 400  # noqa: PLR2004 -- HTTP's own range
    return Fate.ASTRAY if redirected or status in (404, 405) else Fate.LATER


def _settled(members: Mapping[str, object], lines: Sequence[bytes]) -> Verdict:
    counts = [members.get(name) for name in ("accepted", "duplicate", "rejected")]
    accepted, duplicate, rejected = (n if isinstance(n, int) else -1 for n in counts)
    errors = members.get("errors")
    if accepted + duplicate + rejected != len(lines) or not isinstance(errors, list):
        return Verdict(Fate.LATER, reason="the server's counts do not add up")
    refused = tuple(
        (lines[error["index"]], f"{error.get('code')} {error.get('pointer', '')}".strip())
        for error in errors
        if isinstance(error, dict) and error.get("index") in range(len(lines))
    )
    epoch = members.get("store_epoch")
    named = epoch if isinstance(epoch, str) else ""
    before = members.get("finished")
    finished = before if isinstance(before, dict) else {}
    return Verdict(Fate.SETTLED, accepted, duplicate, refused, epoch=named, finished=finished)


def _members(answer: transport.Response) -> dict[str, object]:
    if not answer.content_type.endswith("json"):
        return {}
    try:
        members = json.loads(answer.body)
    except ValueError:
        return {}
    return members if isinstance(members, dict) else {}


def _retry_after(answer: transport.Response) -> float | None:
    text = answer.headers.get("retry-after", "").strip()
    return min(float(text), _RETRY_CAP) if text.isascii() and text.isdigit() else None
