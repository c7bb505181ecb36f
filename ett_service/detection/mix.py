"""When other jobs ran: the project's figure moved, and no cohort's did.

The figure of all jobs together is watched like any cohort's. How much of its change cohorts and
strata have by themselves is what the stratified comparison finds; of ETT% the shift-share
decomposition says it exactly. Where at least ``MIX_PART`` is left to the mix, that is its name.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ett_service.core.decomposition import Times, decompose
from ett_service.core.regression import Finding, Gate, Impact, Metric, Series, Subject, Verdict
from ett_service.core.vocabulary import Category
from ett_service.detection.margins import Groups
from ett_service.detection.options import Memory, Options
from ett_service.detection.pursuit import BETTER, WORSE, Look
from ett_service.detection.rules.ett_ratio import SUBJECT as ETT
from ett_service.detection.rules.ett_ratio import times
from ett_service.detection.sample import Sample
from ett_service.detection.watch import Change, Watch
from ett_service.detection.watching import watch
from ett_service.detection.window import Window

MIX_PART = 0.7  #: of the change, that the mix explains
LEAST_POINTS = 0.01  #: of ETT%, as a part of 1, that the project's figure moved by
_TIME_TO_START = Subject(Metric.TIME_TO_START_SECONDS)
_TOGETHER = Groups(((),), np.ones((1, 1)), (True,))


def mixes(window: Window, looks: list[Look], series: int, options: Options) -> Iterator[Finding]:
    """Yield what moved for the project as a whole, by the mix of its jobs alone."""
    together = replace(
        window, sample=_together(window), kept=np.atleast_2d(window.kept.any(axis=0))
    )
    for look in looks:
        subject = look.watch.subject
        whole = look.watch.groups.place(())
        if subject not in {_TIME_TO_START, ETT} or whole is None or window.baseline < 1:
            continue
        raw = Look.at(watch(subject, together, _TOGETHER, Memory()), options)
        for sign in (WORSE, BETTER):
            last, p = int(raw.of(sign).last[0]), float(raw.of(sign).p[0])
            if last and p * series <= options.q:
                found = _finding(window, raw.watch, look.watch, window.days - last, options)
                if found is not None:
                    yield replace(found, p=p, q=min(p * series, 1.0))


def _finding(
    window: Window, raw: Watch, stratified: Watch, start: int, options: Options
) -> Finding | None:
    change = raw.change(0, start, window.days)
    if raw.subject == ETT:
        moved, limit = abs(change.after.median - change.before.median), LEAST_POINTS
        part = _of_ett(window, start)
    else:
        moved, limit = max(change.worse, 1 / max(change.worse, 1e-9)), options.effect_floor
        part = _of_durations(raw, stratified, start)
    gates = (
        Gate("effect", moved, limit, moved >= limit),
        Gate("mix_part", part, MIX_PART, part >= MIX_PART),
    )
    if not all(gate.passed for gate in gates):
        return None
    return _told(window, raw, change, start, gates)


def _told(
    window: Window, raw: Watch, change: Change, start: int, gates: tuple[Gate, ...]
) -> Finding:
    return Finding(
        series=Series(raw.subject, ()),
        verdict=Verdict.MIX,
        ratio=change.ratio,
        low=change.low,
        high=change.high,
        p=1.0,
        q=1.0,
        onset_us=window.at_us(start),
        before=change.before,
        after=change.after,
        gates=gates,
        impact=Impact(change.gpu_hours_per_week),
    )


def _of_durations(raw: Watch, stratified: Watch, start: int) -> float:
    """Return the part of the change that is not within cohorts and strata."""
    whole = stratified.groups.place(())
    moved = raw.since(0, start).effect
    if whole is None or not moved:
        return 0.0
    return 1 - stratified.since(whole, start).effect / moved


def _of_ett(window: Window, start: int) -> float:
    """Return the mix's part of the change of ETT%, by the decomposition."""
    assert window.sample.shares is not None
    counted = window.kept[:, window.of_sample].astype(np.float64)
    held, lost = times(window.sample.shares, window, counted)
    before, after = (
        {
            place: _times(float(held[place, days].sum()), float(lost[place, days].sum()))
            for place in range(len(held))
        }
        for days in (slice(0, start), slice(start, None))
    )
    split = decompose(before, after)
    mixed = sum(part.change for part in split.parts if part.category is None)
    return float(mixed / split.change) if split.change else 0.0


def _times(held: float, lost: float) -> Times:
    return {
        Category.EFFECTIVE_TRAINING: round(held - lost),
        Category.UNATTRIBUTED: round(lost),
    }


def _together(window: Window) -> Sample:
    """Return the sample as if all jobs were alike."""
    sample = window.sample
    durations = {}
    rows = sample.durations.get(_TIME_TO_START)
    if rows is not None:
        kept = window.kept[rows.cohort, np.clip(rows.day, 0, sample.days - 1)]
        durations[_TIME_TO_START] = replace(
            rows,
            day=np.where(kept, rows.day, -1).astype(np.int32),
            cohort=np.zeros_like(rows.cohort),
            stratum=np.zeros_like(rows.stratum),
        )
    shares = sample.shares
    if shares is not None:
        kept = window.kept[shares.cohort, np.clip(shares.day, 0, sample.days - 1)]
        shares = replace(
            shares,
            day=np.where(kept, shares.day, -1).astype(np.int32),
            cohort=np.zeros_like(shares.cohort),
        )
    return replace(sample, cohorts=((),), durations=durations, rates={}, shares=shares)
