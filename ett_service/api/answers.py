"""What all answers share: how a model reads its members, and the types of time, shares and money.

A model reads the attributes of what it describes. ``e2e_seconds`` reads ``e2e_us``, ``made_at``
reads ``made_at`` or ``made_us``, any other member the attribute of its own name; an alias in the
model names an exception. Types divide, once and last: see ``Seconds``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    model_validator,
)
from pydantic_core import core_schema
from starlette.datastructures import MutableHeaders

from ett_service.core.dimensions import Dimension
from ett_service.core.intervals import SECOND_US, rfc3339
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

Ratio = Annotated[float, Field(description="A ratio from 0 to 1.")]
Finite = Annotated[float | None, BeforeValidator(finite)]
"""Null for what is not finite."""

Points = Annotated[float, BeforeValidator(lambda ratio: 100 * ratio)]
"""Percentage points, read from a ratio."""

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
    """Several objects read as one: given members first, then computed ones, then each object."""

    __slots__ = ("_computed", "_given", "_objects")

    def __init__(
        self,
        objects: tuple[object, ...],
        given: Mapping[str, object],
        computed: Mapping[str, Callable[[Any], object]] | None = None,
    ) -> None:
        self._objects = objects
        self._given = given
        self._computed = computed or {}

    def computing(self, computed: Mapping[str, Callable[[Any], object]]) -> "Sources":
        """Return the same with computed members."""
        return Sources(self._objects, self._given, computed)

    def __getattr__(self, name: str) -> Any:
        if name in self._given:
            return self._given[name]
        if name in self._computed:
            return self._computed[name](Sources(self._objects, self._given))
        for source in self._objects:
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


def _names_of(attributes: AliasChoices | str) -> Sequence[str]:
    if isinstance(attributes, str):
        return (attributes,)
    return [str(choice) for choice in attributes.choices]


class Answer(BaseModel):
    """What every answer has in common: it can say nothing that is not declared."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        from_attributes=True,
        alias_generator=AliasGenerator(validation_alias=_attributes),
    )
    _computed: ClassVar[Mapping[str, Callable[[Any], object]]] = {}

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls._computed = {
            attribute: each.compute
            for name, field in cls.model_fields.items()
            for each in field.metadata
            if isinstance(each, Of)
            for attribute in (name, *_names_of(_attributes(name)))
        }

    @classmethod
    def of(cls, *sources: object, **members: object) -> Self:
        """Read an answer from the attributes of *sources*; *members* go before them."""
        return cls.model_validate(Sources(sources, members))

    @model_validator(mode="before")
    @classmethod
    def _compute(cls, source: Any) -> Any:
        if not cls._computed or isinstance(source, (dict, Answer)):
            return source
        if isinstance(source, Sources):
            return source.computing(cls._computed)
        return Sources((source,), {}, cls._computed)


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


class AskedAnswer(Answer):
    """The question as it was understood. Windows are on full hours."""

    from_: Instant = start_of()
    to: Instant = end_of()
    as_of: Instant = Field(description="When the answer was computed.")
    group_by: list[Dimension]
    where: Annotated[dict[Dimension, list[str]], SortedValues] = Field(
        description="Empty text stands for unknown."
    )
    exclusions: Exclusions
