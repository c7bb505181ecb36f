"""The attempts that show a change best."""

from collections.abc import Sequence

import numpy as np

from ett_service.core.regression import Suspect
from ett_service.detection.dimensions import Bools, Cell, holds
from ett_service.detection.sample import Floats
from ett_service.storage.attempt_facts import AttemptKey

MOST = 3

_FARTHEST = 2.0  #: robust standard deviations from what is typical of the changed ones
_MAD = 1.4826


def examples(
    keys: Sequence[AttemptKey],
    level: Floats,
    after: Bools,
    cells: Sequence[Cell] | None,
    suspect: Sequence[Suspect],
    *,
    worse: bool,
) -> tuple[AttemptKey, ...]:
    """Choose up to ``MOST`` attempts after the onset, of as many jobs as there are.

    They are those whose *level* above (or below) their stratum's is the largest and still no
    outlier among those with the first *suspect*, whose dimension *cells* hold; among all without.
    """
    has = np.array(after)
    if cells is not None and suspect:
        has &= np.array([holds(cell, suspect[0].value) for cell in cells], dtype=np.bool_)
    places = np.flatnonzero(has)
    if not len(places):
        return ()
    typical = float(np.median(level[places]))
    reach = _FARTHEST * _MAD * float(np.median(np.abs(level[places] - typical)))
    sign = 1 if worse else -1
    ordered = sorted(
        places.tolist(),
        key=lambda at: (abs(level[at] - typical) > reach, -sign * level[at], keys[at]),
    )
    chosen: dict[str, AttemptKey] = {}
    for at in ordered:
        chosen.setdefault(keys[at][0], keys[at])
        if len(chosen) == MOST:
            break
    return tuple(chosen.values())
