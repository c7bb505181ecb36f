"""One event: from the bytes on the wire to what is kept."""

import re
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from ett_service.core.event import EVENT_TYPES, Event
from ett_service.ingest.fault import fault_of
from ett_service.ingest.ids import derived_id
from ett_service.ingest.members import read_members
from ett_service.ingest.reading import Frame
from ett_service.ingest.refusal import Code, Fault, Refusal
from ett_service.ingest.wire import AnyEvent, SentEvent
from ett_service.storage.body import encode_body

_SENT: msgspec.json.Decoder[SentEvent] = msgspec.json.Decoder(AnyEvent)
_ANY = msgspec.json.Decoder()


class _Named(msgspec.Struct):
    id: str | None = None


_ID = msgspec.json.Decoder(_Named)
_CAN_BE_AN_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")


@dataclass(frozen=True, slots=True)
class Arrival:
    """An event that can be kept, and the job that it belongs to."""

    index: int  #: its place in the batch
    job: str
    event: Event
    body: str  #: its canonical content, but for its type

    @property
    def content(self) -> tuple[str, str]:
        """What it says: its type and its body."""
        return self.event.type, self.body


def arrival(index: int, job: str, event: Event) -> Arrival:
    """Make an event ready to be kept, with an id derived from its content if it has none."""
    if not event.id:
        event = replace(event, id=derived_id(event))
    return Arrival(index, job, event, encode_body(event))


def read_event(raw: bytes, index: int, frame: Frame, producer: str | None) -> Arrival | Refusal:
    """Read the event at place *index*; one that names no producer takes the batch's."""
    try:
        sent = _decoded(raw, frame.limits.max_event_bytes)
        members = _members(sent, frame)
    except Fault as fault:
        return Refusal(fault.code, f"/events/{index}{fault.pointer}", index, _id_in(raw))
    members.setdefault("producer", producer)
    job = members.pop("job")
    return arrival(index, job, EVENT_TYPES[_type_of(sent)](**members))


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


def _members(sent: SentEvent, frame: Frame) -> dict[str, Any]:
    """Return what was sent, by the names and in the types of the core; null is left out."""
    members = {"id": "", **read_members(sent, frame)}
    _leave_out_what_says_nothing(_type_of(sent), members)
    return members


def _leave_out_what_says_nothing(kind: str, members: dict[str, Any]) -> None:
    if kind in ("job", "job_ended"):
        for name in ("launch", "attempt", "cycle"):
            members.pop(name, None)
    elif kind != "attempt_ended" and members.get("cycle") == 0:
        del members["cycle"]


def _type_of(sent: SentEvent) -> str:
    return str(sent.__struct_config__.tag)


def _id_in(raw: bytes) -> str | None:
    """Return the id of an event that was refused, so that its sender can find it."""
    try:
        found = _ID.decode(raw).id
    except (msgspec.DecodeError, RecursionError):
        return None
    return found if found is not None and _CAN_BE_AN_ID.fullmatch(found) else None
