"""Of all groups that a change shows in, the ones that it is a change of.

A slower phase of one cohort also moves its cluster, its model and the project. As in matching
pursuit (Mallat and Zhang 1993), the group that shows it most is taken, what changed in it is
taken off, and whatever still shows is looked at anew. A group of several cohorts is only taken
if it shows without the strongest of them, too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ett_service.core.regression import Cohort
from ett_service.detection.onset import Peaks, Starts, peaks
from ett_service.detection.options import Options
from ett_service.detection.persistence import Persistence, persistence
from ett_service.detection.sample import Floats
from ett_service.detection.watch import Watch

SHARED = 2.0  #: score that a group has without the strongest of its cohorts
FEWEST_DAYS = 2  #: since the onset, to tell a change from a bad day
_MOST_ROUNDS = 8
WORSE, BETTER = 1, -1


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change of a group, once all that explains more was taken off."""

    watch: Watch
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
class Look:
    """A watch with all its scores."""

    watch: Watch
    starts: Starts
    worse: Peaks
    better: Peaks

    @classmethod
    def at(cls, watch: Watch, options: Options) -> "Look":
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


def pursue(look: Look, bar: Bar, options: Options) -> list[Candidate]:
    """Return the changes that reach *bar*, the strongest first."""
    found: list[Candidate] = []
    while len(found) < _MOST_ROUNDS:
        best = next(_strongest(look, bar), None)
        if best is None:
            return found
        found.append(best)
        left = look.watch.shifted(best.group, best.lasting.start, best.lasting.stop)
        look = Look.at(left, options)
    return found


def _strongest(look: Look, bar: Bar) -> Iterator[Candidate]:
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


def _is_shared(look: Look, group: int, last: int, sign: int) -> bool:
    groups = look.watch.groups
    if groups.single[group]:
        return True
    members = np.flatnonzero(groups.members[group])
    own = sign * look.starts.score[members, last - 1]
    rest = groups.members[group].copy()
    rest[members[own.argmax()]] = 0.0
    return sign * look.watch.rest(rest, look.watch.days - last) >= SHARED
