"""The scope of a question about the fleet: whose time, which window, grouped by what."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ett_service.core.dimensions import GROUPS
from ett_service.core.errors import EttError
from ett_service.core.intervals import DAY_US, HOUR_US, MONDAY_US, WEEK_US
from ett_service.storage.fleet.rollups import CohortFilter


class BadQuestion(EttError):
    """A part of a question that cannot be answered: which one, and what it may be instead."""

    def __init__(self, parameter: str, code: str, allowed: str | Collection[str]) -> None:
        """*allowed* is a list of words, or a sentence where they cannot be listed."""
        self.parameter = parameter
        self.code = code
        self.allowed = allowed if isinstance(allowed, str) else list(allowed)
        sentence = allowed if isinstance(allowed, str) else f"It may be {', '.join(allowed)}."
        super().__init__(f"`{parameter}`: {code}. {sentence}")


STEPS: dict[str, int] = {"1h": HOUR_US, "1d": DAY_US, "1w": WEEK_US}
"""Steps in microseconds: hours and days of UTC, and ISO weeks, which begin on Monday."""

MOST_POINTS = 10_000


class Window(NamedTuple):
    """From an instant to before another, both on full hours."""

    from_us: int
    to_us: int


def window(from_us: int | None, to_us: int | None, now_us: int) -> Window:
    """Widen what was asked for to full hours; by default the week up to the end of this hour.

    Raises:
        BadQuestion: It ends before it begins.
    """
    end = _up(now_us if to_us is None else to_us)
    start = end - WEEK_US if from_us is None else from_us // HOUR_US * HOUR_US
    if start > end or (from_us is not None and to_us is not None and from_us > to_us):
        raise BadQuestion(
            "from", "from_after_to", "It may not be after `to`, which is now if left out."
        )
    return Window(start, end)


def bucket_starts(window: Window, step: int) -> range:
    """Return where the buckets begin that have a part in the window; the first may lie before it.

    Raises:
        BadQuestion: There are more than ``MOST_POINTS``.
    """
    first = window.from_us - (window.from_us - MONDAY_US) % step
    starts = range(first, window.to_us, step)
    if len(starts) > MOST_POINTS:
        raise BadQuestion(
            "step", "too_many_points", f"It may cut the window into at most {MOST_POINTS} points."
        )
    return starts


def _up(us: int) -> int:
    return -(-us // HOUR_US) * HOUR_US


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
    def constant_labels(self) -> dict[str, str]:
        """The labels that every cohort has because of the question."""
        return {name: next(iter(values)) for name, values in self.where.items() if len(values) == 1}

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
        _require_dimension(name, parameter)
    if len(set(names)) < len(names):
        raise BadQuestion(parameter, "repeated_dimension", "Each dimension may be given once.")
    return names


def where(conditions: Sequence[str], parameter: str = "where") -> dict[str, frozenset[str]]:
    """Read ``team:a``: a dimension, a colon and a value, which is empty for the unknown.

    Raises:
        BadQuestion: There is no colon, the dimension is unknown, or it is too much.
    """
    if len(conditions) > MOST_CONDITIONS:
        raise BadQuestion(
            parameter, "too_many", f"It may be given at most {MOST_CONDITIONS} times."
        )
    values_of: defaultdict[str, set[str]] = defaultdict(set)
    for condition in conditions:
        name, colon, value = condition.partition(":")
        if not colon:
            raise BadQuestion(parameter, "no_colon", "It must be a dimension, a colon and a value.")
        _require_dimension(name, parameter)
        if len(value) > MOST_CHARACTERS or "\x00" in value:
            raise BadQuestion(
                parameter, "bad_value", f"A value has up to {MOST_CHARACTERS} characters, no NUL."
            )
        values_of[name].add(value)
    return {name: frozenset(values) for name, values in values_of.items()}


def _require_dimension(name: str, parameter: str) -> None:
    if name not in GROUPS:
        raise BadQuestion(parameter, "unknown_dimension", GROUPS)
