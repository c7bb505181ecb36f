"""Outages: days on which several phases of a cohort were bad and then well again.

What else changed in that cohort must have changed beside them: an outage makes attempts fail,
lowers ETT%, and leaves a phase or two that look as if they had stayed slow.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ett_service.core.regressions.finding import Metric
from ett_service.detection.models.registry import METRICS
from ett_service.detection.observed.sample import Flags
from ett_service.detection.selection import Candidate

_PHASES = frozenset({Metric.PHASE_SECONDS, Metric.CHECKPOINT_BLOCKING_SECONDS})
_FEWEST_PHASES = 2
_DAYS_AFTER = 2  #: on which failures and ETT% are still those of an outage


def outage_days(changes: Sequence[Candidate]) -> Flags:
    """Return cohorts by days of the window on which several phases had an incident.

    *changes* are those of one search; there is at least one.
    """
    model = changes[0].model
    bad = np.zeros((model.groups.members.shape[1], model.days), dtype=np.int64)
    for subject in {change.model.subject for change in changes if _is_incident(change)}:
        of_subject = np.zeros(bad.shape, dtype=np.bool_)
        for change in changes:
            if change.model.subject == subject and _is_incident(change):
                cohorts = np.flatnonzero(change.model.groups.members[change.group])
                of_subject[cohorts, change.lasting.start : change.lasting.stop] = True
        bad += of_subject
    return bad >= _FEWEST_PHASES


def beside_outages(changes: Sequence[Candidate]) -> list[Candidate]:
    """Return the changes, those as incidents of which too little is left without outages."""
    if not changes:
        return []
    outages = outage_days(changes)
    return [_beside(change, outages) for change in changes] if outages.any() else [*changes]


def _and_after(out: Flags) -> Flags:
    """Mark the days on which attempts end that began on marked ones, too."""
    return np.convolve(out, np.ones(_DAYS_AFTER + 1))[: len(out)] > 0


def _is_incident(change: Candidate) -> bool:
    return change.model.subject.metric in _PHASES and not change.lasting.lasts


def _beside(change: Candidate, outages: Flags) -> Candidate:
    model, group, lasting = change.model, change.group, change.lasting
    out = outages[model.groups.members[group] > 0].any(axis=0)
    if METRICS[model.subject.metric].in_bursts:
        out = _and_after(out)
    late = np.arange(model.days) >= lasting.start
    if not lasting.lasts or not (out & late).any():
        return change
    whole = model.contrast(group, late, ~late).effect
    left = model.contrast(group, late & ~out, ~late & ~out)
    score = change.sign * left.score
    if score >= lasting.outlives and change.sign * (left.effect - whole / 2) >= 0:
        return change
    days = np.flatnonzero(out & late)
    left_over = score if score < lasting.outlives else 0.0
    return replace(
        change,
        lasting=replace(lasting, without_one=left_over, start=int(days[0]), stop=int(days[-1]) + 1),
    )
