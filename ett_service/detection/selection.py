"""Selection: whether a change lasts, and which of the groups that show it it belongs to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ett_service.core.regressions.finding import Cohort, Metric, Subject
from ett_service.detection.models.series_model import SeriesModel
from ett_service.detection.onset import Peaks, Starts, peaks
from ett_service.detection.options import Options
from ett_service.detection.sample import Flags, Floats


def limit(chances: Floats, q: float) -> float:
    """Return the largest p that Benjamini and Hochberg (1995) let pass; at least that of one."""
    if not len(chances):
        return q
    ordered = np.sort(chances)
    bound = np.arange(1, len(ordered) + 1) * q / len(ordered)
    under = np.flatnonzero(ordered <= bound)
    return float(bound[under[-1]] if len(under) else bound[0])


def adjusted(chances: Sequence[float], series: int) -> list[float]:
    """Return the expected part of false ones among changes that are at least so sure.

    *chances* are those of distinct changes, out of *series* that were tested. One change shows in
    many series, so that counting each of these would let the next one pass too easily.
    """
    if not chances:
        return []
    order = np.argsort(chances, kind="stable")
    raw = np.asarray(chances)[order] * series / np.arange(1, len(chances) + 1)
    least = np.minimum(np.minimum.accumulate(raw[::-1])[::-1], 1.0)
    found = np.empty(len(chances))
    found[order] = least
    return [float(q) for q in found]


WORTH = 1.5  #: the factor that they are made for
_MOST = 4.5  #: a series that would score more has to be as quick to tell of as one of this score
_LEAST = 0.3  #: what would score less
_EQUAL = 0.3  #: part that all share alike

_PRIOR = {
    Metric.FAILURES_PER_GPU_HOUR: 0.2,
    Metric.UNSAVED_SECONDS: 0.15,
    Metric.TIME_TO_START_SECONDS: 0.15,
    Metric.TIME_TO_RECOVER_SECONDS: 0.15,
    Metric.ETT_RATIO: 0.15,
}
"""What a series weighs that mostly follows others, and so has a say where these are silent."""


def prior(subject: Subject) -> float:
    """Return what a subject's series weigh before anything is known of their values."""
    return _PRIOR.get(subject.metric, 1.0)


def weights(promise: Floats, prior: Floats, q: float) -> Floats:
    """Return weights whose mean is 1, by the score that a change worth telling of would have.

    *prior* is what they are multiplied by.
    """
    if not len(promise):
        return np.ones(0)
    score = np.clip(promise, _LEAST, _MOST)
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
    found = (_EQUAL + (1 - _EQUAL) * best) * prior
    return np.asarray(found * len(found) / found.sum())


_LEFT = 0.4  #: part of a change under which it has fallen back
OUTLIVES = 2.0  #: score that has to be left without any one day
FALLEN = 2.3  #: score at which the latest days have fallen back


IN_BURSTS = frozenset(
    {
        Metric.FAILURES_PER_GPU_HOUR,
        Metric.UNSAVED_SECONDS,
        Metric.TIME_TO_RECOVER_SECONDS,
        Metric.ETT_RATIO,
    }
)
"""What an outage changes for days: it has to outlive the loss of any ``BURST_DAYS`` in a row."""

BURST_DAYS = 3


@dataclass(frozen=True, slots=True)
class Persistence:
    """Scores in the direction of the change, and the days that it is there on."""

    without_one: float  #: the least score without one of the days, or bursts, since the onset
    fallen: float  #: largest score of latest days that fell far under those before them
    start: int  #: days of the window
    stop: int

    @property
    def lasts(self) -> bool:
        """Tell whether it is more than some bad days."""
        return self.without_one >= OUTLIVES and self.fallen < FALLEN


def persistence(watch: SeriesModel, group: int, start: int, sign: int) -> Persistence:
    """Look day by day at what changed in a group on day *start*."""
    count = watch.counts(group)
    days = np.arange(len(count))
    late = days >= start
    seen = np.flatnonzero(late & (count > 0))
    whole = sign * watch.halves(group, late, ~late).effect
    span = BURST_DAYS if watch.subject.metric in IN_BURSTS else 1
    without = [
        _without(watch, group, sign, late, (days >= day) & (days < day + span), whole)
        for day in seen
    ]
    falls = [_fall(watch, group, sign, late, days >= day) for day in seen[1:]]
    least, fallen = min(without, default=0.0), max(falls, default=0.0)
    if fallen >= FALLEN:
        stop = int(seen[1:][int(np.argmax(falls))])
        return Persistence(least, fallen, start, stop)
    if least < OUTLIVES and len(seen):
        day = int(seen[int(np.argmin(without))])
        return Persistence(least, fallen, day, min(day + span, len(count)))
    return Persistence(least, fallen, start, len(count))


def _without(
    watch: SeriesModel, group: int, sign: int, late: Flags, day: Flags, whole: float
) -> float:
    """Return the score without a day; none where most of the change goes away with it."""
    left = watch.halves(group, late & ~day, ~late)
    return sign * left.score if sign * left.effect >= whole / 2 else 0.0


def _fall(watch: SeriesModel, group: int, sign: int, late: Flags, latest: Flags) -> float:
    """Return how surely the *latest* days lie far under those before them."""
    then = sign * watch.halves(group, late & ~latest, ~late).effect
    now = sign * watch.halves(group, latest, ~late).effect
    if now >= then * _LEFT:
        return 0.0
    return max(0.0, -sign * watch.halves(group, latest, late & ~latest).score)


SHARED = 2.0  #: score that a group has without the strongest of its cohorts
FEWEST_DAYS = 2  #: since the onset, to tell a change from a bad day
_MOST_ROUNDS = 8
WORSE, BETTER = 1, -1


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change of a group, once all that explains more was taken off."""

    watch: SeriesModel
    group: int
    sign: int
    p: float
    weighted: float  #: p by the weight of its series
    lasting: Persistence

    @property
    def name(self) -> Cohort:
        """What the group is called."""
        return self.watch.groups.names[self.group]


@dataclass(frozen=True, slots=True)
class Scores:
    """A watch with all its scores."""

    watch: SeriesModel
    starts: Starts
    worse: Peaks
    better: Peaks

    @classmethod
    def at(cls, watch: SeriesModel, options: Options) -> "Scores":
        """Compute the scores of *watch*."""
        found = watch.starts(options)
        both = (peaks(found, sign, FEWEST_DAYS) for sign in (WORSE, BETTER))
        return cls(watch, found, *both)

    @property
    def tested(self) -> NDArray[np.bool_]:
        """Groups that have values enough."""
        return np.asarray(self.starts.enough.any(axis=1))

    def of(self, sign: int) -> Peaks:
        """Return the peaks in one direction."""
        return self.worse if sign == WORSE else self.better


@dataclass(frozen=True, slots=True)
class Bar:
    """What p-values have to reach, group by group of one watch."""

    weight: Floats  #: that p-values are divided by
    limits: Mapping[int, float]  #: of weighted p-values, by direction


def candidates(look: Scores, bar: Bar, options: Options) -> list[Candidate]:
    """Return the changes that reach *bar*, the strongest first."""
    found: list[Candidate] = []
    while len(found) < _MOST_ROUNDS:
        best = next(_strongest(look, bar), None)
        if best is None:
            return found
        found.append(best)
        left = look.watch.shifted(best.group, best.lasting.start, best.lasting.stop)
        look = Scores.at(left, options)
    return found


def _strongest(look: Scores, bar: Bar) -> Iterator[Candidate]:
    """Yield what may be taken, what shows most first."""
    hits = []
    for sign, limit in bar.limits.items():
        found = look.of(sign)
        for group in np.flatnonzero(found.p <= limit * bar.weight).tolist():
            last = int(found.last[group])
            hits.append((sign * float(look.starts.raw[group, last - 1]), sign, group, last))
    for _, sign, group, last in sorted(hits, key=lambda hit: (-hit[0], hit[1], hit[2])):
        if _is_shared(look, group, last, sign):
            p = float(look.of(sign).p[group])
            lasting = persistence(look.watch, group, look.watch.days - last, sign)
            weighted = p / float(bar.weight[group])
            yield Candidate(look.watch, group, sign, p, weighted, lasting)


def _is_shared(look: Scores, group: int, last: int, sign: int) -> bool:
    groups = look.watch.groups
    if groups.single[group]:
        return True
    members = np.flatnonzero(groups.members[group])
    own = sign * look.starts.score[members, last - 1]
    rest = groups.members[group].copy()
    rest[members[own.argmax()]] = 0.0
    return sign * look.watch.rest(rest, look.watch.days - last) >= SHARED
