"""What a finding is associated with: where it lies, what goes with it, what was done then."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from sqlalchemy import Connection

from ett_service.core.regression import Attribution, Finding, SideBySide, Suspect
from ett_service.detection import affected
from ett_service.detection.affected import Affected, Exposed, Windows
from ett_service.detection.dimensions import Cell, Figures
from ett_service.detection.examples import examples
from ett_service.detection.located import located
from ett_service.detection.nearby import near
from ett_service.detection.observed import Observed
from ett_service.detection.ranks import logarithms
from ett_service.detection.sample import Ints
from ett_service.detection.side_by_side import side_by_side
from ett_service.detection.suspects import above_before, ranked, suspects
from ett_service.storage.attempt_facts import AttemptFacts, AttemptKey, attempt_facts

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
        markers=near(conn, project_id, onset_us, cohort, found.suspects),
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
    if affected.is_rate(subject.metric):
        exposed = affected.failures(observed, subject, windows, cohort)
        return _of_rates(conn, project_id, exposed, observed, finding)
    rows = affected.durations(observed, subject, windows)
    rows = affected.thinned(affected.of_cohort(observed, rows, cohort))
    return _of_durations(conn, project_id, rows, observed, finding)


def _of_durations(
    conn: Connection, project_id: int, rows: Affected, observed: Observed, finding: Finding
) -> _Searched:
    if not len(rows.us):
        return _Searched()
    keys = _keys(observed, rows.attempt)
    columns, started_us = _columns(keys, attempt_facts(conn, project_id, keys))
    log_us, strata = logarithms(rows.us), _ints(observed.attempts.stratum[rows.attempt])
    found = suspects(
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
    figures = Figures(
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
