"""Of all groups that a change shows in, the ones that it is a change of.

A slower phase of one cohort also moves its cluster, its model and the project. As in matching
pursuit (Mallat and Zhang 1993), the group whose score is largest is taken, what changed in it is
taken off, and whatever still shows is looked at anew. A group of several cohorts is only taken
if it shows without the strongest of them, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ett_service.core.regression import Cohort
from ett_service.detection.onset import Peaks, Starts, peaks
from ett_service.detection.options import Options
from ett_service.detection.panel import Flags
from ett_service.detection.persistence import Persistence, persistence
from ett_service.detection.watch import Watch

SHARED = 2.0  #: score that a group has without the strongest of its cohorts
FEWEST_DAYS = 3  #: since the onset, to tell a change from a bad day
_MOST_ROUNDS = 8
WORSE, BETTER = 1, -1


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change of a group, once all that explains more was taken off."""

    watch: Watch
    group: int
    sign: int
    score: float
    p: float
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
    allowed: Flags
    worse: Peaks
    better: Peaks

    @classmethod
    def at(cls, watch: Watch, options: Options) -> "Look":
        """Compute the scores of *watch*."""
        found = watch.starts(options.recent_days)
        allowed = (found.recent >= options.fewest_recent) & (
            found.earlier >= options.fewest_baseline
        )
        both = (peaks(found, allowed, sign, FEWEST_DAYS) for sign in (WORSE, BETTER))
        return cls(watch, found, allowed, *both)

    def of(self, sign: int) -> Peaks:
        """Return the peaks in one direction."""
        return self.worse if sign == WORSE else self.better


def pursue(look: Look, limits: dict[int, float], options: Options) -> list[Candidate]:
    """Return the changes with a p of at most ``limits[sign]``, the strongest first."""
    found: list[Candidate] = []
    while len(found) < _MOST_ROUNDS:
        best = next(_strongest(look, limits), None)
        if best is None:
            return found
        found.append(best)
        left = look.watch.shifted(best.group, best.lasting.start, best.lasting.stop)
        look = Look.at(left, options)
    return found


def _strongest(look: Look, limits: dict[int, float]) -> Iterator[Candidate]:
    """Yield what may be taken, by falling score."""
    hits = [
        (float(look.of(sign).score[group]), sign, int(group))
        for sign, limit in limits.items()
        for group in np.flatnonzero(look.of(sign).p <= limit)
    ]
    for score, sign, group in sorted(hits, key=lambda hit: (-hit[0], hit[1], hit[2])):
        last = int(look.of(sign).last[group])
        if _is_shared(look, group, last, sign):
            p = float(look.of(sign).p[group])
            lasting = persistence(look.watch, group, look.watch.days - last, sign)
            yield Candidate(look.watch, group, sign, score, p, lasting)


def _is_shared(look: Look, group: int, last: int, sign: int) -> bool:
    groups = look.watch.groups
    if groups.single[group]:
        return True
    members = np.flatnonzero(groups.members[group])
    own = sign * look.starts.score[members, last - 1]
    rest = groups.members[group].copy()
    rest[members[own.argmax()]] = 0.0
    return sign * look.watch.rest(rest, look.watch.days - last) >= SHARED
