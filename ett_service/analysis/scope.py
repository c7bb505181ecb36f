"""Whose time a question is about, and what it is grouped by."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from ett_service.analysis.question import BadQuestion
from ett_service.storage.rollups import CohortFilter

Dimension = Literal[
    "project", "team", "model", "cluster", "hardware", "precision", "kind", "size", "code_version"
]
GROUPS: tuple[str, ...] = get_args(Dimension)
"""What the fleet can be grouped by and cut down to."""

MOST_CONDITIONS = 100
MOST_CHARACTERS = 300

Exclusions = Literal["left_out", "included"]


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose time: of which projects, of which cohorts, with or without what was excluded."""

    project_ids: tuple[int, ...] | None = None  #: None for all projects
    where: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Values by dimension, any of which will do; ``""`` is unknown."""
    group_by: tuple[str, ...] = ()
    exclusions: Exclusions = "left_out"

    @property
    def cohorts(self) -> CohortFilter:
        """The cohorts that are meant, as storage asks for them."""
        return CohortFilter(self.project_ids, self.where, self.exclusions == "included")


def group_by(text: str | None, parameter: str = "group_by") -> tuple[str, ...]:
    """Read ``team,model``.

    Raises:
        BadQuestion: A dimension is unknown, or named twice.
    """
    names = tuple(name.strip() for name in text.split(",")) if text else ()
    for name in names:
        _known(name, parameter)
    if len(set(names)) < len(names):
        raise BadQuestion(parameter, "repeated_dimension", "Each dimension may stand once.")
    return names


def where(conditions: Sequence[str], parameter: str = "where") -> dict[str, frozenset[str]]:
    """Read ``team:a``: a dimension, a colon and a value, which is empty for the unknown.

    Raises:
        BadQuestion: There is no colon, the dimension is unknown, or it is too much.
    """
    if len(conditions) > MOST_CONDITIONS:
        raise BadQuestion(parameter, "too_many", f"It may stand {MOST_CONDITIONS} times.")
    found: defaultdict[str, set[str]] = defaultdict(set)
    for condition in conditions:
        name, colon, value = condition.partition(":")
        if not colon:
            raise BadQuestion(parameter, "no_colon", "It is a dimension, a colon and a value.")
        _known(name, parameter)
        if len(value) > MOST_CHARACTERS or "\x00" in value:
            raise BadQuestion(
                parameter, "bad_value", f"A value has up to {MOST_CHARACTERS} characters, no NUL."
            )
        found[name].add(value)
    return {name: frozenset(values) for name, values in found.items()}


def _known(name: str, parameter: str) -> None:
    if name not in GROUPS:
        raise BadQuestion(parameter, "unknown_dimension", GROUPS)
