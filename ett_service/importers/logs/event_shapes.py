"""Templates of events, taken apart once; what a member may be is checked once for each value."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ett_service.core.intervals import SECOND_US
from ett_service.importers.importer import WireEvent
from ett_service.importers.logs.checked_events import NoEvent, checked

Template = dict[str, Any]
Values = Mapping[str, Any]
"""What the groups or columns of one line hold; None or empty where they hold nothing."""

INSTANTS: Final[tuple[str, ...]] = ("at", "start", "submitted_at")
LENGTHS: Final = {"duration_us": 1, "duration_ms": 1_000, "duration_s": SECOND_US}
_MOST_KNOWN: Final = 10_000

Known = dict[str, dict[object, object]]
"""By member, of values that were checked before, what they are on the wire."""


@dataclass(slots=True)
class Shape:
    """A template, taken apart once."""

    literals: Template
    taken: list[tuple[str, str]]  #: members, and the groups or columns that they are taken from
    placed: list[tuple[str, str]]  #: those of them that are instants
    checked: list[tuple[str, str]]  #: and those that are not
    nested: dict[str, "Shape"]
    instants: list[str]
    lengths: list[tuple[str, int]]
    proven: Template | None = None  #: the literals of an event that had all members and was right
    example: WireEvent = field(default_factory=dict)  #: that event

    @property
    def is_plain(self) -> bool:
        """Whether each member follows from one value."""
        return not self.nested and not any(name in LENGTHS for name, _ in self.taken)

    def remembered(self, values: Values, known: Known) -> WireEvent | None:
        """Return the event without its instants if each of its members was checked before."""
        if self.proven is None:
            return None
        event = dict(self.proven)
        for name, source in self.placed:
            if not (value := values.get(source)):
                return None
            event[name] = value
        for name, source in self.checked:
            value = values.get(source)
            if value.__class__ is not str and value.__class__ is not int:
                return None
            member = known[name].get(value)
            if member is None:
                member = self._learned(name, value, known)
            if member is None:
                return None
            event[name] = member
        return event

    def _learned(self, name: str, value: object, known: Known) -> object:
        """Check one member in the event that was right, None where it is empty or wrong."""
        try:
            member = checked({**self.example, name: value}).get(name) if value != "" else None
        except NoEvent:
            return None
        if len(known[name]) >= _MOST_KNOWN:
            known[name].clear()
        known[name][value] = member
        return member

    def learn(self, event: WireEvent) -> None:
        """Remember an *event* that is right, if it has all members."""
        taken = {name for name, _ in self.taken}
        if taken <= event.keys():
            self.example = event
            self.proven = {name: value for name, value in event.items() if name not in taken}

    @classmethod
    def of(cls, template: Template) -> "Shape":
        nested = {
            name: cls.of(value) for name, value in template.items() if isinstance(value, dict)
        }
        taken = {
            name: value[1:]
            for name, value in template.items()
            if isinstance(value, str) and value[:1] == "$"
        }
        literals = {
            name: value
            for name, value in template.items()
            if name not in nested and name not in taken and value not in (None, "")
        }
        instants = [name for name in INSTANTS if name in template]
        lengths = [] if "start" in template else [*LENGTHS.items()]
        placed = [each for each in taken.items() if each[0] in INSTANTS]
        others = [each for each in taken.items() if each[0] not in INSTANTS]
        return cls(literals, [*taken.items()], placed, others, nested, instants, lengths)

    def filled(self, values: Values) -> dict[str, Any]:
        """Return the members that are not empty."""
        members = dict(self.literals)
        for name, source in self.taken:
            value = _taken(values.get(source))
            if value is not None and value != "":
                members[name] = value
        for name, shape in self.nested.items():
            members[name] = shape.filled(values)
        return members


def _taken(value: object) -> object:
    """Return a value of a table: it writes whole numbers as floats, and nothing as nan."""
    if isinstance(value, float):
        return None if math.isnan(value) else int(value) if value.is_integer() else value
    return value
