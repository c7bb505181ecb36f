"""The form of residuals: their distribution, whatever it is, and what a value says beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ett_service.detection.sample import Floats

CUT = 2.0  #: standard deviations at which scores are cut

_STEP = 0.05
_REACH = 9.0  #: of the grid, in spreads
_GRID = np.arange(-_REACH, _REACH + _STEP / 2, _STEP)
_SHIFTS = (0.4, 1.6)  #: in spreads, that values are scored for: a small one or a large one
_SHIFTS_OF_MODES = (0.4, 1.2)  #: where there are modes: none must be taken for another mode
_SMALL_SHIFT = 0.75  #: in spreads, which moves the mean score as far
_BANDWIDTH = 0.9  #: times the spread by the fifth root of the number (Silverman 1986)
_LEAST_BANDWIDTH = 0.15
_TAIL = 0.02  #: weight of a broad density, in which tails lie
_PRIOR_VALUES = 200.0  #: at so many values the estimated score counts half
_FEWEST_VALUES = 100  #: to tell modes
_VALLEY = 0.6  #: a dip to less than this part of the lower of two peaks parts two modes
_LEAST_MODE = 0.08  #: share of the values
_HALF = 0.5  #: of the values, in the interval whose length is the scale


@dataclass(frozen=True)
class Form:
    """The distribution of residuals of a subject, in spreads, whatever it is.

    Where durations have two modes, those of starts that hit a cache and of those that missed it,
    most of the variance lies between the modes, and a shift of each shows only within them. The
    score of a value is therefore read off the density of all residuals of the baseline: the
    logarithm of how much likelier it is after a shift than before (Neyman and Pearson 1933). Of
    normal values it is a straight line. Far out it is flat (Huber 1964). How many values are of the
    slower mode is scored apart.
    """

    density: Floats  #: by place of the grid
    values: int

    @classmethod
    def of(cls, standard: Floats) -> "Form":
        """Estimate the form of *standard*, residuals over their spread."""
        counted = np.bincount(bins(standard), minlength=len(_GRID)).astype(np.float64)
        values = len(standard)
        width = max(_BANDWIDTH * max(values, 1) ** -0.2, _LEAST_BANDWIDTH) / 2
        share = _smoothed(counted / values, width) if values else _broad()
        return cls((1 - _TAIL) * share + _TAIL * _broad(), values)

    @cached_property
    def has_modes(self) -> bool:
        """Whether values fall into two modes, with a valley between them."""
        return self.values >= _FEWEST_VALUES and self._valley is not None

    @property
    def boundary(self) -> float:
        """Where the slower mode begins; infinite where there is one mode."""
        return float(_GRID[self._valley]) if self._valley is not None else np.inf

    @cached_property
    def _valley(self) -> int | None:
        below = np.cumsum(self.density)
        left = np.maximum.accumulate(self.density)
        right = np.maximum.accumulate(self.density[::-1])[::-1]
        depth = self.density / np.minimum(left, right)
        depth[(below < _LEAST_MODE) | (below > 1 - _LEAST_MODE)] = 1.0
        place = int(depth.argmin())
        return place if depth[place] < _VALLEY else None

    @cached_property
    def _score(self) -> Floats:
        """The score by place of the grid; a small shift of the values moves its mean as far."""
        if self.has_modes:
            return self._scaled(_standard(self._likelier(_SHIFTS_OF_MODES), self.density))
        straight = _standard(np.clip(_GRID, -CUT, CUT), self.density)
        part = self.values / (self.values + _PRIOR_VALUES)
        likelier = _standard(self._likelier(_SHIFTS), self.density)
        return self._scaled(part * likelier + (1 - part) * straight)

    def _likelier(self, shifts: Sequence[float]) -> Floats:
        """Return how much likelier values are after one of *shifts* than before."""
        after = sum(np.interp(_GRID - shift, _GRID, self.density) for shift in shifts)
        return self._with_tails(np.log(after) - np.log(self.density))

    def _with_tails(self, score: Floats) -> Floats:
        """Let scores fall no more above all modes, and rise no more below them."""
        peak = int(self.density.argmax())
        low = high = peak
        if self._valley is not None:
            low = int(self.density[: self._valley].argmax())
            high = self._valley + int(self.density[self._valley :].argmax())
        score = score.copy()
        score[: low + 1] = np.minimum.accumulate(score[: low + 1][::-1])[::-1]
        score[high:] = np.maximum.accumulate(score[high:])
        return score

    def _scaled(self, score: Floats) -> Floats:
        half = _SMALL_SHIFT / 2
        up, down = (self._mean(score, shift) for shift in (half, -half))
        return np.asarray((score - self._mean(score, 0.0)) / max((up - down) / _SMALL_SHIFT, 0.1))

    def _mean(self, score: Floats, shift: float) -> float:
        return float(np.interp(_GRID + shift, _GRID, score) @ self.density)

    @property
    def curvature(self) -> float:
        """How much further a shift by 1 moves the mean score up than 1, and less far down."""
        up, down = (
            self._mean(self._score, shift) for shift in (_SMALL_SHIFT / 2, -_SMALL_SHIFT / 2)
        )
        return (up + down) / (_SMALL_SHIFT**2 / 2)

    @property
    def information(self) -> float:
        """What a value says of the place of all, in spreads: one over the variance of its score."""
        return float(1 / (self._score**2 @ self.density))

    @property
    def rise_after_fit(self) -> float:
        """By how much later values score more than those that a place was fitted to.

        It is over the number of fitted places by value: the covariance of what a value does to the
        place (Hampel 1974) and of the slope of its score. Places are medians, or where there are
        modes the likeliest ones.
        """
        slope = np.gradient(self._score, _STEP)
        if self.has_modes:
            influence = -np.gradient(np.log(self.density), _STEP)
            influence /= float(influence**2 @ self.density)
        else:
            middle = int(np.searchsorted(np.cumsum(self.density), _HALF))
            influence = np.sign(np.arange(len(_GRID)) - middle) / 2 / (self.density[middle] / _STEP)
        return float((influence * slope) @ self.density)

    def score(self, standard: Floats) -> Floats:
        """Return the scores of residuals over their spread."""
        return np.interp(standard, _GRID, self._score)

    def shift_of(self, moved: Floats) -> Floats:
        """Return the shift that moves the mean score so far; infinite where none does."""
        shifts, means = self._means_by_shift
        return np.asarray(np.interp(moved, means, shifts, right=np.inf))

    @cached_property
    def _means_by_shift(self) -> tuple[Floats, Floats]:
        """Shifts, and the mean scores after them, as far as these rise."""
        shifts = np.linspace(0.0, 4 * CUT, 100)
        means = np.maximum.accumulate([self._mean(self._score, shift) for shift in shifts])
        rising = np.flatnonzero(np.diff(means, prepend=-1.0) > 0)
        return shifts[rising], means[rising]

    def shift_between(self, before: Floats, after: Floats, deviation: float) -> float:
        """Return by how much the values *after* lie above those *before*, as is most likely.

        Shifts so large have a standard *deviation*; all are in spreads.
        """
        side = np.repeat(np.arange(2), (len(before), len(after)))
        values = np.concatenate([before, after])
        low, high = self.located(values, side, 2, np.full(2, deviation**-2))
        return float(high - low)

    def located(
        self, standard: Floats, group: NDArray[np.intp], size: int, tightness: Floats
    ) -> Floats:
        """Return by how much each group's residuals lie off, as is most likely.

        *tightness* is one over the variance that such places have, in spreads, by group.
        """
        places = np.arange(-len(_GRID) // 3, len(_GRID) // 3 + 1, 2)
        counted = np.zeros((size, len(_GRID)), dtype=np.float32)
        np.add.at(counted, (group, bins(standard)), 1.0)
        log = np.log(self.density).astype(np.float32)
        shifted = log[np.clip(np.arange(len(_GRID))[:, None] - places, 0, len(_GRID) - 1)]
        prior = 0.5 * np.outer(tightness, (places * _STEP) ** 2)
        best = (counted @ shifted - prior).argmax(axis=1)
        return np.asarray(places[best] * _STEP)


def bins(standard: Floats) -> NDArray[np.intp]:
    """Return the places of the grid."""
    inside = np.clip(np.nan_to_num(standard), -_REACH, _REACH)
    return np.asarray(np.rint((inside + _REACH) / _STEP), dtype=np.intp)


def scale(values: Floats) -> float:
    """Return the standard deviation of the larger mode: by the shortest half (Rousseeuw 1984)."""
    ordered, half = np.sort(values), int(len(values) * _HALF)
    if not half:
        return 0.0
    return float((ordered[half:] - ordered[:-half]).min()) / 1.349


def _smoothed(counted: Floats, width: float) -> Floats:
    reach = int(4 * width / _STEP)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) * _STEP / width) ** 2)
    return np.convolve(counted, kernel / kernel.sum(), mode="same")


def _broad() -> Floats:
    broad = 1 / (1 + (_GRID / 2) ** 2)
    return np.asarray(broad / broad.sum())


def _standard(score: Floats, density: Floats) -> Floats:
    """Give *score* a mean of 0 and a variance of 1, and cut it."""
    for _ in range(2):
        centred = score - score @ density
        score = centred / max(float(np.sqrt(centred**2 @ density)), 1e-9)
        score = np.clip(score, -CUT, CUT)
    return score
