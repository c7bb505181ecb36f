"""Events that a profile makes, checked as the service will check them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, get_args, get_type_hints

import msgspec
import msgspec.inspect

from ett_service.core.errors import EttError
from ett_service.importers.importer import WireEvent, clean
from ett_service.ingest.members import DAMAGED
from ett_service.ingest.wire import AnyEvent

STRUCTS: Final[Mapping[str, Any]] = {
    str(struct.__struct_config__.tag): struct for struct in get_args(AnyEvent)
}
ONLY_TEXT: Final = frozenset({str})
_LONGEST_TEXT: Final = 2_000
_MESSAGES: Final = frozenset({"exception", "message", "reason", "scheduler_state"})
_MEMBER = re.compile(r"at `\$\.(\w+)")


class NoEvent(EttError):
    """A line or row does not make the event that its template says; the message says why."""


def checked(event: WireEvent) -> WireEvent:
    """Return an event with its members as the wire has them: texts of digits are numbers.

    Raises:
        NoEvent: where the service would refuse it.
    """
    struct = STRUCTS[event["type"]]
    if "job" not in event:
        raise NoEvent("it has no job: name it with --job, or in the profile's `common`")
    for name in _TEXTS[event["type"]]:
        if name not in event:
            continue
        text = event[name] = clean(str(event[name]), _LONGEST_TEXT)
        if _is_damaged(name, text):
            raise NoEvent(f"bytes of `{name}` are no text: {text[:60]!r}")
    try:
        sent: WireEvent = msgspec.to_builtins(msgspec.convert(event, struct, strict=False))
    except msgspec.ValidationError as error:
        member = _MEMBER.search(str(error))
        value = f" {clean(str(event.get(member[1])), 60)!r}" if member is not None else ""
        raise NoEvent(f"{error}:{value}") from None
    return sent


def checked_member(kind: str, name: str, value: object) -> object:
    """Return a member of events of a *kind* as the wire has it; None where it would be refused."""
    if name in _TEXTS[kind]:
        longest = _LONGEST.get((kind, name), 0)
        if isinstance(value, str) and 0 < len(value) <= longest and _is_plain(value):
            return value
        value = clean(str(value), _LONGEST_TEXT)
        if _is_damaged(name, value):
            return None
    try:
        member = msgspec.convert({"value": value}, _MEMBERS[kind][name], strict=False)
    except msgspec.ValidationError:
        return None
    checked = member.value
    return checked.value if isinstance(checked, Enum) else checked


def are_plain(kind: str, name: str, values: Sequence[Any]) -> bool:
    """Whether values of a member, none of which is empty, are texts that the wire has alike."""
    longest = _LONGEST.get((kind, name), 0) if name in _TEXTS[kind] else 0
    if not longest or not ONLY_TEXT.issuperset(map(type, values)):
        return False
    text = "".join(values)
    is_plain = text.isascii() and text.isprintable() and " " not in text
    return is_plain and max(map(len, values)) <= longest


def fault_of(made: Sequence[WireEvent], expected: Sequence[Mapping[str, Any]]) -> str:
    """Return how events differ from what is expected of them, empty where they do not.

    Members that are not named may be anything.
    """
    is_same = len(made) == len(expected) and all(
        all(_comparable(event.get(name)) == _comparable(value) for name, value in wanted.items())
        for event, wanted in zip(made, expected, strict=True)
    )
    return "" if is_same else f"it becomes {made}, not {expected}"


def _comparable(value: object) -> str:
    """Return a value as text; instants by their value, whatever their zone and digits."""
    if isinstance(value, datetime):
        value = value.isoformat()
    try:
        at = datetime.fromisoformat(str(value))
        return str(at.astimezone(UTC)) if at.tzinfo else str(value)
    except ValueError:
        return str(value)


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and text[0] != " " != text[-1]


def _is_damaged(name: str, text: str) -> bool:
    return DAMAGED in text and name not in _MESSAGES


def _texts_of(struct: Any) -> frozenset[str]:
    """Return the members that are texts, which tables may write as numbers."""
    kind = msgspec.inspect.type_info(struct)
    assert isinstance(kind, msgspec.inspect.StructType)
    return frozenset(each.name for each in kind.fields if _is_text(each.type))


def _is_text(kind: Any) -> bool:
    return isinstance(_bare(kind), msgspec.inspect.StrType)


def _bare(kind: Any) -> Any:
    """Return a type without what is said about it, and without None."""
    while isinstance(kind, msgspec.inspect.Metadata):
        kind = kind.type
    if isinstance(kind, msgspec.inspect.UnionType):
        kinds = [each for each in kind.types if not isinstance(each, msgspec.inspect.NoneType)]
        return _bare(kinds[0]) if len(kinds) == 1 else kind
    return kind


def _longest_of(struct: Any) -> Iterator[tuple[str, int]]:
    """Yield how long its texts may be for which nothing else is asked."""
    for each in msgspec.inspect.type_info(struct).fields:  # type: ignore[attr-defined]
        kind = _bare(each.type)
        if isinstance(kind, msgspec.inspect.StrType) and kind.pattern is None:
            longest = _LONGEST_TEXT if kind.max_length is None else kind.max_length
            if (kind.min_length or 0) <= 1:
                yield each.name, longest


_LONGEST: Final[Mapping[tuple[str, str], int]] = {
    (kind, name): longest
    for kind, struct in STRUCTS.items()
    for name, longest in _longest_of(struct)
}
"""Of texts of which nothing else is asked, by kind and name: their most characters."""

_TEXTS: Final = {name: _texts_of(struct) for name, struct in STRUCTS.items()}
_MEMBERS: Final[Mapping[str, Mapping[str, Any]]] = {
    kind: {
        name: msgspec.defstruct("Member", [("value", hint)])
        for name, hint in get_type_hints(struct, include_extras=True).items()
    }
    for kind, struct in STRUCTS.items()
}
"""By kinds and names, structs of one member: what a type says is taken apart once for a struct."""
