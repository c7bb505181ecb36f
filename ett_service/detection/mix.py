"""Changes of the mix: the project's figure moves because other jobs run, though no cohort changed.

Of the time to start the mix is the mean of what is usual for the cohort and stratum of each
attempt: the noise within cohorts is none of it, so a shift shows as soon as the jobs are other
ones. Of ETT% it is a part of the shift-share decomposition.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ett_service.core.fleet.decomposition import Times, decompose
from ett_service.core.regressions.finding import Finding, Metric, Series, Subject, Verdict
from ett_service.core.words import Category
from ett_service.detection.models import METRICS
from ett_service.detection.models.ett import times
from ett_service.detection.models.form import Form
from ett_service.detection.models.levels import DurationModel, model_of
from ett_service.detection.models.residuals import Residuals
from ett_service.detection.models.series_model import SeriesModel, log_with_zeros, medians
from ett_service.detection.sample import ETT, Memory, Options, Sample, SmallInts
from ett_service.detection.selection import BETTER, WORSE, Scores, began_earlier
from ett_service.detection.verdict import at_least
from ett_service.detection.window import Groups, Window

_MIX_PART = 0.7  #: of the change, that the mix explains
_LEAST_FACTOR = 1.03  #: by which the mix moved the time to start
_LEAST_POINTS = 0.01  #: of ETT%, as a part of 1, by which the project's figure moved
_TIME_TO_START = Subject(Metric.TIME_TO_START_SECONDS)
_LEAST_SPREAD = 0.01
_WHOLE_PROJECT = Groups(((),), np.ones((1, 1)), (True,))


def mix_changes(
    window: Window, scores: Sequence[Scores], series: int, options: Options
) -> Iterator[Finding]:
    """Yield what changed for the project as a whole, by the mix of its jobs alone."""
    together = replace(
        window, sample=_one_cohort(window), counts=np.atleast_2d(window.counts.any(axis=0))
    )
    for stratified in {each.model.subject: each.model for each in reversed(scores)}.values():
        subject = stratified.subject
        has_whole = stratified.groups.place(()) is not None
        if subject not in {_TIME_TO_START, ETT} or not has_whole or window.baseline < 1:
            continue
        if isinstance(stratified, DurationModel):
            model: SeriesModel = _usual_durations(stratified, together)
        else:
            model = METRICS[subject.metric].model(subject, together, _WHOLE_PROJECT, Memory())
        raw = Scores.of(model, options)
        for sign in (WORSE, BETTER):
            last, p = int(raw.peaks(sign).last[0]), float(raw.peaks(sign).p[0])
            start, is_sure = window.days - last, last > 0 and p * series <= options.q
            if is_sure and not began_earlier(model, 0, start, sign, options):
                finding = _mix_change(window, raw.model, stratified, start)
                if finding is not None:
                    yield replace(finding, p=p, q=min(p * series, 1.0))


def _mix_change(
    window: Window, raw: SeriesModel, stratified: SeriesModel, start: int
) -> Finding | None:
    change = raw.change(0, start, window.days)
    if raw.subject == ETT:
        moved, limit = abs(change.after.median - change.before.median), _LEAST_POINTS
        part = _mix_part_of_ett(window, start)
    else:
        moved, limit = max(change.worse, 1 / max(change.worse, 1e-9)), _LEAST_FACTOR
        part = _mix_part_of_durations(raw, stratified, start)
    gates = (at_least("effect", moved, limit), at_least("mix_part", part, _MIX_PART))
    if not all(gate.passed for gate in gates):
        return None
    onset_us = window.at_us(start)
    return change.finding(Series(raw.subject, ()), Verdict.MIX, onset_us, gates=gates, p=1.0, q=1.0)


def _usual_durations(stratified: DurationModel, together: Window) -> DurationModel:
    """Return the model of what is usual for the attempts of each day."""
    rows = stratified.rows
    log = log_with_zeros(rows.us)
    cohort = rows.cohort.astype(np.intp)
    of_cohort = medians(log, cohort, len(stratified.spread))[cohort]
    usual = np.where(np.isfinite(stratified.log), log - stratified.log, of_cohort)
    usual = usual - usual.mean() if len(usual) else usual
    spread = np.array([max(float(usual.std()), _LEAST_SPREAD)]) if len(usual) else np.ones(1)
    residual = Residuals(
        log=usual,
        cut=usual,
        weight=np.ones(len(usual)),
        spread=spread,
        cut_spread=spread,
        fitted=np.ones(1),
        skewness=0.0,
        form=Form.of(usual / spread),
    )
    place = np.zeros_like(rows.cohort)
    model = model_of(
        stratified.subject, together, _WHOLE_PROJECT, replace(rows, cohort=place), residual
    )
    return replace(model, is_of_means=True)


def _mix_part_of_durations(mix: SeriesModel, stratified: SeriesModel, start: int) -> float:
    """Return the mix's part of the change that it and the cohorts make together."""
    whole = stratified.groups.place(())
    moved = abs(mix.since(0, start).effect)
    if whole is None or not moved:
        return 0.0
    return moved / (moved + abs(stratified.since(whole, start).effect))


def _mix_part_of_ett(window: Window, start: int) -> float:
    """Return the mix's part of the change of ETT%, by the decomposition."""
    assert window.sample.shares is not None
    counted = window.counts[:, window.of_sample].astype(np.float64)
    held, lost = times(window.sample.shares, window, counted)
    before, after = (
        {
            place: _times(float(held[place, days].sum()), float(lost[place, days].sum()))
            for place in range(len(held))
        }
        for days in (slice(0, start), slice(start, None))
    )
    split = decompose(before, after)
    mix = sum(part.change for part in split.parts if part.word is None)
    return float(mix / split.change) if split.change else 0.0


def _times(held: float, lost: float) -> Times[Category]:
    return {
        Category.EFFECTIVE_TRAINING: round(held - lost),
        Category.UNATTRIBUTED: round(lost),
    }


def _one_cohort(window: Window) -> Sample:
    """Return the sample's time as if all jobs were of one cohort."""
    sample = window.sample

    def counted_day(day: SmallInts, cohort: SmallInts) -> SmallInts:
        counts = window.counts[cohort, np.clip(day, 0, sample.days - 1)]
        return np.where(counts, day, -1).astype(np.int32)

    shares = sample.shares
    if shares is not None:
        shares = replace(
            shares, day=counted_day(shares.day, shares.cohort), cohort=np.zeros_like(shares.cohort)
        )
    return replace(sample, cohorts=((),), durations={}, rates={}, shares=shares)
