"""The dimensions that a shift is searched along: what stands in them, and what it explains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ett_service.core.interval import DAY_US
from ett_service.detection.leaving_out import Cells, Places, Sums, Values, sums
from ett_service.detection.sample import Floats, Ints

Bools = NDArray[np.bool_]
Cell: TypeAlias = str | tuple[str, ...]
"""A value, ``""`` where it is unknown; or several, as the hosts of an attempt."""
Columns: TypeAlias = Mapping[str, Sequence[Cell]]

NEAR_US = 2 * DAY_US
"""So far from an onset, what is seen first is new with it."""

_FEWEST = 3  #: units after the onset, for a value to be looked at
_DIGITS = 9


def holds(cell: Cell, value: str) -> bool:
    """Tell whether a value stands in a cell."""
    return cell == value if isinstance(cell, str) else value in cell


@dataclass(frozen=True, slots=True)
class Figures:
    """What shifted: weighted means of *values*, whose variance is *noise* over their weight."""

    values: Floats
    weights: Floats
    after: Bools
    noise: float | None = None  #: None: that of the rows themselves
    at_us: Ints | None = None
    onset_us: int | None = None
    units: Ints | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """Values of one dimension that together explain a part of the shift."""

    dimension: str
    values: tuple[int, ...]
    explains: float
    certainty: float  #: standard errors
    fit: float  #: how well having them or not tells high values from low ones
    as_one: bool = False  #: whether the later values only carry on what the first one brought


class Dimension:
    """One dimension's values by place, with their sums on both sides."""

    def __init__(self, name: str, column: Sequence[Cell], figures: Figures) -> None:
        self.name = name
        self.words, self._cells = _read(column)
        self._figures = figures
        self.sums = self._summed(self._cells)
        self.values = Values.of(self.sums, figures.noise)
        self.first_us = self._first_us()
        self.is_known = np.array([word != "" for word in self.words], dtype=np.bool_)
        onset_us = figures.onset_us
        self.since_us = None if onset_us is None else onset_us - NEAR_US
        enough = self._units() >= _FEWEST
        alone = len(self.words) == 1
        self.candidates = np.flatnonzero(self.is_known & enough & (not alone))

    def is_new(self, place: int) -> bool:
        """Tell whether a value was first seen near the onset."""
        onset_us = self._figures.onset_us
        if self.first_us is None or onset_us is None:
            return False
        return abs(int(self.first_us[place]) - onset_us) <= NEAR_US

    def joined(self, places: tuple[int, ...]) -> Candidate:
        """Take several values for one."""
        codes, row, _ = self._cells
        has = np.zeros(len(self._figures.values), dtype=np.intp)
        has[row[np.isin(codes, places)]] = 1
        together = Values.of(self._summed(Cells(has, np.arange(len(has)), 2)), self._figures.noise)
        return Candidate(
            self.name,
            places,
            explains=round(float(together.explains[1]), _DIGITS),
            certainty=round(float(together.certainty[1]), _DIGITS),
            fit=round(float(together.fit[1]), _DIGITS),
        )

    def _summed(self, cells: Cells) -> Sums:
        figures = self._figures
        return sums(cells, figures.values, figures.weights, figures.after)

    def _units(self) -> Ints:
        """Count the units of each value after the onset: rows, unless they are of fewer."""
        if self._figures.units is None:
            return self.sums.rows
        codes, row, count = self._cells
        inside = self._figures.after[row]
        pairs = np.unique(np.stack([codes[inside], self._figures.units[row[inside]]]), axis=1)
        return np.bincount(pairs[0], minlength=count).astype(np.int64)

    def _first_us(self) -> Ints | None:
        at_us = self._figures.at_us
        if at_us is None:
            return None
        codes, row, count = self._cells
        first = np.full(count, np.iinfo(np.int64).max, dtype=np.int64)
        np.minimum.at(first, codes, at_us[row])
        return first


def _read(column: Sequence[Cell]) -> tuple[Sequence[str], Cells]:
    cells = [(cell,) if isinstance(cell, str) else tuple(dict.fromkeys(cell)) for cell in column]
    words = sorted({word for cell in cells for word in cell})
    places = {word: place for place, word in enumerate(words)}
    codes: Places = np.array([places[word] for cell in cells for word in cell], dtype=np.intp)
    row = np.repeat(np.arange(len(cells)), [len(cell) for cell in cells])
    return words, Cells(codes, row, len(words))
