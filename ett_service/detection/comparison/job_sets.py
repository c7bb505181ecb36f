"""Sets of attempts to compare: how they are asked for, and which attempts are in them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from sqlalchemy import Connection

from ett_service.core.dimensions import DIMENSIONS, WHOLE_JOB_DIMENSIONS
from ett_service.core.events import Exclusion
from ett_service.core.ledger.attempts.spans import NEVER
from ett_service.detection.comparison.drawing import Drawn, draw
from ett_service.fleet.scope import MOST_CHARACTERS, MOST_CONDITIONS, BadQuestion
from ett_service.storage.regressions.observations import ObservedAttempt, ObservedJob, cohort_of

JOB = "job"
NAMES = (*DIMENSIONS, JOB)


@dataclass(frozen=True, slots=True)
class JobSet:
    """Attempts of these dimensions, jobs and time; empty or None is no condition."""

    where: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Values by dimension, any of which fits; ``""`` is unknown."""
    jobs: tuple[str, ...] = ()  #: patterns of names like ``nightly-*``
    from_us: int | None = None  #: of attempts that start at or after
    to_us: int | None = None  #: or before

    def holds(self, job: str, values: Mapping[str, str], started_us: int) -> bool:
        """Whether an attempt is in the set."""
        return (
            (self.from_us is None or started_us >= self.from_us)
            and (self.to_us is None or started_us < self.to_us)
            and all(values.get(name, "") in allowed for name, allowed in self.where.items())
            and (not self.jobs or any(fnmatchcase(job, pattern) for pattern in self.jobs))
        )

    def may_hold(self, name: str, job: ObservedJob) -> bool:
        """Whether an attempt of the job can be in the set, by what all of them share."""
        values = dict(zip(WHOLE_JOB_DIMENSIONS, job.dimensions, strict=True))
        return all(
            values[dimension] in allowed
            for dimension, allowed in self.where.items()
            if dimension in values
        ) and (not self.jobs or any(fnmatchcase(name, pattern) for pattern in self.jobs))

    def draw(self, conn: Connection, project_id: int, now_us: int, most: int) -> Drawn | None:
        """Draw jobs from a large set; None where all are read, as those that are named are."""
        span = (self.begins_us, self.to_us or now_us)
        return None if self.jobs else draw(conn, project_id, self.where, span, most)

    @property
    def begins_us(self) -> int:
        """The instant before which none of its attempts starts."""
        return -NEVER if self.from_us is None else self.from_us


def job_set(
    conditions: Sequence[str], window: tuple[int | None, int | None], parameter: str
) -> JobSet:
    """Read conditions as ``code_version:4.2`` or ``job:nightly-*``, split at the first colon.

    Raises:
        BadQuestion: A condition has no colon or an unknown name, there are too many or too long
            ones, or the window ends before it begins.
    """
    if len(conditions) > MOST_CONDITIONS:
        raise BadQuestion(
            parameter, "too_many", f"It may be given at most {MOST_CONDITIONS} times."
        )
    by_name: defaultdict[str, set[str]] = defaultdict(set)
    for condition in conditions:
        name, colon, value = condition.partition(":")
        if not colon:
            raise BadQuestion(parameter, "no_colon", "It must be a dimension, a colon and a value.")
        if name not in NAMES:
            raise BadQuestion(parameter, "unknown_dimension", NAMES)
        if len(value) > MOST_CHARACTERS or "\x00" in value:
            raise BadQuestion(
                parameter, "bad_value", f"A value has up to {MOST_CHARACTERS} characters, no NUL."
            )
        by_name[name].add(value)
    patterns = tuple(sorted(by_name.pop(JOB, ())))
    from_us, to_us = window
    if from_us is not None and to_us is not None and from_us >= to_us:
        raise BadQuestion(f"{parameter}_from", "from_after_to", "It must be before the end.")
    where = {name: frozenset(values) for name, values in by_name.items()}
    return JobSet(where, patterns, from_us, to_us)


def where_any(sets: Sequence[JobSet]) -> dict[str, frozenset[str]]:
    """Return the values that an attempt of any of the sets has, of dimensions that all name."""
    named = set.intersection(*(set(each.where) for each in sets))
    return {name: frozenset().union(*(each.where[name] for each in sets)) for name in named}


def set_of(
    attempt: ObservedAttempt,
    job: ObservedJob,
    sets: Sequence[JobSet],
    excluded: Mapping[str, Sequence[Exclusion]],
) -> int | None:
    """Return the place of the last of the sets that holds the attempt.

    None where none does, or where some of the attempt's time is excluded.
    """
    if any(_overlaps(attempt, window) for window in excluded.get(attempt.job, ())):
        return None
    values = dimension_values(attempt, job)
    places = [
        place
        for place, each in enumerate(sets)
        if each.holds(attempt.job, values, attempt.started_us)
    ]
    return places[-1] if places else None


def _overlaps(attempt: ObservedAttempt, window: Exclusion) -> bool:
    return (window.from_at is None or window.from_at < attempt.ended_us) and (
        window.to_at is None or window.to_at > attempt.started_us
    )


def dimension_values(attempt: ObservedAttempt, job: ObservedJob) -> dict[str, str]:
    """Return the attempt's values by dimension."""
    return dict(zip(DIMENSIONS, cohort_of(job, attempt), strict=False))  # type: ignore[arg-type]
