"""From a request's body to events, keeping the good ones of a batch with bad ones."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ett_service.core.events import Event
from ett_service.ingest.envelope import inflate, read_lines, read_object, require_utf8
from ett_service.ingest.refusals import (
    BadBatch,
    BodyTooLarge,
    Code,
    Fault,
    MalformedBody,
    Refusal,
    UnsupportedMedia,
    fault_of,
)
from ett_service.ingest.text import Frame, parse_instant, read_members, text
from ett_service.ingest.wire import AnyEvent, EventBatch, Limits, SentEvent
from ett_service.storage.record.events import (
    EventContent,
    decode_body,
    encode_members,
    encode_rest,
    members_of,
)

CLUSTER_OF_LAUNCH = "slurm.cluster.name"
"""The attribute that says of which cluster an event's launch is: two of them may count alike."""

_LENGTH = 40
_NO_ATTRIBUTES: Mapping[str, Any] = {}


_SENT: msgspec.json.Decoder[SentEvent] = msgspec.json.Decoder(AnyEvent)
_ANY = msgspec.json.Decoder()
_ANY_RAW = msgspec.json.Decoder(msgspec.Raw)


class _Named(msgspec.Struct):
    id: str | None = None


_ID = msgspec.json.Decoder(_Named)
_CAN_BE_AN_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """An event that can be kept, and the job that it belongs to."""

    index: int  #: its place in the batch
    job: str
    id: str
    type: str
    at: int
    producer: str | None
    body: str  #: the rest of its canonical content, as its row has it
    launch: str = ""  #: as sent, also where the event itself has none
    cluster: str = ""  #: of the launch, where it says that

    @property
    def content(self) -> EventContent:
        """What it says beside its id: its type, its instant and its body."""
        return self.type, self.at, self.body

    @property
    def event(self) -> Event:
        """The event itself, made anew at each call: as text it takes the least."""
        return decode_body(self.type, self.id, self.at, self.body)


def arrival(index: int, job: str, event: Event) -> Arrival:
    """Make an event ready to be kept, with an id derived from its content if it has none."""
    return _arrival(index, job, event.type, members_of(event), event.launch)


def _arrival(
    index: int, job: str, kind: str, members: dict[str, Any], launch: str, cluster: str = ""
) -> Arrival:
    name = members["id"]
    if not name:
        name = members["id"] = _derived_id(kind, encode_members(kind, members))
    at, producer = members["at"], members.get("producer")
    body = encode_rest(kind, members)
    return Arrival(index, job, name, kind, at, producer, body, launch, cluster)


def _derived_id(kind: str, content: str) -> str:
    """Return the id that says what the event says: the same content always has the same one."""
    return hashlib.sha256(f"{kind}\n{content}".encode()).hexdigest()[:_LENGTH]


def read_event(raw: bytes, index: int, frame: Frame, producer: str | None) -> Arrival | Refusal:
    """Read the event at place *index*; one that names no producer takes the batch's."""
    try:
        sent = _decoded(raw, frame.limits.max_event_bytes)
        members = read_members(sent, frame)
    except Fault as fault:
        return Refusal(fault.code, f"/events/{index}{fault.pointer}", index, _id_in(raw))
    kind = _type_of(sent)
    launch = members.get("launch", "")
    cluster = members.get("attributes", _NO_ATTRIBUTES).get(CLUSTER_OF_LAUNCH) if launch else None
    _leave_out_what_says_nothing(kind, members)
    members.setdefault("id", "")
    if producer is not None:
        members.setdefault("producer", producer)
    job = members.pop("job")
    return _arrival(
        index, job, kind, members, launch, "" if cluster is None else str(cluster).casefold()
    )


def _decoded(raw: bytes, most: int) -> SentEvent:
    if len(raw) > most:
        raise Fault(Code.TOO_LARGE)
    try:
        return _SENT.decode(raw)
    except RecursionError as error:
        raise Fault(Code.TOO_DEEP) from error
    except msgspec.ValidationError as error:
        return _decoded_by_last_keys(raw, error)
    except msgspec.DecodeError as error:
        raise Fault(Code.MALFORMED_JSON) from error


def _decoded_by_last_keys(raw: bytes, error: msgspec.ValidationError) -> SentEvent:
    """Try again without all but the last of duplicate keys, each of which was looked at above."""
    try:
        return _SENT.decode(msgspec.json.encode(_ANY.decode(raw)))
    except (msgspec.DecodeError, RecursionError):
        raise fault_of(error) from error


def _leave_out_what_says_nothing(kind: str, members: dict[str, Any]) -> None:
    if kind in ("job", "job_ended"):
        for name in ("launch", "attempt", "cycle"):
            members.pop(name, None)
    elif kind != "attempt_ended" and members.get("cycle") == 0:
        del members["cycle"]


def _type_of(sent: SentEvent) -> str:
    return sent.__struct_config__.tag  # type: ignore[return-value]


def _id_in(raw: bytes) -> str | None:
    """Return the id of an event that was refused, so that its sender can find it."""
    try:
        event_id = _ID.decode(raw).id
    except (msgspec.DecodeError, RecursionError):
        return None
    return event_id if event_id is not None and _CAN_BE_AN_ID.fullmatch(event_id) else None


@dataclass(frozen=True, slots=True)
class Batch:
    """What one request brought; instants are microseconds since the Unix epoch."""

    arrivals: tuple[Arrival, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    batch_id: str | None = None
    sent_at: int | None = None
    history: bool = False
    dropped: Mapping[str, int] = field(default_factory=dict)


def read_made(events: Iterable[Mapping[str, Any]], frame: Frame) -> Batch:
    """Read events that were made from another format; what the wire refuses is refused here."""
    read = [
        read_event(msgspec.json.encode(event), index, frame, None)
        for index, event in enumerate(events)
    ]
    return Batch(
        arrivals=tuple(each for each in read if isinstance(each, Arrival)),
        refusals=tuple(each for each in read if isinstance(each, Refusal)),
    )


def decode(body: bytes, headers: Mapping[str, str], *, now_us: int, limits: Limits) -> Batch:
    """Read a request's *body* as its *headers* say, whatever case their names are in.

    Raises ``Refused``, in one of its kinds, where the request as a whole cannot be taken.
    """
    named = _joined(headers.items())
    media = _media_type(named.get("content-type", ""))
    if len(body) > limits.max_body_bytes:
        raise BodyTooLarge("bytes", limits.max_body_bytes)
    body = inflate(body, named.get("content-encoding", ""), limits.max_inflated_bytes)
    require_utf8(body)
    frame = Frame(limits, now_us)
    if media == "application/json":
        about, raws = read_object(body, limits.max_batch_events)
        return _whole_json(_batch(about, raws, frame), raws)
    about, raws = read_lines(body, named, limits.max_batch_events)
    batch = _batch(about, raws, frame)
    if raws and _is_nowhere_json(batch):
        raise MalformedBody("No line of the body is JSON.")
    return batch


def _whole_json(batch: Batch, raws: list[bytes]) -> Batch:
    """Pass a *batch* that is JSON from its begin to its end: what was refused may not be."""
    for refusal in batch.refusals:
        try:
            _ANY_RAW.decode(raws[refusal.index or 0])
        except RecursionError:
            continue
        except msgspec.DecodeError as error:
            raise MalformedBody("The body is not JSON.") from error
    return batch


def _is_nowhere_json(batch: Batch) -> bool:
    garbled = all(each.code is Code.MALFORMED_JSON for each in batch.refusals)
    return garbled and not batch.arrivals


def _joined(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Join headers that were sent more than once: two encodings are not one."""
    joined: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined


def _media_type(value: str) -> str:
    media, _, parameters = value.partition(";")
    charset = parameters.strip().lower().replace('"', "")
    if charset not in ("", "charset=utf-8") or media.strip().lower() not in (
        "application/json",
        "application/x-ndjson",
    ):
        raise UnsupportedMedia("Content-Type may be application/json or application/x-ndjson.")
    return media.strip().lower()


def _batch(about: EventBatch, raws: list[bytes], frame: Frame) -> Batch:
    sent_at = _checked_about(about, frame)
    read = [read_event(raw, index, frame, about.producer) for index, raw in enumerate(raws)]
    return Batch(
        arrivals=tuple(each for each in read if isinstance(each, Arrival)),
        refusals=tuple(each for each in read if isinstance(each, Refusal)),
        batch_id=about.batch_id,
        sent_at=sent_at,
        history=bool(about.history),
        dropped=about.dropped or {},
    )


def _checked_about(about: EventBatch, frame: Frame) -> int | None:
    """Check what the types of the batch's own members cannot say; returns when it was sent."""
    member = ""
    try:
        for member in ("batch_id", "producer"):
            text(getattr(about, member) or "", frame)
        member = "sent_at"
        return None if about.sent_at is None else parse_instant(about.sent_at)
    except Fault as fault:
        raise BadBatch(Refusal(fault.code, f"/{member}")) from fault
