"""What a finding is associated with: where it lies, what goes with it, markers near it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from sqlalchemy import Connection

from ett_service.core.events import Marker
from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import (
    Attribution,
    Cohort,
    Finding,
    NearMarker,
    SideBySide,
    Suspect,
)
from ett_service.detection.attribution import examples as finding_examples
from ett_service.detection.attribution.dimensions import Cell, Shift
from ett_service.detection.attribution.examples import (
    Affected,
    Exposed,
    Windows,
    examples,
    side_by_side,
)
from ett_service.detection.attribution.location import located
from ett_service.detection.attribution.suspects import above_before, ranked, suspects_of
from ett_service.detection.ranks import logarithms
from ett_service.detection.sample import Ints, Observed
from ett_service.storage.record.markers import MarkerFilter, markers
from ett_service.storage.regressions.attempt_facts import AttemptFacts, AttemptKey, attempt_facts

REACH_US = 3 * DAY_US
MOST = 5

_MOST_READ = 1_000
_HALF_US = DAY_US  #: so far from the onset, a marker counts for half
_SPEAKS_OF_ANOTHER = 0.2
_SAYS_NOTHING = 0.5


def markers_near(
    conn: Connection,
    project_id: int,
    onset_us: int,
    cohort: Cohort,
    suspects: Sequence[Suspect],
) -> tuple[NearMarker, ...]:
    """Rank the project's markers within three days of an onset, at most ``MOST`` of them."""
    wanted = MarkerFilter(from_us=onset_us - REACH_US, to_us=onset_us + REACH_US)
    found = [kept.marker for kept in markers(conn, [project_id], wanted, limit=_MOST_READ)]
    return ranked_markers(found, onset_us, cohort, suspects)


def ranked_markers(
    found: Sequence[Marker], onset_us: int, cohort: Cohort, suspects: Sequence[Suspect]
) -> tuple[NearMarker, ...]:
    """Rank markers by how near they are, and by whether their labels fit.

    The score is 1 for one at the onset whose label is the suspect's value, half of it a day away.
    """
    told = [
        NearMarker(
            id=one.id,
            kind=one.kind.value,
            title=one.title,
            at_us=one.at,
            score=round(_nearness(one, onset_us) * _fit(one.labels, cohort, suspects), 6),
        )
        for one in found
    ]
    told.sort(key=lambda one: (-one.score, abs(one.at_us - onset_us), one.id))
    return tuple(told[:MOST])


def _nearness(marker: Marker, onset_us: int) -> float:
    end = marker.at if marker.end is None else marker.end
    away = max(marker.at - onset_us, onset_us - end, 0)
    return 1 / (1 + (away / _HALF_US) ** 2)


def _fit(labels: Mapping[str, str], cohort: Cohort, suspects: Sequence[Suspect]) -> float:
    """Weigh what labels say: of the suspect, of other jobs than the cohort's, or neither."""
    if any(labels.get(name, value) != value for name, value in cohort if value):
        return _SPEAKS_OF_ANOTHER
    named = [one for one in suspects if one.dimension in labels]
    if not named:
        return _SAYS_NOTHING
    return 1.0 if any(labels[one.dimension] == one.value for one in named) else _SPEAKS_OF_ANOTHER


DIMENSIONS = (
    "code_version", "image", "compile_cache", "data_source", "host", "cluster", "hardware",
    "precision", "kind", "size", "team", "model", "start",
)  # fmt: skip
"""What is searched, in the order of belief where several explain the same."""

MOST_LABELS = 40
"""Other label keys of jobs that are searched, those of most attempts."""

_DATA_SOURCE = "data_source"
_HOST = "host"

Columns: TypeAlias = dict[str, list[Cell]]


def attribute(
    conn: Connection, project_id: int, finding: Finding, observed: Observed
) -> Attribution:
    """Tell what a finding of a project is associated with, in what was *observed* of it."""
    windows = Windows.of(finding)
    where = located(observed, finding, windows)
    found = _searched(conn, project_id, finding, observed, windows)
    onset_us, cohort = finding.onset_us, finding.series.cohort
    return Attribution(
        phase_shares=where.phase_shares,
        cohort_shares=where.cohort_shares,
        suspects=found.suspects,
        markers=markers_near(conn, project_id, onset_us, cohort, found.suspects),
        examples=found.examples,
        within_points=where.within_points,
        mix_points=where.mix_points,
        side_by_side=found.side_by_side,
    )


@dataclass(frozen=True, slots=True)
class _Searched:
    suspects: tuple[Suspect, ...] = ()
    examples: tuple[AttemptKey, ...] = ()
    side_by_side: SideBySide | None = None


def _searched(
    conn: Connection, project_id: int, finding: Finding, observed: Observed, windows: Windows
) -> _Searched:
    subject, cohort = finding.series.subject, finding.series.cohort
    if finding_examples.is_rate(subject.metric):
        exposed = finding_examples.failures(observed, subject, windows, cohort)
        return _of_rates(conn, project_id, exposed, observed, finding)
    rows = finding_examples.durations(observed, subject, windows)
    rows = finding_examples.thinned(finding_examples.of_cohort(observed, rows, cohort))
    return _of_durations(conn, project_id, rows, observed, finding)


def _of_durations(
    conn: Connection, project_id: int, rows: Affected, observed: Observed, finding: Finding
) -> _Searched:
    if not len(rows.us):
        return _Searched()
    keys = _keys(observed, rows.attempt)
    columns, started_us = _columns(keys, attempt_facts(conn, project_id, keys))
    log_us, strata = logarithms(rows.us), _ints(observed.attempts.stratum[rows.attempt])
    found = suspects_of(
        columns,
        log_us,
        rows.after,
        at_us=started_us,
        onset_us=finding.onset_us,
        strata=strata,
        units=_ints(observed.attempts.unit[rows.attempt]),
    )
    level = above_before(log_us, rows.after, strata)
    cells = columns[found[0].dimension] if found else None
    return _Searched(
        suspects=found,
        examples=examples(keys, level, rows.after, cells, found[:1], worse=finding.ratio >= 1),
        side_by_side=None if cells is None else side_by_side(found[0], cells, level, rows.after),
    )


def _of_rates(
    conn: Connection, project_id: int, rows: Exposed, observed: Observed, finding: Finding
) -> _Searched:
    if not len(rows.hours):
        return _Searched()
    keys = _keys(observed, rows.attempt)
    columns, started_us = _columns(keys, attempt_facts(conn, project_id, keys))
    figures = Shift(
        rows.events / rows.hours,
        rows.hours,
        rows.after,
        noise=max(1.0, float(rows.events.sum())) / float(rows.hours.sum()),
        at_us=started_us,
        onset_us=finding.onset_us,
    )
    found = ranked(columns, figures)
    cells = columns[found[0].dimension] if found else None
    failed = rows.events * rows.after
    return _Searched(found, examples(keys, failed, failed > 0, cells, found[:1], worse=True))


def _keys(observed: Observed, attempt: Ints) -> list[AttemptKey]:
    units, numbers = observed.attempts.unit, observed.attempts.number
    return [(observed.jobs[units[place]], int(numbers[place])) for place in attempt.tolist()]


def _columns(
    keys: Sequence[AttemptKey], facts: Mapping[AttemptKey, AttemptFacts]
) -> tuple[Columns, Ints]:
    """Lay the facts of each row out by dimension, and return when each attempt started."""
    known = [facts.get(key) for key in keys]
    columns: Columns = {name: [_value(one, name) for one in known] for name in DIMENSIONS}
    counts = Counter(name for one in known if one is not None for name in one.labels)
    labels = [name for name, _ in sorted(counts.items(), key=lambda one: (-one[1], one[0]))]
    for name in [one for one in labels if one != _DATA_SOURCE][:MOST_LABELS]:
        column: list[Cell] = ["" if one is None else one.labels.get(name, "") for one in known]
        columns[f"label {name}" if name in DIMENSIONS else name] = column
    started = [0 if one is None else one.started_us for one in known]
    return columns, np.array(started, dtype=np.int64)


def _value(facts: AttemptFacts | None, name: str) -> Cell:
    if facts is None:
        return ""
    if name == _HOST:
        return facts.hosts or ""
    return facts.labels.get(name, "") if name == _DATA_SOURCE else facts.values[name]


def _ints(values: "np.ndarray[tuple[int], np.dtype[np.int32]]") -> Ints:
    return values.astype(np.int64)
