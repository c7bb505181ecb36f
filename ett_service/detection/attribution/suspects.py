"""Suspects: which values of which dimensions explain how much of a shift."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from ett_service.core.regressions.finding import Suspect
from ett_service.detection.attribution.dimensions import (
    NEAR_US,
    Columns,
    Dimension,
    DimensionCandidate,
    Shift,
)
from ett_service.detection.sample import Flags, Floats, Ints


def design_weights(values: Floats, units: Ints, after: Flags) -> Floats:
    """Return a weight for each row, 1 where it is the only one of its unit on its side.

    ``k`` rows count as ``k / (1 + (k - 1) r)``, with ``r`` the correlation within units by
    analysis of variance (Kish, Survey Sampling, 1965; Fisher, 1925).
    """
    if not len(values):
        return np.ones(0)
    _, group = np.unique(2 * np.unique(units, return_inverse=True)[1] + after, return_inverse=True)
    counts = np.bincount(group)
    centred = values - np.where(after, _mean(values[after]), _mean(values[~after]))
    means = np.bincount(group, centred) / counts
    rows, groups = len(values), len(counts)
    if rows == groups:
        return np.ones(rows)
    within = float(((centred - means[group]) ** 2).sum()) / (rows - groups)
    between = float((counts * means**2).sum()) / max(1, groups - 2)
    usual = (rows - float((counts**2).sum()) / rows) / max(1, groups - 1)
    spread = between + (usual - 1) * within
    correlation = min(1.0, max(0.0, (between - within) / spread)) if spread > 0 else 0.0
    weights: Floats = 1 / (1 + (counts[group] - 1) * correlation)
    return weights


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


LEAST = 0.5
"""Nothing is named that explains less of the shift."""

MOST_SUSPECTS = 5

_MOST_VALUES = 3  #: of one dimension that are named together
_CHANCE = 0.05  #: of naming anything where nothing is to be found
_LIKELY = 1.0  #: standard errors that are enough for what is new with the onset
_SHIFTED = 2.0  #: standard errors between both sides' means, for there to be a shift
_ENOUGH = 0.8  #: explained by one value, which is not added to then
_WORTH = 0.1  #: of explaining, that another value has to bring
_EQUAL = 0.5  #: of explaining, within which how well it fits decides
_BONUS = 1.25  #: to the fit of what was first seen near the onset
_FEWEST_OF_STRATUM = 3
_CLIP = 2.5  #: robust standard deviations (Huber, Robust Statistics, 1981)
_MAD_TO_SIGMA = 1.4826
_DIGITS = 9


def suspects_of(
    columns: Columns,
    log_us: Floats,
    after: Flags,
    *,
    at_us: Ints | None = None,
    onset_us: int | None = None,
    strata: Ints | None = None,
    units: Ints | None = None,
) -> tuple[Suspect, ...]:
    """Name what a shift of durations is associated with, the best first; nothing where it is not.

    *columns* hold a cell a row for each dimension; *log_us* is the logarithm of each duration,
    *after* whether it is of after the onset. Rows of one of the *strata* are alike but for what is
    looked for: each is measured from where its own stratum was before. With *at_us* and
    *onset_us* what was first seen near the onset is preferred. Rows of one of the *units*, such as
    a job, count for less the more alike they are.
    """
    kept, level = _levels(log_us, after, strata)
    values = _clipped(log_us[kept] - level[kept])
    weights = (
        np.ones(len(values)) if units is None else design_weights(values, units[kept], after[kept])
    )
    figures = Shift(
        values,
        weights,
        after[kept],
        at_us=None if at_us is None else at_us[kept],
        onset_us=onset_us,
        units=None if units is None else units[kept],
    )
    places = np.flatnonzero(kept).tolist()
    return ranked({name: [cells[at] for at in places] for name, cells in columns.items()}, figures)


def above_before(log_us: Floats, after: Flags, strata: Ints) -> Floats:
    """Return by how much each logarithm is above where its stratum was before, if that is known."""
    return log_us - _levels(log_us, after, strata)[1]


def ranked(columns: Columns, figures: Shift) -> tuple[Suspect, ...]:
    """Name what a shift of weighted means is associated with; see :func:`suspects`."""
    if not _is_shift(figures):
        return ()
    dimensions = [Dimension(name, column, figures) for name, column in columns.items()]
    tried = sum(len(one.candidates) for one in dimensions)
    if not tried:
        return ()
    surely = NormalDist().inv_cdf(1 - _CHANCE / 2 / tried)
    found = [_best(one, surely) for one in dimensions]
    named = {one.name: one for one in dimensions}
    chosen = _in_order([one for one in found if one is not None], named, figures.onset_us)
    told = [suspect for one in chosen for suspect in _told(one, named[one.dimension])]
    return tuple(told[:MOST_SUSPECTS])


def _is_shift(figures: Shift) -> bool:
    """Tell whether there is anything to explain."""
    means, variance = [], 0.0
    for rows in (~figures.after, figures.after):
        weight = float(figures.weights[rows].sum())
        if not weight:
            return False
        mean = float((figures.weights * figures.values)[rows].sum()) / weight
        spread = float((figures.weights * (figures.values - mean) ** 2)[rows].sum())
        means.append(mean)
        noise = spread / weight if figures.noise is None else figures.noise
        variance += noise / weight
    return (means[1] - means[0]) ** 2 > _SHIFTED**2 * variance


def _best(dimension: Dimension, surely: float) -> DimensionCandidate | None:
    """Return what of a dimension explains most, with the fewest values; None: not enough."""
    found = [one for one in (_fewest(dimension, surely), _since(dimension)) if one]
    best = max(
        found, key=lambda one: (one.explains - _penalty(one), -len(one.values)), default=None
    )
    return best if best is not None and best.explains >= LEAST else None


def _penalty(one: DimensionCandidate) -> float:
    return _WORTH * (len(one.values) - 1)


def _since(dimension: Dimension) -> DimensionCandidate | None:
    """Take what is new since the onset for one: a change outlives the version that brought it."""
    since_us = dimension.since_us
    first_us = dimension.first_us
    if first_us is None or since_us is None:
        return None
    new = np.flatnonzero(dimension.is_known & (first_us >= since_us))
    in_order = new[np.argsort(first_us[new], kind="stable")].tolist()
    if not 1 < len(in_order) <= _MOST_VALUES:
        return None
    together = replace(dimension.joined(tuple(in_order)), as_one=True)
    return together if together.certainty >= _LIKELY else None


def _fewest(dimension: Dimension, surely: float) -> DimensionCandidate | None:
    """Return the dimension's best value, or the fewest that together explain more."""
    alone = dimension.values
    sure = [
        place
        for place in dimension.candidates.tolist()
        if alone.certainty[place] >= (_LIKELY if dimension.is_new(place) else surely)
        and alone.explains[place] >= _WORTH
    ]
    if not sure:
        return None
    sure.sort(key=lambda place: (-round(float(alone.explains[place]), _DIGITS), place))
    chosen: tuple[int, ...] = (sure[0],)
    best = dimension.joined(chosen)
    for place in sure[1:]:
        if best.explains >= _ENOUGH or len(chosen) == _MOST_VALUES:
            break
        more = dimension.joined((*chosen, place))
        if more.explains >= best.explains + _WORTH:
            chosen, best = more.values, more
    return best


def _in_order(
    found: Sequence[DimensionCandidate], named: Mapping[str, Dimension], onset_us: int | None
) -> list[DimensionCandidate]:
    """Put first, of those that explain about as much as the best, what fits best."""
    if not found:
        return []
    scores = [one.explains - _penalty(one) for one in found]
    best = max(scores)

    def merit(place: int) -> tuple[bool, float, int]:
        one = found[place]
        near = _near(named[one.dimension], one.values, onset_us)
        worth = one.fit * _BONUS if near else one.fit
        ahead = scores[place] >= best - _EQUAL
        return (not ahead, -(worth if ahead else scores[place]), place)

    return [found[place] for place in sorted(range(len(found)), key=merit)]


def _near(dimension: Dimension, values: tuple[int, ...], onset_us: int | None) -> bool:
    if dimension.first_us is None or onset_us is None:
        return False
    return abs(min(int(dimension.first_us[one]) for one in values) - onset_us) <= NEAR_US


def _told(one: DimensionCandidate, dimension: Dimension) -> Iterator[Suspect]:
    for place in one.values[:1] if one.as_one else one.values:
        explains = one.explains if one.as_one else float(dimension.values.explains[place])
        first = None if dimension.first_us is None else int(dimension.first_us[place])
        yield Suspect(
            dimension=one.dimension,
            value=dimension.words[place],
            explains=round(explains, 6),
            attempts=int(dimension.sums.rows[place]),
            first_seen_us=first,
        )


def _levels(values: Floats, after: Flags, strata: Ints | None) -> tuple[Flags, Floats]:
    """Tell which rows can be compared, and where the stratum of each was before."""
    everything = np.ones(len(values), dtype=np.bool_)
    level = np.zeros(len(values))
    if strata is None:
        return everything, level
    kept = np.zeros(len(values), dtype=np.bool_)
    for stratum in np.unique(strata):
        rows = strata == stratum
        before = values[rows & ~after]
        if len(before) >= _FEWEST_OF_STRATUM and np.any(rows & after):
            kept |= rows
            level[rows] = np.median(before)
    return (kept, level) if kept.any() else (everything, level)


def _clipped(values: Floats) -> Floats:
    """Bring far values nearer, so that a tail is no shift."""
    if not len(values):
        return values
    middle = np.median(values)
    reach = _CLIP * _MAD_TO_SIGMA * np.median(np.abs(values - middle))
    return np.clip(values, middle - reach, middle + reach) if reach else values
