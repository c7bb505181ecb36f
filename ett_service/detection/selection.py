"""Selection: which series are tested how strictly, whether a change lasts, whose it is.

No search reports a change that began before the recent days.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from ett_service.core.regressions.finding import Metric, Series
from ett_service.detection.models import METRICS
from ett_service.detection.models.levels import DurationModel
from ett_service.detection.models.series_model import SeriesModel
from ett_service.detection.panel import Peaks, Starts, peaks
from ett_service.detection.sample import Flags, Floats, Options, Sample
from ett_service.detection.window import within

WORSE, BETTER = 1, -1

FEWEST_DAYS = 2  #: since the onset, to tell a change from a bad day
OUTLIVES = 2.0  #: score that a change must keep without any one day
OUTLIVES_BURSTS = 3.0  #: the same of a metric in bursts, without any of its bursts
FALLEN = 2.5  #: score at which the latest days have fallen back
BURST_DAYS = 3
"""Days in a row that a change of a metric in bursts must survive the loss of."""

_SHARED = 2.0  #: score of a group without the strongest of its cohorts
_FALLEN_SHARE = 0.4  #: of a change, under which it has fallen back
_MOST_ROUNDS = 8

WORTH, WORTH_OF_MISSES = 1.5, 2.0
"""The factor of a change that weights are made for; caches rather break than fail a little more."""
_MOST_SCORE = 4.5  #: series that would score more weigh like this one
_LEAST_SCORE = 0.3
_EQUAL_SHARE = 0.3  #: of the weight that all series share equally

_BEFORE_DAYS = 7  #: on which an older change may have begun that shows in the recent days
_DIFFERS = 2.5  #: score at which they surely differ from the days before


def limit(chances: Floats, q: float, most: int) -> float:
    """Return the largest p that Benjamini and Hochberg (1995) accept; at least that of one.

    One change shows in many series. No more than *most* changes are told apart, so none with a
    larger p than that of so many would be accepted among them (``adjusted``).
    """
    if not len(chances):
        return q
    ordered = np.sort(chances)
    bound = np.arange(1, len(ordered) + 1) * q / len(ordered)
    under = np.flatnonzero(ordered <= bound)
    return float(bound[min(int(under[-1]), most - 1)] if len(under) else bound[0])


def adjusted(chances: Sequence[float], series: int) -> list[float]:
    """Return the expected share of false ones among changes that are at least as sure.

    *chances* are those of distinct changes, out of *series* that were tested. One change shows in
    many series; counting each of them would let the next one pass too easily.
    """
    if not chances:
        return []
    order = np.argsort(chances, kind="stable")
    raw = np.asarray(chances)[order] * series / np.arange(1, len(chances) + 1)
    least = np.minimum(np.minimum.accumulate(raw[::-1])[::-1], 1.0)
    shares = np.empty(len(chances))
    shares[order] = least
    return [float(q) for q in shares]


def weights(expected: Floats, prior: Floats, q: float) -> Floats:
    """Return weights whose mean is 1, from the score that a change of ``WORTH`` would have.

    They are multiplied by *prior*.
    """
    if not len(expected):
        return np.ones(0)
    score = np.clip(expected, _LEAST_SCORE, _MOST_SCORE)
    low, high = -30.0, 30.0
    for _ in range(40):
        middle = (low + high) / 2
        if ndtr(-score / 2 - middle / score).sum() > q:
            low = middle
        else:
            high = middle
    best = ndtr(-score / 2 - high / score)
    whole = float(best.sum())
    best = best * len(best) / whole if whole else np.ones(len(best))
    mixed = (_EQUAL_SHARE + (1 - _EQUAL_SHARE) * best) * prior
    return np.asarray(mixed * len(mixed) / mixed.sum())


@dataclass(frozen=True, slots=True)
class Scores:
    """A series model with all its scores."""

    model: SeriesModel
    starts: Starts
    worse: Peaks
    better: Peaks

    @classmethod
    def of(cls, model: SeriesModel, options: Options) -> "Scores":
        """Compute the scores of a model."""
        starts = model.starts(options)
        return cls(model, starts, *(peaks(starts, sign, FEWEST_DAYS) for sign in (WORSE, BETTER)))

    @property
    def tested(self) -> Flags:
        """Groups that have enough values."""
        return np.asarray(self.starts.enough.any(axis=1))

    def peaks(self, sign: int) -> Peaks:
        """Return the peaks in one direction."""
        return self.worse if sign == WORSE else self.better


@dataclass(frozen=True, slots=True)
class Threshold:
    """What p-values must reach, group by group of one model."""

    weight: Floats  #: that p-values are divided by
    limits: Mapping[int, float]  #: of weighted p-values, by direction


def thresholds(scores: Sequence[Scores], q: float) -> list[Threshold]:
    """Share out the chance of false findings over all tested series of all models."""
    tested = [each.tested for each in scores]
    expected = [
        each.model.expected_score(_worth(each.model))[used]
        for each, used in zip(scores, tested, strict=True)
    ]
    priors = [
        np.full(len(of_model), METRICS[each.model.subject.metric].prior)
        for each, of_model in zip(scores, expected, strict=True)
    ]
    shared = weights(_joined(expected), _joined(priors), q)
    by_model = np.split(shared, np.cumsum([int(used.sum()) for used in tested]))[:-1]
    limits, most = {}, _MOST_ROUNDS * len(scores)
    for sign in (WORSE, BETTER):
        chances = [each.peaks(sign).p[used] for each, used in zip(scores, tested, strict=True)]
        limits[sign] = limit(_joined(chances) / shared, q, most)
    answer = []
    for used, own in zip(tested, by_model, strict=True):
        weight = np.ones(len(used))
        weight[used] = own
        answer.append(Threshold(weight, limits))
    return answer


def _worth(model: SeriesModel) -> float:
    counts_misses = isinstance(model, DurationModel) and model.is_of_means
    if counts_misses or model.subject.metric is Metric.CACHE_MISS_RATIO:
        return WORTH_OF_MISSES
    return WORTH


def _joined(parts: Sequence[Floats]) -> Floats:
    return np.concatenate([np.ones(0), *parts])


@dataclass(frozen=True, slots=True)
class Persistence:
    """Scores in the direction of the change, and the days on which it is there."""

    without_one: float  #: the least score without one of the days, or bursts, since the onset
    fallen: float  #: largest score of latest days that fell far under those before them
    start: int  #: days of the window
    stop: int
    outlives: float = OUTLIVES  #: what ``without_one`` must reach for a finding

    @property
    def lasts(self) -> bool:
        """Whether it is more than some bad days."""
        return self.without_one >= self.outlives and self.fallen < FALLEN


def persistence(model: SeriesModel, group: int, start: int, sign: int) -> Persistence:
    """Check day by day the change of a group on day *start*."""
    count = model.rows_by_day(group)
    days = np.arange(len(count))
    late = days >= start
    seen = np.flatnonzero(late & (count > 0))
    whole = sign * model.contrast(group, late, ~late).effect
    in_bursts = METRICS[model.subject.metric].in_bursts
    span, outlives = (BURST_DAYS, OUTLIVES_BURSTS) if in_bursts else (1, OUTLIVES)
    without = [
        _without(model, group, sign, late, (days >= day) & (days < day + span), whole)
        for day in seen
    ]
    falls = [_fall(model, group, sign, late, days >= day) for day in seen[1:]]
    least, fallen = min(without, default=0.0), max(falls, default=0.0)
    if fallen >= FALLEN:
        stop = int(seen[1:][int(np.argmax(falls))])
        return Persistence(least, fallen, start, stop, outlives)
    if least < outlives and len(seen):
        day = int(seen[int(np.argmin(without))])
        return Persistence(least, fallen, day, min(day + span, len(count)), outlives)
    return Persistence(least, fallen, start, len(count), outlives)


def _without(
    model: SeriesModel, group: int, sign: int, late: Flags, day: Flags, whole: float
) -> float:
    """Return the score without a day; none where most of the change goes away with it."""
    left = model.contrast(group, late & ~day, ~late)
    return sign * left.score if sign * left.effect >= whole / 2 else 0.0


def _fall(model: SeriesModel, group: int, sign: int, late: Flags, latest: Flags) -> float:
    """Return how surely the *latest* days lie far under those before them."""
    then = sign * model.contrast(group, late & ~latest, ~late).effect
    now = sign * model.contrast(group, latest, ~late).effect
    if now >= then * _FALLEN_SHARE:
        return 0.0
    return max(0.0, -sign * model.contrast(group, latest, late & ~latest).score)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change of a group, once all stronger ones were taken off."""

    model: SeriesModel
    group: int
    sign: int
    p: float
    weighted: float  #: p by the weight of its series
    lasting: Persistence


def candidates(scores: Scores, threshold: Threshold, options: Options) -> list[Candidate]:
    """Return the changes of a model that reach the threshold, the strongest first."""
    accepted: list[Candidate] = []
    while len(accepted) < _MOST_ROUNDS:
        best = next(_strongest(scores, threshold), None)
        if best is None:
            return accepted
        accepted.append(best)
        lasting = best.lasting
        rest = scores.model.without_change(best.group, lasting.start, lasting.stop)
        scores = Scores.of(rest, options)
    return accepted


def _strongest(scores: Scores, threshold: Threshold) -> Iterator[Candidate]:
    """Yield the changes that reach the threshold, that of the largest raw score first."""
    model, hits = scores.model, list[tuple[float, int, int, int]]()
    for sign, limit in threshold.limits.items():
        of_sign = scores.peaks(sign)
        for group in np.flatnonzero(of_sign.p <= limit * threshold.weight).tolist():
            last = int(of_sign.last[group])
            hits.append((sign * float(scores.starts.raw[group, last - 1]), sign, group, last))
    for _, sign, group, last in sorted(hits, key=lambda hit: (-hit[0], hit[1], hit[2])):
        if _is_shared(scores, group, last, sign):
            p = float(scores.peaks(sign).p[group])
            lasting = persistence(model, group, model.days - last, sign)
            yield Candidate(model, group, sign, p, p / float(threshold.weight[group]), lasting)


def _is_shared(scores: Scores, group: int, last: int, sign: int) -> bool:
    """Whether a group changed without the strongest of its cohorts, too."""
    groups = scores.model.groups
    if groups.single[group]:
        return True
    members = np.flatnonzero(groups.members[group])
    own = sign * scores.starts.score[members, last - 1]
    others = groups.members[group].copy()
    others[members[own.argmax()]] = 0.0
    return sign * scores.model.score_of(others, scores.model.days - last) >= _SHARED


def began_earlier(model: SeriesModel, group: int, start: int, sign: int, options: Options) -> bool:
    """Whether a change on day *start* began before the recent days: it is no news.

    It did if the last days before them, of a week at most, surely differ from those before, and
    by half of the change or more.
    """
    days, edge = np.arange(model.days), model.days - options.recent_days
    half = sign * model.size(group, start, model.days) / 2
    for begin in range(max(edge - _BEFORE_DAYS, 1), edge):
        latest = (days >= begin) & (days < edge)
        before = model.contrast(group, latest, days < begin)
        if sign * before.score >= _DIFFERS and sign * model.size(group, begin, edge) >= half:
            return True
    return False


def gone(sample: Sample, series: Iterable[Series], recent_days: int) -> tuple[Series, ...]:
    """Return those of *series* of whose cohort nothing ran in the recent days."""
    shares = sample.shares
    if shares is None:
        return ()
    ran = np.zeros(len(sample.cohorts), dtype=np.bool_)
    ran[shares.cohort[shares.day >= sample.days - recent_days]] = True
    return tuple(each for each in series if not (ran & within(sample.cohorts, each.cohort)).any())
