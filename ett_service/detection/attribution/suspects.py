"""Suspects: the values of dimensions that explain most of a shift."""

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
from ett_service.detection.ranks import MAD_TO_SIGMA
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
"""A suspect explains at least this part of the shift."""

MOST_SUSPECTS = 5

_MOST_VALUES = 3  #: of one dimension, together
_CHANCE = 0.05  #: of a suspect where there is no cause
_LIKELY = 1.0  #: standard errors that suffice for values that are new with the onset
_SHIFTED = 2.0  #: standard errors between both sides' means of a shift
_ENOUGH = 0.8  #: part of the shift from which on no value is added
_WORTH = 0.1  #: part of the shift that another value must add
_EQUAL = 0.5  #: part of the shift within which the fit decides
_BONUS = 1.25  #: factor of the fit of a value first seen near the onset
_FEWEST_OF_STRATUM = 3
_CLIP = 2.5  #: robust standard deviations (Huber, Robust Statistics, 1981)
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
    """Return the suspects of a shift of durations, the best first.

    *columns* hold a cell a row for each dimension; *log_us* is the logarithm of each duration,
    *after* whether it lies after the onset. Each row is measured from the level of its stratum
    before. With *at_us* and *onset_us* values first seen near the onset are preferred. Rows of
    one of the *units*, such as a job, weigh less the more they are correlated.
    """
    used, level = _levels(log_us, after, strata)
    values = _clipped(log_us[used] - level[used])
    weights = (
        np.ones(len(values)) if units is None else design_weights(values, units[used], after[used])
    )
    shift = Shift(
        values,
        weights,
        after[used],
        at_us=None if at_us is None else at_us[used],
        onset_us=onset_us,
        units=None if units is None else units[used],
    )
    places = np.flatnonzero(used).tolist()
    return ranked({name: [cells[at] for at in places] for name, cells in columns.items()}, shift)


def above_before(log_us: Floats, after: Flags, strata: Ints) -> Floats:
    """Return each logarithm above the level of its stratum before, if that is known."""
    return log_us - _levels(log_us, after, strata)[1]


def ranked(columns: Columns, shift: Shift) -> tuple[Suspect, ...]:
    """Return the suspects of a shift of weighted means; see :func:`suspects_of`."""
    if not _is_shift(shift):
        return ()
    dimensions = [Dimension(name, column, shift) for name, column in columns.items()]
    tried = sum(len(dimension.candidates) for dimension in dimensions)
    if not tried:
        return ()
    surely = NormalDist().inv_cdf(1 - _CHANCE / 2 / tried)
    best = [_best(dimension, surely) for dimension in dimensions]
    by_name = {dimension.name: dimension for dimension in dimensions}
    chosen = _in_order([each for each in best if each is not None], by_name, shift.onset_us)
    suspects = [suspect for candidate in chosen for suspect in _suspects(candidate, by_name)]
    return tuple(suspects[:MOST_SUSPECTS])


def _is_shift(shift: Shift) -> bool:
    """Whether the sides differ at all."""
    means, variance = [], 0.0
    for rows in (~shift.after, shift.after):
        weight = float(shift.weights[rows].sum())
        if not weight:
            return False
        mean = float((shift.weights * shift.values)[rows].sum()) / weight
        spread = float((shift.weights * (shift.values - mean) ** 2)[rows].sum())
        means.append(mean)
        noise = spread / weight if shift.noise is None else shift.noise
        variance += noise / weight
    return (means[1] - means[0]) ** 2 > _SHIFTED**2 * variance


def _best(dimension: Dimension, surely: float) -> DimensionCandidate | None:
    """Return the values of a dimension that explain most, as few as possible; None: too little."""
    both = [each for each in (_fewest(dimension, surely), _since(dimension)) if each]
    best = max(
        both, key=lambda each: (each.explains - _penalty(each), -len(each.values)), default=None
    )
    return best if best is not None and best.explains >= LEAST else None


def _penalty(candidate: DimensionCandidate) -> float:
    return _WORTH * (len(candidate.values) - 1)


def _since(dimension: Dimension) -> DimensionCandidate | None:
    """Join the values new since the onset: a change outlives the version that brought it."""
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
    candidates: Sequence[DimensionCandidate], by_name: Mapping[str, Dimension], onset_us: int | None
) -> list[DimensionCandidate]:
    """Put first, of those that explain about as much as the best, the one that fits best."""
    if not candidates:
        return []
    scores = [each.explains - _penalty(each) for each in candidates]
    best = max(scores)

    def merit(place: int) -> tuple[bool, float, int]:
        candidate = candidates[place]
        near = _near(by_name[candidate.dimension], candidate.values, onset_us)
        worth = candidate.fit * _BONUS if near else candidate.fit
        ahead = scores[place] >= best - _EQUAL
        return (not ahead, -(worth if ahead else scores[place]), place)

    return [candidates[place] for place in sorted(range(len(candidates)), key=merit)]


def _near(dimension: Dimension, values: tuple[int, ...], onset_us: int | None) -> bool:
    if dimension.first_us is None or onset_us is None:
        return False
    return abs(min(int(dimension.first_us[place]) for place in values) - onset_us) <= NEAR_US


def _suspects(candidate: DimensionCandidate, by_name: Mapping[str, Dimension]) -> Iterator[Suspect]:
    dimension = by_name[candidate.dimension]
    for place in candidate.values[:1] if candidate.as_one else candidate.values:
        alone = float(dimension.values.explains[place])
        explains = candidate.explains if candidate.as_one else alone
        first = None if dimension.first_us is None else int(dimension.first_us[place])
        yield Suspect(
            dimension=candidate.dimension,
            value=dimension.words[place],
            explains=round(explains, 6),
            attempts=int(dimension.sums.rows[place]),
            first_seen_us=first,
        )


def _levels(values: Floats, after: Flags, strata: Ints | None) -> tuple[Flags, Floats]:
    """Mark the rows that can be compared, and return the level of each one's stratum before."""
    everything = np.ones(len(values), dtype=np.bool_)
    level = np.zeros(len(values))
    if strata is None:
        return everything, level
    used = np.zeros(len(values), dtype=np.bool_)
    for stratum in np.unique(strata):
        rows = strata == stratum
        before = values[rows & ~after]
        if len(before) >= _FEWEST_OF_STRATUM and np.any(rows & after):
            used |= rows
            level[rows] = np.median(before)
    return (used, level) if used.any() else (everything, level)


def _clipped(values: Floats) -> Floats:
    """Clip the tails, so that they are no shift."""
    if not len(values):
        return values
    middle = np.median(values)
    reach = _CLIP * MAD_TO_SIGMA * np.median(np.abs(values - middle))
    return np.clip(values, middle - reach, middle + reach) if reach else values
