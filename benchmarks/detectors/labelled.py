"""Change points on series that people labelled, scored as the authors of that collection do.

The Turing Change Point Dataset: van den Burg and Williams, "An Evaluation of Change Point Detection
Algorithms" (arXiv 2003.06222). One JSON file a series, with ``values`` (null where missing) and, by
annotator, the indices at which something new begins.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.detectors.arrivals import Floats
from benchmarks.detectors.changepoints import changepoints
from benchmarks.detectors.otava import DEFAULT_P, Otava
from ett_service.core.errors import EttError

MARGIN = 5  #: places within which a change point is right
Find = Callable[[Floats], Iterable[int]]
"""Finds the places at which something new begins, in a series without gaps."""

OURS = "ours"
_OTAVA_P = (0.05, 0.01, 0.001, 1e-4, 1e-5, 1e-6)
_PENALTIES = (2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
"""Times the logarithm of the length: Schwarz's for a mean and a place, the modified one (Zhang and
Siegmund, 2007), and larger ones; 0 stands for that of Akaike."""

_SMALLEST = (2, 5, 10)  #: lengths between two change points that PELT is tried with


@dataclass(frozen=True, slots=True)
class Labelled:
    """A series, and where each annotator sees something new begin."""

    name: str
    values: Sequence[float | None]
    annotations: Sequence[frozenset[int]]


class NoSeries(EttError):
    """A folder holds no labelled series."""


def labelled(folder: Path) -> list[Labelled]:
    """Read every series of a folder, in the order of their names.

    Raises:
        NoSeries: where there is none.
    """
    found = [
        Labelled(
            path.stem, told["values"], [frozenset(one) for one in told["annotations"].values()]
        )
        for path in sorted(folder.glob("*.json"))
        for told in (_read(path),)
    ]
    if not found:
        raise NoSeries(f"no labelled series in {folder}", "Name a folder with JSON files of them.")
    return found


def _read(path: Path) -> Mapping[str, Any]:
    told: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
    return told


def f1(annotations: Sequence[frozenset[int]], found: Iterable[int], margin: int = MARGIN) -> float:
    """Return the F1 of change points, as defined in section 3.3 of the paper.

    Precision is by the points of all annotators together, recall the mean over annotators, and
    every series begins with a change point at 0.
    """
    told = {0, *found}
    truths = [{0, *one} for one in annotations]
    precision = _matched(set().union(*truths), told, margin) / len(told)
    recall = sum(_matched(one, told, margin) / len(one) for one in truths) / len(truths)
    return 2 * precision * recall / (precision + recall)


def _matched(truth: set[int], told: set[int], margin: int) -> int:
    """Count what lies near something told, each of which counts for one."""
    left, count = set(told), 0
    for place in sorted(truth):
        near = [one for one in left if abs(one - place) <= margin]
        if near:
            left.remove(min(near, key=lambda one: (abs(one - place), one)))
            count += 1
    return count


@dataclass(frozen=True, slots=True)
class Result:
    """F1 by series of one finder."""

    finder: str
    by_series: Mapping[str, float]

    @property
    def mean(self) -> float:
        """Over the series, each counting the same."""
        return sum(self.by_series.values()) / len(self.by_series)


def compare(series: Sequence[Labelled], otava: Otava) -> list[Result]:
    """Try ours, Otava and PELT, each as it comes."""
    finders: dict[str, list[Find]] = {
        OURS: [changepoints],
        "otava": [_otava(otava, DEFAULT_P)],
        "pelt": [partial(_pelt, penalty=3.0, smallest=2)],
    }
    return _results(series, finders)


def compare_best(series: Sequence[Labelled], otava: Otava) -> list[Result]:
    """Try Otava and PELT with every setting, of which the best of each series counts.

    No one could know it beforehand; the paper calls it the oracle.
    """
    finders: dict[str, list[Find]] = {
        "otava, best": [_otava(otava, p) for p in _OTAVA_P],
        "pelt, best": [
            partial(_pelt, penalty=penalty, smallest=smallest)
            for penalty in (0.0, *_PENALTIES)
            for smallest in _SMALLEST
        ],
    }
    return _results(series, finders)


def _results(series: Sequence[Labelled], finders: Mapping[str, Sequence[Find]]) -> list[Result]:
    return [
        Result(name, {one.name: max(_score(one, find) for find in finds) for one in series})
        for name, finds in finders.items()
    ]


def _score(one: Labelled, find: Find) -> float:
    places = [place for place, value in enumerate(one.values) if value is not None]
    values = np.array([one.values[place] for place in places], dtype=np.float64)
    return f1(one.annotations, (places[place] for place in find(values)))


def _otava(otava: Otava, p: float) -> Find:
    def find(values: Floats) -> list[int]:
        (points,) = otava.change_points([values], p)
        return [point.index for point in points]

    return find


def _pelt(values: Floats, *, penalty: float, smallest: int) -> list[int]:
    """Find shifts of the mean of standardised values, as the paper's own comparison does."""
    from ruptures import KernelCPD  # noqa: PLC0415 - of developers' installations only

    spread = float(values.std())
    if not spread:
        return []
    cost = penalty * np.log(len(values)) if penalty else 4.0
    scaled = (values - values.mean()) / spread
    fitted = KernelCPD(kernel="linear", min_size=smallest).fit(scaled)
    return [int(place) for place in fitted.predict(pen=cost)[:-1]]
