"""The dimensions along which a shift is searched, and how much of it each value explains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ett_service.core.intervals import DAY_US
from ett_service.detection.sample import Flags, Floats, Ints

Places: TypeAlias = NDArray[np.intp]

_ROWS_IF_NEW = 4.0  #: of the prior mean, which is that of the nearest rows
_ROWS_IF_KNOWN = 1.0  #: the same, for a value that was there before
_GROUPS = 4  #: means that are fitted: with the value and without, before and after


class ValueCells(NamedTuple):
    """The values of a column: a cell may hold several, as an attempt has several hosts."""

    codes: Places  #: of the values
    row: Places  #: of each value
    kinds: int  #: of values


@dataclass(frozen=True, slots=True)
class Side:
    """One side of the onset: of each value and of all, weight and weighted sum."""

    weight: Floats
    total: Floats
    whole: float  #: of all rows
    whole_total: float


@dataclass(frozen=True, slots=True)
class Sums:
    """A dimension's rows, summed by value."""

    before: Side
    after: Side
    rows: Ints  #: after the onset
    squares: float  #: weighted, of all rows
    count: float  #: rows that count in full, as many as all count for
    row_weight: float  #: the mean of rows that count


def sums(cells: ValueCells, values: Floats, weights: Floats, after: NDArray[np.bool_]) -> Sums:
    """Sum the weighted *values* of rows before and *after* by their cells."""
    codes, row, count = cells
    whole, most = float(weights.sum()), float(max(weights, default=0.0))

    def side(rows: NDArray[np.bool_]) -> Side:
        inside = rows[row]
        of, weight = codes[inside], weights[row[inside]]
        total = weight * values[row[inside]]
        return Side(
            np.bincount(of, weight, minlength=count).astype(np.float64),
            np.bincount(of, total, minlength=count).astype(np.float64),
            float(weights[rows].sum()),
            float((weights * values)[rows].sum()),
        )

    return Sums(
        side(~after),
        side(after),
        np.bincount(codes[after[row]], minlength=count).astype(np.int64),
        float((weights * values**2).sum()),
        whole / most if most else 0.0,
        whole / (int(np.count_nonzero(weights)) or 1),
    )


@dataclass(frozen=True, slots=True)
class ValueEffects:
    """How much of the shift each value of a dimension explains."""

    explains: Floats  #: 0 to 1
    certainty: Floats  #: of the explained shift, in standard errors
    fit: Floats  #: variance between the rows that have it and those that do not

    @classmethod
    def of(cls, sums: Sums, noise: float | None) -> "ValueEffects":
        """Compute the effects; *noise* is the variance of a row of weight 1, by default the rows'.

        Values without rows after the onset, and those whose rows do not lie where the shift went,
        explain nothing.
        """
        before, after = sums.before, sums.after
        shift = after.whole_total / after.whole - before.whole_total / before.whole
        prior = np.where(before.weight > 0, _ROWS_IF_KNOWN, _ROWS_IF_NEW) * sums.row_weight
        mean0 = _over(before.total, before.weight, before.whole_total / before.whole)
        mean1 = _over(after.total, after.weight, 0.0)
        own = before.weight / (before.weight + prior)
        others0 = _others(before, mean0, prior)
        others1 = _others(after, others0 + own * (mean1 - mean0), prior)
        part0, part1 = before.weight / before.whole, after.weight / after.whole
        removed = part1 * (mean1 - others1) - part0 * (mean0 - others0)
        counts = (after.weight > 0) & ((mean1 - others1) * shift > 0) & (shift != 0)
        explains = np.clip(removed / shift if shift else np.zeros_like(removed), 0.0, 1.0)
        spread = np.sqrt(_variance(sums, noise) * _terms(sums, prior, own))
        certainty = np.divide(
            np.abs(removed), spread, out=np.full_like(removed, np.inf), where=spread > 0
        )
        return cls(
            np.where(counts, explains, 0.0), np.where(counts, certainty, 0.0), _fit(before, after)
        )


def _over(total: Floats, weight: Floats, otherwise: float) -> Floats:
    return np.divide(total, weight, out=np.full_like(total, otherwise), where=weight > 0)


def _others(side: Side, prior_mean: Floats, prior: Floats) -> Floats:
    """Return the mean of the rows without the value, shrunk to the prior mean."""
    weight = np.maximum(side.whole - side.weight, 0.0)
    return (side.whole_total - side.total + prior * prior_mean) / (weight + prior)


def _terms(sums: Sums, prior: Floats, own: Floats) -> Floats:
    """Return the variance of the explained shift, for rows of variance 1 over their weight."""
    before, after = sums.before, sums.after
    value0, value1 = (1 / np.maximum(side.weight, sums.row_weight / 2) for side in (before, after))
    rest0, rest1 = (np.maximum(side.whole - side.weight, 0.0) for side in (before, after))
    imputed = 1 / (rest0 + prior) + own**2 * (value0 + value1)
    others = (rest1 + prior**2 * imputed) / (rest1 + prior) ** 2
    part0, part1 = before.weight / before.whole, after.weight / after.whole
    return part1**2 * (value1 + others) + part0**2 * (value0 + 1 / (rest0 + prior))


def _variance(sums: Sums, noise: float | None) -> Floats:
    """Return the variance of a row of weight 1 around the means of its group."""
    if noise is not None:
        return np.full_like(sums.before.weight, noise)
    explained = np.zeros_like(sums.before.weight)
    for side in (sums.before, sums.after):
        explained += _over(side.total**2, side.weight, 0.0)
        rest = np.maximum(side.whole - side.weight, 0.0)
        explained += _over((side.whole_total - side.total) ** 2, rest, 0.0)
    rest = np.maximum(sums.squares - explained, 0.0)
    return rest / max(1.0, sums.count - _GROUPS)


def _fit(before: Side, after: Side) -> Floats:
    """Return the variance between rows with and without it: at all, or after the onset."""
    weight, total = before.whole + after.whole, before.whole_total + after.whole_total
    return np.maximum(
        _between(after.weight, after.total, weight, total),
        _between(before.weight + after.weight, before.total + after.total, weight, total),
    )


def _between(inside: Floats, inside_total: Floats, weight: float, total: float) -> Floats:
    outside = np.maximum(weight - inside, 0.0)
    apart = _over(inside_total, inside, 0.0) - _over(total - inside_total, outside, 0.0)
    return inside * outside / weight**2 * apart**2


Cell: TypeAlias = str | tuple[str, ...]
"""A value, ``""`` where it is unknown; or several, as the hosts of an attempt."""
Columns: TypeAlias = Mapping[str, Sequence[Cell]]

NEAR_US = 2 * DAY_US
"""A value first seen this close to an onset is new with it."""

_FEWEST = 3  #: units after the onset of a value that is tried
_DIGITS = 9


def holds(cell: Cell, value: str) -> bool:
    """Whether a cell holds a value."""
    return cell == value if isinstance(cell, str) else value in cell


@dataclass(frozen=True, slots=True)
class Shift:
    """A shift of the weighted mean of *values*, whose variance is *noise* over their weight."""

    values: Floats
    weights: Floats
    after: Flags
    noise: float | None = None  #: None: that of the rows themselves
    at_us: Ints | None = None
    onset_us: int | None = None
    units: Ints | None = None


@dataclass(frozen=True, slots=True)
class DimensionCandidate:
    """Values of a dimension that together explain a part of the shift."""

    dimension: str
    values: tuple[int, ...]
    explains: float
    certainty: float  #: standard errors
    fit: float  #: how well they separate high values from low ones
    as_one: bool = False  #: whether the later values only continue the first one


class Dimension:
    """The values of a dimension by place, with their sums on both sides."""

    def __init__(self, name: str, column: Sequence[Cell], shift: Shift) -> None:
        self.name = name
        self.words, self._cells = _read(column)
        self._shift = shift
        self.sums = self._summed(self._cells)
        self.values = ValueEffects.of(self.sums, shift.noise)
        self.first_us = self._first_us()
        self.is_known = np.array([word != "" for word in self.words], dtype=np.bool_)
        onset_us = shift.onset_us
        self.since_us = None if onset_us is None else onset_us - NEAR_US
        enough = self._units() >= _FEWEST
        alone = len(self.words) == 1
        self.candidates = np.flatnonzero(self.is_known & enough & (not alone))

    def is_new(self, place: int) -> bool:
        """Whether a value was first seen near the onset."""
        onset_us = self._shift.onset_us
        if self.first_us is None or onset_us is None:
            return False
        return abs(int(self.first_us[place]) - onset_us) <= NEAR_US

    def joined(self, places: tuple[int, ...]) -> DimensionCandidate:
        """Return several values as one candidate."""
        codes, row, _ = self._cells
        has = np.zeros(len(self._shift.values), dtype=np.intp)
        has[row[np.isin(codes, places)]] = 1
        together = ValueEffects.of(
            self._summed(ValueCells(has, np.arange(len(has)), 2)), self._shift.noise
        )
        return DimensionCandidate(
            self.name,
            places,
            explains=round(float(together.explains[1]), _DIGITS),
            certainty=round(float(together.certainty[1]), _DIGITS),
            fit=round(float(together.fit[1]), _DIGITS),
        )

    def _summed(self, cells: ValueCells) -> Sums:
        shift = self._shift
        return sums(cells, shift.values, shift.weights, shift.after)

    def _units(self) -> Ints:
        """Count the units of each value after the onset: its rows, if units are unknown."""
        if self._shift.units is None:
            return self.sums.rows
        codes, row, count = self._cells
        inside = self._shift.after[row]
        pairs = np.unique(np.stack([codes[inside], self._shift.units[row[inside]]]), axis=1)
        return np.bincount(pairs[0], minlength=count).astype(np.int64)

    def _first_us(self) -> Ints | None:
        at_us = self._shift.at_us
        if at_us is None:
            return None
        codes, row, count = self._cells
        first = np.full(count, np.iinfo(np.int64).max, dtype=np.int64)
        np.minimum.at(first, codes, at_us[row])
        return first


def _read(column: Sequence[Cell]) -> tuple[Sequence[str], ValueCells]:
    cells = [(cell,) if isinstance(cell, str) else tuple(dict.fromkeys(cell)) for cell in column]
    words = sorted({word for cell in cells for word in cell})
    places = {word: place for place, word in enumerate(words)}
    codes: Places = np.array([places[word] for cell in cells for word in cell], dtype=np.intp)
    row = np.repeat(np.arange(len(cells)), [len(cell) for cell in cells])
    return words, ValueCells(codes, row, len(words))
