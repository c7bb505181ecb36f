"""What goes away from a shift when the rows with a value are left out, for all values at once."""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ett_service.detection.sample import Floats, Ints

Places: TypeAlias = NDArray[np.intp]

_ROWS_IF_NEW = 4.0  #: what is most at hand counts as so many rows of the others
_ROWS_IF_KNOWN = 1.0  #: of a value that was there before
_GROUPS = 4  #: means that are fitted: with the value and without, before and after


class Cells(NamedTuple):
    """What stands in a column: a cell may hold several values, as an attempt has several hosts."""

    codes: Places  #: of the values
    row: Places  #: where each stands
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


def sums(cells: Cells, values: Floats, weights: Floats, after: NDArray[np.bool_]) -> Sums:
    """Sum the weighted *values* of rows before and *after* by what stands in their cells."""
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
class Values:
    """What each value of a dimension explains."""

    explains: Floats  #: 0 to 1
    certainty: Floats  #: of what goes away, in standard errors
    fit: Floats  #: variance between the rows that have it and those that do not

    @classmethod
    def of(cls, found: Sums, noise: float | None) -> "Values":
        """Work it out; *noise* is the variance of a row of weight 1, by default that of the rows.

        See ``detection.suspects`` for the formula. Values without rows after the onset, and those
        whose rows do not lie where the shift went, explain nothing.
        """
        before, after = found.before, found.after
        shift = after.whole_total / after.whole - before.whole_total / before.whole
        prior = np.where(before.weight > 0, _ROWS_IF_KNOWN, _ROWS_IF_NEW) * found.row_weight
        mean0 = _over(before.total, before.weight, before.whole_total / before.whole)
        mean1 = _over(after.total, after.weight, 0.0)
        known = before.weight / (before.weight + prior)
        others0 = _others(before, mean0, prior)
        others1 = _others(after, others0 + known * (mean1 - mean0), prior)
        part0, part1 = before.weight / before.whole, after.weight / after.whole
        removed = part1 * (mean1 - others1) - part0 * (mean0 - others0)
        counts = (after.weight > 0) & ((mean1 - others1) * shift > 0) & (shift != 0)
        explains = np.clip(removed / shift if shift else np.zeros_like(removed), 0.0, 1.0)
        spread = np.sqrt(_variance(found, noise) * _terms(found, prior, known))
        certainty = np.divide(
            np.abs(removed), spread, out=np.full_like(removed, np.inf), where=spread > 0
        )
        return cls(
            np.where(counts, explains, 0.0), np.where(counts, certainty, 0.0), _fit(before, after)
        )


def _over(total: Floats, weight: Floats, otherwise: float) -> Floats:
    return np.divide(total, weight, out=np.full_like(total, otherwise), where=weight > 0)


def _others(side: Side, at_hand: Floats, prior: Floats) -> Floats:
    """Return the mean of the rows without the value, drawn to what is at hand."""
    weight = np.maximum(side.whole - side.weight, 0.0)
    return (side.whole_total - side.total + prior * at_hand) / (weight + prior)


def _terms(found: Sums, prior: Floats, known: Floats) -> Floats:
    """Return the variance of what goes away, for rows whose variance is 1 over their weight."""
    before, after = found.before, found.after
    one0, one1 = (1 / np.maximum(side.weight, found.row_weight / 2) for side in (before, after))
    rest0, rest1 = (np.maximum(side.whole - side.weight, 0.0) for side in (before, after))
    guessed = 1 / (rest0 + prior) + known**2 * (one0 + one1)
    others = (rest1 + prior**2 * guessed) / (rest1 + prior) ** 2
    part0, part1 = before.weight / before.whole, after.weight / after.whole
    return part1**2 * (one1 + others) + part0**2 * (one0 + 1 / (rest0 + prior))


def _variance(found: Sums, noise: float | None) -> Floats:
    """Return the variance of a row of weight 1 around the means of its group."""
    if noise is not None:
        return np.full_like(found.before.weight, noise)
    explained = np.zeros_like(found.before.weight)
    for side in (found.before, found.after):
        explained += _over(side.total**2, side.weight, 0.0)
        rest = np.maximum(side.whole - side.weight, 0.0)
        explained += _over((side.whole_total - side.total) ** 2, rest, 0.0)
    left = np.maximum(found.squares - explained, 0.0)
    return left / max(1.0, found.count - _GROUPS)


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
