"""Templates of events, taken apart once; what a member may be is checked once for each value.

A line or row becomes the events of some templates. Which of their members it has follows from which
of its values are empty. For each such case the first line is made slowly, and a recipe is learned
from what came of it: where each member stands among the values. The others follow the recipe.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from types import NoneType
from typing import Any, Final

from ett_service.core.intervals import SECOND_US
from ett_service.importers.importer import WireEvent
from ett_service.importers.logs.checked_events import are_plain, checked_member

Template = dict[str, Any]
Values = Sequence[Any]
"""What the groups or columns of one line hold; None or empty where they hold nothing."""
Column = Sequence[Any]
"""What one group or column holds in many lines."""

INSTANTS: Final[tuple[str, ...]] = ("at", "start", "submitted_at")
LENGTHS: Final = {"duration_us": 1, "duration_ms": 1_000, "duration_s": SECOND_US}
_MOST_KNOWN: Final = 10_000
_MOST_RECIPES: Final = 1_000
_EMPTY: Final = frozenset({None, ""})
_FOLLOWED: Final = frozenset({str, int, NoneType, datetime})
"""Types of values that a recipe is for: truths would pass for numbers, which they equal."""

Known = dict[str, dict[object, object]]
"""By member, of values that were checked before, what they are on the wire."""


@dataclass(slots=True)
class Shape:
    """A template, taken apart once."""

    literals: Template
    taken: list[tuple[str, str]]  #: members, and the groups or columns that they are taken from
    nested: dict[str, "Shape"]
    instants: list[str]
    lengths: list[tuple[str, int]]

    @property
    def is_plain(self) -> bool:
        """Whether each member that is not the same in all events follows from one value."""
        taken = {name for name, _ in self.taken}
        is_placed = taken.issuperset(self.instants)
        return is_placed and not self.nested and not any(name in LENGTHS for name in self.names)

    @property
    def names(self) -> set[str]:
        """The members that an event may have."""
        return {*self.literals, *self.nested, *(name for name, _ in self.taken)}

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
        return cls(literals, [*taken.items()], nested, instants, lengths)

    def filled(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the members that are not empty; *values* by their groups or columns."""
        members = dict(self.literals)
        for name, source in self.taken:
            value = whole(values.get(source))
            if value is not None and value != "":
                members[name] = value
        for name, shape in self.nested.items():
            members[name] = shape.filled(values)
        return members


def whole(value: object) -> object:
    """Return a value of a table: it writes whole numbers as floats, and nothing as nan."""
    if isinstance(value, float):
        return None if math.isnan(value) else int(value) if value.is_integer() else value
    return value


@dataclass(slots=True)
class _Member:
    """A member of some events that was checked for each of its values."""

    place: int  #: of its value
    name: str
    known: dict[object, object]
    kind: str  #: of the events

    def learned(self, value: object) -> object:
        """Check a value; None where it is wrong."""
        if value.__class__ is not str and value.__class__ is not int:
            return None
        member = checked_member(self.kind, self.name, value)
        if member is not None:
            if len(self.known) >= _MOST_KNOWN:
                self.known.clear()
            self.known[value] = member
        return member

    def found(self, column: Column) -> Column:
        """Return what values of many lines are on the wire; None where one is wrong."""
        if are_plain(self.kind, self.name, column):
            return column
        found = list(map(self.known.get, column))
        if None in found:
            for place, member in enumerate(found):
                if member is None:
                    found[place] = self.learned(column[place])
        return found


def emptiness(column: Column) -> Iterable[bool | None]:
    """Return which values are empty; None stands for one of a type that no recipe is for."""
    if _FOLLOWED.issuperset(map(type, column)):
        return map(_EMPTY.__contains__, column)
    return [value in _EMPTY if type(value) in _FOLLOWED else None for value in column]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the values of a line become its events, where all of them were checked before."""

    members: list[tuple[int, dict[object, object], _Member]]  #: place of its value, what is known
    instants: list[int]  #: places of values
    events: list[tuple[WireEvent, list[tuple[str, int]]]]  #: one, and what others have in its place

    def followed(
        self, taken: Sequence[object], written: Callable[[Any], str]
    ) -> list[WireEvent] | None:
        """Return the events, with instants as *written* has them; None where a value is odd."""
        members = []
        for place, known, member in self.members:
            value = taken[place]
            found = known.get(value)
            if found is None and (found := member.learned(value)) is None:
                return None
            members.append(found)
        members += [written(taken[place]) for place in self.instants]
        events = []
        for example, sources in self.events:
            event = example.copy()
            for name, number in sources:
                event[name] = members[number]
            events.append(event)
        return events

    def followed_alike(
        self, taken: Sequence[Column], written: Callable[[Column], Column]
    ) -> list[Sequence[WireEvent] | None]:
        """Return the events of many lines, by columns of their values; None where one is odd."""
        members = [member.found(taken[place]) for place, _, member in self.members]
        members += [written(taken[place]) for place in self.instants]
        by_template = []
        for example, sources in self.events:
            events = [example.copy() for _ in taken[0]]
            for name, number in sources:
                for event, value in zip(events, members[number], strict=True):
                    event[name] = value
            by_template.append(events)
        made: list[Sequence[WireEvent] | None] = [*zip(*by_template, strict=True)]
        made = made or [()] * len(taken[0])
        for column in members:
            if None in column:
                made = [None if at is None else each for at, each in zip(column, made, strict=True)]
        return made

    @classmethod
    def of(
        cls, made: Sequence[tuple[Shape, WireEvent, Known]], present: Mapping[str, int]
    ) -> "Recipe | None":
        """Learn it from events that are right; *present* are the places of values not empty.

        None where an event lacks a member that has a value.
        """
        members: dict[object, _Member] = {}
        instants: dict[object, int] = {}
        keys_of_events: list[dict[str, object]] = []
        for shape, event, known in made:
            taken = {name: present[source] for name, source in shape.taken if source in present}
            if not taken.keys() <= event.keys():
                return None
            keys: dict[str, object] = {}
            for name, place in taken.items():
                if name in INSTANTS:
                    keys[name] = place
                    instants[place] = place
                else:
                    keys[name] = key = (id(known[name]), place)
                    members.setdefault(key, _Member(place, name, known[name], event["type"]))
            keys_of_events.append(keys)
        numbers = {key: number for number, key in enumerate([*members, *instants])}
        events = [
            (_with_room(event), [(name, numbers[key]) for name, key in keys.items()])
            for (_, event, _), keys in zip(made, keys_of_events, strict=True)
        ]
        looked_up = [(member.place, member.known, member) for member in members.values()]
        return cls(looked_up, [*instants.values()], events)


def _with_room(event: WireEvent) -> WireEvent:
    """Return a copy whose copies take an id without being moved to a larger table."""
    copy = {**event, "id": ""}
    del copy["id"]
    return copy


@dataclass(slots=True)
class Recipes:
    """Of the shapes of one kind of lines, by which values are empty."""

    shapes: list[Shape]
    pick: Callable[[Values], tuple[Any, ...]]  #: the values that they take
    sources: tuple[str, ...]  #: and whence
    is_plain: bool
    by_empty: dict[tuple[bool, ...], Recipe | None] = field(default_factory=dict)

    @classmethod
    def of(cls, shapes: list[Shape], places: Mapping[str, int]) -> "Recipes":
        """Take the shapes, and the *places* of values by their groups or columns."""
        sources = tuple({source for shape in shapes for _, source in shape.taken})
        is_plain = len(sources) > 1 and all(shape.is_plain for shape in shapes)
        pick: Any = itemgetter(*[places[source] for source in sources]) if is_plain else tuple
        return cls(shapes, pick, sources, is_plain)

    def followed(self, values: Values, written: Callable[[Any], str]) -> list[WireEvent] | None:
        """Return the events of a line, None where there is no recipe for it."""
        if not self.is_plain:
            return None
        taken = self.pick(values)
        if not _FOLLOWED.issuperset(map(type, taken)):
            return None
        recipe = self.by_empty.get(tuple(map(_EMPTY.__contains__, taken)))
        return None if recipe is None else recipe.followed(taken, written)

    def followed_alike(
        self,
        columns: Sequence[Column],
        is_empty: Sequence[bool | None],
        written: Callable[[Column], Column],
    ) -> list[Sequence[WireEvent] | None] | None:
        """Return the events of lines of which the same columns are empty, else as above."""
        recipe = self.by_empty.get(self.pick(is_empty))
        return None if recipe is None else recipe.followed_alike(self.pick(columns), written)

    def learn(
        self, values: Values, made: Sequence[WireEvent | None], known: Callable[[str], Known]
    ) -> None:
        """Learn from the events that the shapes made of a line, in their order."""
        if not self.is_plain:
            return
        taken = self.pick(values)
        if not _FOLLOWED.issuperset(map(type, taken)):
            return
        empty = tuple(map(_EMPTY.__contains__, taken))
        if empty in self.by_empty:
            return
        present = {source: place for place, source in enumerate(self.sources) if not empty[place]}
        right = [
            (shape, event, known(event["type"]))
            for shape, event in zip(self.shapes, made, strict=True)
            if event is not None
        ]
        if len(self.by_empty) >= _MOST_RECIPES:
            self.by_empty.clear()
        self.by_empty[empty] = Recipe.of(right, present)
