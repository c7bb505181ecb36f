"""From what the decoder gives to members as they are kept.

What a type of the wire cannot say the readers of ``ett_service.ingest.reading`` do; the type
names its reader with the word after ``reads``.
"""

from functools import cache
from typing import Any, get_args, get_type_hints

from msgspec import Struct

from ett_service.ingest.fault import escape
from ett_service.ingest.reading import READERS, Frame, Reader
from ett_service.ingest.refusal import Fault


def read_members(sent: Struct, frame: Frame) -> dict[str, Any]:
    """Return what was sent by the names of the struct's fields; null is left out.

    Raises ``Fault``, which points at the member by its name on the wire.
    """
    members: dict[str, Any] = {}
    for name, wire_name, reader in _readers_of(type(sent)):
        value = getattr(sent, name)
        if value is None:
            continue
        if reader is not None:
            try:
                value = reader(value, frame)
            except Fault as fault:
                raise Fault(fault.code, f"/{escape(wire_name)}{fault.pointer}") from fault
        members[name] = value
    return members


@cache
def _readers_of(kind: type[Struct]) -> tuple[tuple[str, str, Reader | None], ...]:
    hints = get_type_hints(kind, include_extras=True)
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    return tuple((name, wire_name, _reader_of(hints[name])) for name, wire_name in names)


def _reader_of(hint: Any) -> Reader | None:
    for each in (hint, *get_args(hint)):
        for meta in getattr(each, "__metadata__", ()):
            if meta.extra is not None:
                return READERS[meta.extra["reads"]]
    return None
