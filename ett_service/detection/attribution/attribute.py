"""What a finding is associated with: where it lies, suspects, markers near it and examples."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from sqlalchemy import Connection

from ett_service.core import dimensions
from ett_service.core.events import Marker
from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import (
    Attribution,
    Finding,
    Metric,
    NearMarker,
    Series,
    SeriesCohort,
    SideBySide,
    Subject,
    Suspect,
)
from ett_service.core.words import Category, Phase
from ett_service.detection import ranks
from ett_service.detection.attribution import location
from ett_service.detection.attribution.dimensions import Cell, Shift, holds
from ett_service.detection.attribution.location import Affected, Exposed, Windows, located
from ett_service.detection.attribution.suspects import above_before, ranked, suspects_of
from ett_service.detection.sample import Flags, Floats, Ints, Observed, SmallInts
from ett_service.detection.window import bounded_logarithms
from ett_service.storage.record.markers import MarkerFilter, markers
from ett_service.storage.regressions.cohort_facts import (
    CACHE,
    AttemptFacts,
    AttemptKey,
    attempt_facts,
)

_FIRST = (
    "code_version", "image", CACHE, "data_source", "host", "cluster", "hardware",
)  # fmt: skip
_LAST = ("team", "model", "start")
DIMENSIONS = (
    *_FIRST,
    *(name for name in dimensions.DIMENSIONS if name not in _FIRST + _LAST),
    *_LAST,
)
"""The dimensions that are searched, the likeliest first where several explain the same."""

MOST_LABELS = 40
"""Other label keys of jobs that are searched, those of most attempts."""

REACH_US = 3 * DAY_US
"""How far from an onset a marker may lie."""

MOST_MARKERS = 5
MOST_EXAMPLES = 3
FEWEST_SIDE_BY_SIDE = 3
"""Attempts with the value, and others, to compare any."""

_DATA_SOURCE = "data_source"
_HOST = "host"
_MOST_READ = 1_000
_HALF_US = DAY_US  #: so far from the onset, a marker counts for half
_OTHER_LABELS = 0.2  #: weight of a marker whose labels name another value
_NO_LABELS = 0.5
_FARTHEST = 2.0  #: robust standard deviations from what is typical of the changed ones

_LEAST_SHARE = 0.2  #: of a change of ETT%, to look for what goes with that part
_OF_PHASES = frozenset({Metric.PHASE_SECONDS, Metric.CHECKPOINT_BLOCKING_SECONDS})
_OF_FAILURES = frozenset({Category.RESTART_WAIT.value, Category.REPEATED_TRAINING.value})
_PHASE_OF = {Category.RECOMPILE.value: Phase.PT2_COMPILE.value}

AttemptColumns: TypeAlias = dict[str, list[Cell]]


def attribute(
    conn: Connection, project_id: int, finding: Finding, observed: Observed
) -> Attribution:
    """Return what a finding of a project is associated with, in what was *observed* of it."""
    windows = Windows.of(finding)
    where = located(observed, finding, windows)
    if finding.series.subject.metric is Metric.ETT_RATIO:
        evidence = _of_parts(conn, project_id, finding, observed, where.phase_shares)
    else:
        evidence = _evidence(conn, project_id, finding, observed, windows)
    onset_us, cohort = finding.onset_us, finding.series.cohort
    return Attribution(
        phase_shares=where.phase_shares,
        cohort_shares=where.cohort_shares,
        suspects=evidence.suspects,
        markers=markers_near(conn, project_id, onset_us, cohort, evidence.suspects),
        examples=evidence.examples,
        within_points=where.within_points,
        mix_points=where.mix_points,
        side_by_side=evidence.side_by_side,
        as_of_us=finding.after.to_us,
        onset_us=onset_us,
    )


@dataclass(frozen=True, slots=True)
class _Evidence:
    suspects: tuple[Suspect, ...] = ()
    examples: tuple[AttemptKey, ...] = ()
    side_by_side: SideBySide | None = None


def _evidence(
    conn: Connection, project_id: int, finding: Finding, observed: Observed, windows: Windows
) -> _Evidence:
    subject, cohort = finding.series.subject, finding.series.cohort
    if location.is_rate(subject.metric):
        exposed = location.failures(observed, subject, windows, cohort)
        return _of_rates(conn, project_id, exposed, observed, finding)
    rows = location.durations(observed, subject, windows)
    rows = location.thinned(location.of_cohort(observed, rows, cohort))
    return _of_durations(conn, project_id, rows, observed, finding)


def _of_parts(
    conn: Connection,
    project_id: int,
    finding: Finding,
    observed: Observed,
    shares: Mapping[str, float],
) -> _Evidence:
    """Return the evidence of the part of a change of ETT% that is the largest with suspects.

    A suspect explains as much of ETT% as of that part.
    """
    windows, cohort = Windows.of(finding), finding.series.cohort
    for category, share in sorted(shares.items(), key=lambda item: -item[1]):
        if share < _LEAST_SHARE:
            break
        for subject in _subjects(category, observed):
            part = replace(finding, series=Series(subject, cohort), ratio=1 / finding.ratio)
            evidence = _evidence(conn, project_id, part, observed, windows)
            if evidence.suspects:
                suspects = tuple(
                    replace(suspect, explains=suspect.explains * min(share, 1.0))
                    for suspect in evidence.suspects
                )
                return replace(evidence, suspects=suspects)
    return _Evidence()


def _subjects(category: str, observed: Observed) -> list[Subject]:
    """Return what a category's time is made of: a phase, checkpoints, or what failures cost."""
    if category in _OF_FAILURES:
        return [subject for subject in observed.failures if not subject.cause]
    return [
        subject
        for subject in observed.durations
        if subject.metric in _OF_PHASES and _PHASE_OF.get(category, category) == subject.phase
    ]


def _of_durations(
    conn: Connection, project_id: int, rows: Affected, observed: Observed, finding: Finding
) -> _Evidence:
    if not len(rows.us):
        return _Evidence()
    keys, columns, started_us = _facts(conn, project_id, observed, rows.attempt)
    subject = finding.series.subject
    if subject.metric is Metric.CACHE_MISS_RATIO:
        del columns[CACHE]  # that it was missed is what changed
    log_us, strata = _logarithms(subject, rows.us), _ints(rows.stratum)
    suspects = suspects_of(
        columns,
        log_us,
        rows.after,
        at_us=started_us,
        onset_us=finding.onset_us,
        strata=strata,
        units=_ints(observed.attempts.unit[rows.attempt]),
    )
    level = above_before(log_us, rows.after, strata)
    cells = columns[suspects[0].dimension] if suspects else None
    return _Evidence(
        suspects=suspects,
        examples=examples(keys, level, rows.after, cells, suspects[:1], worse=finding.ratio >= 1),
        side_by_side=None if cells is None else side_by_side(suspects[0], cells, level, rows.after),
    )


def _of_rates(
    conn: Connection, project_id: int, rows: Exposed, observed: Observed, finding: Finding
) -> _Evidence:
    if not len(rows.hours):
        return _Evidence()
    keys, columns, started_us = _facts(conn, project_id, observed, rows.attempt)
    shift = Shift(
        rows.events / rows.hours,
        rows.hours,
        rows.after,
        noise=max(1.0, float(rows.events.sum())) / float(rows.hours.sum()),
        at_us=started_us,
        onset_us=finding.onset_us,
    )
    suspects = ranked(columns, shift)
    cells = columns[suspects[0].dimension] if suspects else None
    failed = rows.events * rows.after
    return _Evidence(suspects, examples(keys, failed, failed > 0, cells, suspects[:1], worse=True))


def _facts(
    conn: Connection, project_id: int, observed: Observed, attempt: Ints
) -> tuple[list[AttemptKey], AttemptColumns, Ints]:
    """Return the key of each row, its facts by dimension, and when its attempt started."""
    units, numbers = observed.attempts.unit, observed.attempts.number
    keys = [(observed.jobs[units[place]], int(numbers[place])) for place in attempt.tolist()]
    facts_by_key = attempt_facts(conn, project_id, keys)
    facts = [facts_by_key.get(key) for key in keys]
    columns: AttemptColumns = {name: [_value(each, name) for each in facts] for name in DIMENSIONS}
    for name in _labels(facts):
        column: list[Cell] = ["" if each is None else each.labels.get(name, "") for each in facts]
        columns[f"label {name}" if name in DIMENSIONS else name] = column
    started_us = [0 if each is None else each.started_us for each in facts]
    return keys, columns, np.array(started_us, dtype=np.int64)


def _labels(facts: Sequence[AttemptFacts | None]) -> list[str]:
    """Return the keys of labels of most attempts."""
    counts = Counter(name for each in facts if each is not None for name in each.labels)
    names = sorted(counts, key=lambda name: (-counts[name], name))
    return [name for name in names if name != _DATA_SOURCE][:MOST_LABELS]


def _value(facts: AttemptFacts | None, name: str) -> Cell:
    if facts is None:
        return ""
    if name == _HOST:
        return facts.hosts or ""
    return facts.labels.get(name, "") if name == _DATA_SOURCE else facts.values[name]


def _logarithms(subject: Subject, us: Ints) -> Floats:
    """Return the logarithms of durations; steps may be far shorter than what a phase rounds to."""
    return np.log(us) if subject.metric is Metric.STEP_SECONDS else bounded_logarithms(us)


def _ints(values: SmallInts) -> Ints:
    return values.astype(np.int64)


def markers_near(
    conn: Connection,
    project_id: int,
    onset_us: int,
    cohort: SeriesCohort,
    suspects: Sequence[Suspect],
) -> tuple[NearMarker, ...]:
    """Rank the project's markers within three days of an onset."""
    marker_filter = MarkerFilter(from_us=onset_us - REACH_US, to_us=onset_us + REACH_US)
    stored = markers(conn, [project_id], marker_filter, limit=_MOST_READ)
    return ranked_markers([each.marker for each in stored], onset_us, cohort, suspects)


def ranked_markers(
    markers: Sequence[Marker], onset_us: int, cohort: SeriesCohort, suspects: Sequence[Suspect]
) -> tuple[NearMarker, ...]:
    """Rank markers by how near they are, and by whether their labels fit.

    The score is 1 for one at the onset whose label is the suspect's value, half of it a day away.
    """
    near = [
        NearMarker(
            id=marker.id,
            kind=marker.kind.value,
            title=marker.title,
            at_us=marker.at,
            score=round(_nearness(marker, onset_us) * _fit(marker.labels, cohort, suspects), 6),
        )
        for marker in markers
    ]
    near.sort(key=lambda marker: (-marker.score, abs(marker.at_us - onset_us), marker.id))
    return tuple(near[:MOST_MARKERS])


def _nearness(marker: Marker, onset_us: int) -> float:
    end = marker.at if marker.end is None else marker.end
    away = max(marker.at - onset_us, onset_us - end, 0)
    return 1 / (1 + (away / _HALF_US) ** 2)


def _fit(labels: Mapping[str, str], cohort: SeriesCohort, suspects: Sequence[Suspect]) -> float:
    """Weigh labels: of the suspect, of other jobs than the cohort's, or neither."""
    if any(labels.get(name, value) != value for name, value in cohort if value):
        return _OTHER_LABELS
    named = [suspect for suspect in suspects if suspect.dimension in labels]
    if not named:
        return _NO_LABELS
    fits = any(labels[suspect.dimension] == suspect.value for suspect in named)
    return 1.0 if fits else _OTHER_LABELS


def examples(
    keys: Sequence[AttemptKey],
    level: Floats,
    after: Flags,
    cells: Sequence[Cell] | None,
    suspect: Sequence[Suspect],
    *,
    worse: bool,
) -> tuple[AttemptKey, ...]:
    """Choose up to ``MOST_EXAMPLES`` attempts after the onset, of as many jobs as there are.

    They are those whose *level* above (or below) their stratum's is the largest and still no
    outlier among those with the first *suspect*, whose dimension *cells* hold; among all without.
    """
    has_value = np.array(after)
    if cells is not None and suspect:
        has_value &= _holding(cells, suspect[0].value)
    places = np.flatnonzero(has_value)
    if not len(places):
        return ()
    typical = float(np.median(level[places]))
    deviation = float(np.median(np.abs(level[places] - typical)))
    reach = _FARTHEST * ranks.MAD_TO_SIGMA * deviation
    sign = 1 if worse else -1
    ordered = sorted(
        places.tolist(),
        key=lambda at: (abs(level[at] - typical) > reach, -sign * level[at], keys[at]),
    )
    chosen: dict[str, AttemptKey] = {}
    for at in ordered:
        chosen.setdefault(keys[at][0], keys[at])
        if len(chosen) == MOST_EXAMPLES:
            break
    return tuple(chosen.values())


def side_by_side(
    suspect: Suspect, cells: Sequence[Cell], log_us: Floats, after: Flags
) -> SideBySide | None:
    """Compare the suspect's rows with those of the value that most others had after the onset.

    *log_us* are logarithms of durations, strata taken off. A value that is there only after the
    onset is compared with nothing; hosts with all others, since an attempt has several. None
    where either side has too few.
    """
    has_value = _holding(cells, suspect.value)
    several = any(not isinstance(cell, str) for cell in cells)
    against = "" if several else _most_frequent(cells, has_value, after)
    if not several and not against:
        return None
    others = ~has_value
    if against:
        others &= np.array([cell == against for cell in cells], dtype=np.bool_)
    now, other_now = log_us[has_value & after], log_us[others & after]
    if min(len(now), len(other_now)) < FEWEST_SIDE_BY_SIDE:
        return None
    was, other_was = log_us[has_value & ~after], log_us[others & ~after]
    apart = 0.0
    if min(len(was), len(other_was)) >= FEWEST_SIDE_BY_SIDE:
        apart = float(np.median(was) - np.median(other_was))
    compared = ranks.compare(other_now, now - apart)
    if compared is None:
        return None
    return SideBySide(
        dimension=suspect.dimension,
        value=suspect.value,
        against=against,
        n=len(now),
        against_n=len(other_now),
        ratio=compared.ratio,
        low=compared.low,
        high=compared.high,
        p=compared.p,
    )


def _holding(cells: Sequence[Cell], value: str) -> Flags:
    return np.array([holds(cell, value) for cell in cells], dtype=np.bool_)


def _most_frequent(cells: Sequence[Cell], has_value: Flags, after: Flags) -> str:
    """Return the value that most others had, if it was there before, too; empty for none."""
    before = {cell for cell, is_after in zip(cells, after, strict=True) if not is_after}
    counts = Counter(
        cell
        for cell, has, is_after in zip(cells, has_value, after, strict=True)
        if is_after and not has and cell in before and isinstance(cell, str) and cell
    )
    return min(counts, key=lambda value: (-counts[value], value), default="")
