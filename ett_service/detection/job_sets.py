"""Sets of attempts that somebody names to have them compared."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from ett_service.analysis.question import BadQuestion
from ett_service.analysis.scope import MOST_CHARACTERS, MOST_CONDITIONS
from ett_service.core.cohort import DIMENSIONS
from ett_service.core.span import NEVER

JOB = "job"
NAMES = (*DIMENSIONS, JOB)


@dataclass(frozen=True, slots=True)
class JobSet:
    """Attempts of these dimensions, jobs and time; what is empty or None asks nothing."""

    where: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Values by dimension, any of which will do; ``""`` is unknown."""
    jobs: tuple[str, ...] = ()  #: patterns of names, as ``nightly-*``
    from_us: int | None = None  #: of attempts that start at or after
    to_us: int | None = None  #: or before

    def holds(self, job: str, values: Mapping[str, str], started_us: int) -> bool:
        """Tell whether an attempt is in the set."""
        return (
            (self.from_us is None or started_us >= self.from_us)
            and (self.to_us is None or started_us < self.to_us)
            and all(values.get(name, "") in wanted for name, wanted in self.where.items())
            and (not self.jobs or any(fnmatchcase(job, pattern) for pattern in self.jobs))
        )

    @property
    def begins_us(self) -> int:
        """Before which none of its attempts starts."""
        return -NEVER if self.from_us is None else self.from_us


def job_set(
    conditions: Sequence[str], window: tuple[int | None, int | None], parameter: str
) -> JobSet:
    """Read conditions as ``code_version:4.2`` or ``job:nightly-*``, split at the first colon.

    Raises:
        BadQuestion: There is no colon, the name is unknown, or it is too much, or the window ends
            before it begins.
    """
    if len(conditions) > MOST_CONDITIONS:
        raise BadQuestion(parameter, "too_many", f"It may stand {MOST_CONDITIONS} times.")
    found: defaultdict[str, set[str]] = defaultdict(set)
    for condition in conditions:
        name, colon, value = condition.partition(":")
        if not colon:
            raise BadQuestion(parameter, "no_colon", "It is a dimension, a colon and a value.")
        if name not in NAMES:
            raise BadQuestion(parameter, "unknown_dimension", NAMES)
        if len(value) > MOST_CHARACTERS or "\x00" in value:
            raise BadQuestion(
                parameter, "bad_value", f"A value has up to {MOST_CHARACTERS} characters, no NUL."
            )
        found[name].add(value)
    patterns = tuple(sorted(found.pop(JOB, ())))
    from_us, to_us = window
    if from_us is not None and to_us is not None and from_us >= to_us:
        raise BadQuestion(f"{parameter}_from", "from_after_to", "It is to be before the end.")
    where = {name: frozenset(values) for name, values in found.items()}
    return JobSet(where, patterns, from_us, to_us)
