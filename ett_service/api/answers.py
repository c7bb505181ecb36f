"""What all answers share: how a model reads its members, and the types of time, shares and money.

A model reads the attributes of what it describes. ``e2e_seconds`` reads ``e2e_us``, ``made_at``
reads ``made_at`` or ``made_us``, any other member the attribute of its own name; an alias in the
model names an exception. Types divide, once and last: see ``Seconds``.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from functools import cache, reduce
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AliasChoices,
    AliasGenerator,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    create_model,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import core_schema
from sqlalchemy import Row
from starlette.datastructures import MutableHeaders

from ett_service.core.dimensions import Dimension
from ett_service.core.fleet.decomposition import UNITS
from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.core.ledger.results import FORMULA_VERSION
from ett_service.core.words import Category
from ett_service.fleet.scope import Exclusions
from ett_service.fleet.uncertainty import Interval

_SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
}


def add_headers(headers: MutableHeaders, request_id: str) -> None:
    """Add the request id and the safe headers."""
    headers["X-Request-Id"] = request_id
    for name, value in _SAFE_HEADERS.items():
        headers.setdefault(name, value)


def seconds(us: float) -> float:
    """Turn microseconds into seconds."""
    return us / SECOND_US


def finite(number: float | None) -> float | None:
    """Return a number that JSON can hold: it has no infinity."""
    return number if number is not None and math.isfinite(number) else None


def _nonzero(us: Mapping[Category, int]) -> dict[Category, int]:
    return {category: us[category] for category in Category if us.get(category)}


def _sorted_values(where: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    return {name: sorted(values) for name, values in sorted(where.items())}


def _null_if_empty(labels: Mapping[str, str]) -> dict[str, str | None]:
    return {name: value or None for name, value in labels.items()}


Instant = Annotated[
    str,
    BeforeValidator(rfc3339),
    Field(description="RFC 3339 in UTC, six decimals.", json_schema_extra={"format": "date-time"}),
]
"""Read from microseconds since the Unix epoch."""

Seconds = Annotated[
    float, BeforeValidator(seconds), Field(description="Seconds, exact to the microsecond.")
]
"""Read from microseconds."""

WeightedSeconds = Annotated[
    Seconds, Field(description="Seconds times accelerators, where those are known.")
]
Ratio = Annotated[float, Field(description="A ratio from 0 to 1.")]
Finite = Annotated[float | None, BeforeValidator(finite)]
"""Null for what is not finite."""

Points = Annotated[float, BeforeValidator(lambda ratio: 100 * ratio)]
"""Percentage points, read from a ratio."""

PointsOfUnits = Annotated[
    float,
    BeforeValidator(lambda units: units / (UNITS // 100)),
    Field(description="Percentage points of ETT%, ten decimals."),
]
"""Read from the units of a decomposition."""

ByCategory = dict[Category, Seconds]
NonzeroByCategory = Annotated[ByCategory, BeforeValidator(_nonzero)]
"""In the order of the categories, without those that are 0."""

SortedValues = BeforeValidator(_sorted_values)
"""Reads conditions: values by dimension, both in order."""

NullIfEmpty = BeforeValidator(_null_if_empty)
"""Reads labels: an empty text stands for the unknown."""

EmptyIsNull = BeforeValidator(lambda text: text or None)
NextCursor = Annotated[
    str | None, Field(description="Pass it as `cursor` to get the next page; null on the last one.")
]
KeyPrefix = Annotated[str, Field(description="Prefix of a key.")]


@dataclass(frozen=True, slots=True)
class Words:
    """Restricts a text to a closed list that somebody else keeps."""

    words: tuple[str, ...]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.literal_schema(list(self.words))


@dataclass(frozen=True, slots=True)
class Of:
    """Marks a member that no attribute holds: it is computed from what the model reads."""

    compute: Callable[[Any], object]


class Sources:
    """Several objects read as one: given members first, then each object."""

    __slots__ = ("given", "objects")

    def __init__(self, objects: tuple[object, ...], given: Mapping[str, object]) -> None:
        self.objects = objects
        self.given = given

    def __getattr__(self, name: str) -> Any:
        if name in self.given:
            return self.given[name]
        for source in self.objects:
            try:
                return getattr(source, name)
            except AttributeError:
                continue
        raise AttributeError(name)


def _attributes(member: str) -> AliasChoices | str:
    if member.endswith("_seconds"):
        return AliasChoices(f"{member.removesuffix('_seconds')}_us", member)
    if member.endswith("_at"):
        return AliasChoices(member, f"{member.removesuffix('_at')}_us")
    return member


@dataclass(frozen=True, slots=True)
class _Member:
    """Where a member of an answer comes from: it is computed, or the first attribute there is."""

    name: str
    attributes: tuple[str, ...]  #: steps of a path are joined by dots
    compute: Callable[[Any], object] | None

    @classmethod
    def of(cls, name: str, field: FieldInfo) -> "_Member":
        alias = field.validation_alias or name
        compute = next((each.compute for each in field.metadata if isinstance(each, Of)), None)
        if isinstance(alias, AliasPath):
            return cls(name, (".".join(map(str, alias.path)),), compute)
        if isinstance(alias, AliasChoices):
            return cls(name, tuple(map(str, alias.choices)), compute)
        return cls(name, (alias,), compute)


@dataclass(frozen=True, slots=True)
class _Reading:
    """How to read an answer from objects of certain types, decided once for all of them."""

    given: Sequence[tuple[str, str, Sequence[str]]]  #: members, what they are given as, and steps
    attributes: Sequence[tuple[int, Sequence[str], Callable[[object], tuple[object, ...]]]]
    computed: Sequence[tuple[str, Callable[[Any], object]]]
    is_whole: bool  #: whether every member was found

    def values(self, sources: tuple[object, ...], given: Mapping[str, object]) -> dict[str, object]:
        values: dict[str, object] = {}
        for place, names, read in self.attributes:
            values.update(zip(names, read(sources[place]), strict=True))
        for name, head, steps in self.given:
            values[name] = reduce(getattr, steps, given[head])
        if self.computed:
            source = sources[0] if len(sources) == 1 and not given else Sources(sources, given)
            for name, compute in self.computed:
                values[name] = compute(source)
        return values


def _reading(
    members: Iterable[_Member], sources: tuple[object, ...], given: Mapping[str, object]
) -> _Reading:
    named, computed, missing = [], [], 0
    attributes: dict[int, list[tuple[str, str]]] = {}
    for member in members:
        if member.compute is not None and member.name not in given:
            computed.append((member.name, member.compute))
            continue
        for attribute in member.attributes:
            head, *steps = attribute.split(".")
            if head in given:
                named.append((member.name, head, steps))
                break
            place = _place(sources, attribute)
            if place is not None:
                attributes.setdefault(place, []).append((member.name, attribute))
                break
        else:
            missing += 1
    readers = [
        (place, [name for name, _ in pairs], _reader([attribute for _, attribute in pairs]))
        for place, pairs in attributes.items()
    ]
    return _Reading(named, readers, computed, is_whole=not missing)


def _place(sources: tuple[object, ...], attribute: str) -> int | None:
    """Return which source has the attribute."""
    read = attrgetter(attribute)
    for place, source in enumerate(sources):
        with suppress(AttributeError):
            read(source)
            return place
    return None


def _reader(attributes: Sequence[str]) -> Callable[[object], tuple[object, ...]]:
    read = attrgetter(*attributes)
    if len(attributes) == 1:
        return lambda source: (read(source),)
    return read


def _shape(source: object) -> object:
    """Return what tells objects of other attributes from this one; None where nothing does."""
    kind: Any = type(source)
    if _has_fixed_attributes(kind):
        return kind
    return source._fields if isinstance(source, Row) else None


@cache
def _has_fixed_attributes(kind: Hashable) -> bool:
    return is_dataclass(kind) or isinstance(getattr(kind, "_fields", None), tuple)


class Answer(BaseModel):
    """What every answer has in common: it can say nothing that is not declared."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        from_attributes=True,
        validate_by_name=True,
        alias_generator=AliasGenerator(validation_alias=_attributes),
    )
    _members: ClassVar[tuple[_Member, ...]] = ()
    _readings: ClassVar[dict[object, _Reading]] = {}

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls._members = tuple(_Member.of(name, field) for name, field in cls.model_fields.items())
        if any(member.compute for member in cls._members) and not issubclass(cls, ComputedAnswer):
            raise TypeError(f"{cls.__name__} has computed members, so it is a ComputedAnswer")
        cls._readings = {}

    @classmethod
    def of(cls, *sources: object, **members: object) -> Self:
        """Read an answer from the attributes of *sources*; *members* go before them."""
        return cls.model_validate(cls._values(sources, members))

    @classmethod
    def _values(cls, sources: tuple[object, ...], given: Mapping[str, object]) -> dict[str, object]:
        shapes = tuple(map(_shape, sources))
        key = None if None in shapes else (shapes, tuple(given))
        reading = cls._readings.get(key)
        if reading is not None:
            try:
                return reading.values(sources, given)
            except AttributeError:  # a step of a path is None here
                pass
        reading = _reading(cls._members, sources, given)
        if key is not None and reading.is_whole:
            cls._readings[key] = reading
        return reading.values(sources, given)


class ComputedAnswer(Answer):
    """An answer with members that are ``Of`` what it reads.

    Others have pydantic read their attributes, which is faster.
    """

    @model_validator(mode="before")
    @classmethod
    def _compute(cls, source: Any) -> Any:
        if isinstance(source, (dict, Answer)):
            return source
        if isinstance(source, Sources):
            return cls._values(source.objects, source.given)
        return cls._values((source,), {})


def with_facts(base: type[ComputedAnswer], *names: str) -> Any:
    """Return *base* with a member for each of these facts in words, behind its own."""
    members: dict[str, Any] = dict.fromkeys(names, (str | None, ...))
    return create_model(f"{base.__name__}WithFacts", __base__=base, **members)


def scaled(factor: float) -> BeforeValidator:
    """Read an interval in units of which *factor* make one of the answer's."""

    def scale(interval: Interval | None) -> dict[str, float] | None:
        if interval is None:
            return None
        return {"low": interval.low * factor, "high": interval.high * factor}

    return BeforeValidator(scale)


class IntervalAnswer(Answer):
    """The bounds of a value at the level `confidence`."""

    low: float
    high: float


def start_of(window: str = "") -> Any:
    """Read the start of a window, of the source's own or of its attribute *window*."""
    path = AliasPath(window, "from_us") if window else "from_us"
    return Field(serialization_alias="from", validation_alias=path)


def end_of(window: str = "") -> Any:
    """Read the end of a window."""
    return Field(validation_alias=AliasPath(window, "to_us") if window else "to_us")


class QuestionAnswer(Answer):
    """The question as it was understood. Windows are on full hours."""

    from_: Instant = start_of()
    to: Instant = end_of()
    as_of: Instant = Field(description="When the answer was computed.")
    formula_version: int = FORMULA_VERSION
    group_by: list[Dimension]
    where: Annotated[dict[Dimension, list[str]], SortedValues] = Field(
        description="Empty text stands for unknown."
    )
    exclusions: Exclusions


class OfCohorts(Answer):
    """An answer about a group of cohorts."""

    group: Annotated[dict[Dimension, str | None], NullIfEmpty] = Field(
        validation_alias="labels", description="The cohorts; null where unknown."
    )
    other: bool = Field(
        description="The cohorts beyond the daily cap, whose dimensions are not kept."
    )


class OfAJob(Answer):
    """An answer about one job, from all of its life."""

    job: str
    as_of: Instant
