"""Change points on series that people labelled, scored as the authors of that data set do.

The Turing Change Point Dataset: van den Burg and Williams, "An Evaluation of Change Point Detection
Algorithms" (arXiv 2003.06222). One JSON file a series, with ``values`` (null where missing) and, by
annotator, the indices at which something new begins.

Our search is made for jobs by cohort and day. It sees a series as one cohort with one job a day,
whose compile takes the exponential of the value, and runs at the end of each day. Each change that
fires is accepted, so that the next one is compared with the new level.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.detectors.engines import OURS, Q_THRESHOLDS, DailySearch
from benchmarks.detectors.otava import DEFAULT_P, Otava
from ett_service.core.errors import EttError
from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Metric, Subject
from ett_service.core.regressions.state import LASTING
from ett_service.core.words import Phase
from ett_service.detection.sample import Durations, Floats, Ints, Options, Sample

MARGIN = 5  #: a change point within so many places is right
FindPlaces = Callable[[Floats], Iterable[int]]
"""Finds the places at which something new begins, in a series without gaps."""

_SUBJECT = Subject(Metric.PHASE_SECONDS, phase=Phase.PT2_COMPILE.value)
_COHORTS = ((("model", "series"),),)
_OPTIONS = replace(Options(), impact_floor=0.0, effect_floor=1.0)
"""A series has no costs, and its unit is arbitrary."""
_MEDIAN_LOG = 26.0  #: of durations in microseconds: two days
_LOG_OF_SPREAD = 0.25  #: the spread of a compile in ``parameters``
_LARGEST_LOG = 14.0  #: from the median; durations stay whole numbers of 64 bits, and precise
_MAD_TO_SIGMA = 1.4826

_OTAVA_P = (0.05, 0.01, 0.001, 1e-4, 1e-5, 1e-6)
_PENALTIES = (2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
"""Times the logarithm of the length: Schwarz's for a mean and its position, the modified one (Zhang
and Siegmund, 2007), and larger ones."""
_AKAIKE = 4.0
_SMALLEST = (2, 5, 10)  #: shortest distances between two change points that PELT is tried with


@dataclass(frozen=True, slots=True)
class LabelledSeries:
    """A series, and where each annotator sees something new begin."""

    name: str
    values: Sequence[float | None]
    annotations: Sequence[frozenset[int]]


class NoLabelledSeries(EttError):
    """A folder holds no labelled series."""


def read_labelled(folder: Path) -> list[LabelledSeries]:
    """Read every series of a folder, in the order of their names.

    Raises:
        NoLabelledSeries: where there is none.
    """
    series = [_read(path) for path in sorted(folder.glob("*.json"))]
    if not series:
        message = f"no labelled series in {folder}"
        raise NoLabelledSeries(message, "Name a folder with JSON files of them.")
    return series


def _read(path: Path) -> LabelledSeries:
    members: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
    annotations = [frozenset(places) for places in members["annotations"].values()]
    return LabelledSeries(path.stem, members["values"], annotations)


def f1(annotations: Sequence[frozenset[int]], places: Iterable[int], margin: int = MARGIN) -> float:
    """Return the F1 of change points, as defined in section 3.3 of the paper.

    Precision is over the labels of all annotators together, recall is the mean over annotators, and
    every series begins with a change point at 0.
    """
    detected = {0, *places}
    labels = [{0, *of_annotator} for of_annotator in annotations]
    precision = _matched(set().union(*labels), detected, margin) / len(detected)
    recalls = [
        _matched(of_annotator, detected, margin) / len(of_annotator) for of_annotator in labels
    ]
    recall = sum(recalls) / len(recalls)
    return 2 * precision * recall / (precision + recall)


def _matched(labels: set[int], detected: set[int], margin: int) -> int:
    """Count the labels that have a change point near; each change point counts for one label."""
    unused, count = set(detected), 0
    for label in sorted(labels):
        near = [place for place in unused if abs(place - label) <= margin]
        if near:
            unused.remove(min(near, key=lambda place: (abs(place - label), place)))
            count += 1
    return count


@dataclass(frozen=True, slots=True)
class FinderScores:
    """F1 by series of one finder of change points."""

    finder: str
    by_series: Mapping[str, float]

    @property
    def mean(self) -> float:
        """The mean over all series, equally weighted."""
        return sum(self.by_series.values()) / len(self.by_series)


def compare(series: Sequence[LabelledSeries], otava: Otava) -> list[FinderScores]:
    """Score our search, Otava and PELT with their default settings, and ours at Otava's level.

    Our default is the share of false findings among all series of a project, a hundred or so. A
    lone series has it all to itself.
    """
    finders: dict[str, list[FindPlaces]] = {
        OURS: [by_search],
        f"{OURS} {DEFAULT_P:g}": [partial(by_search, q=DEFAULT_P)],
        "otava": [_otava(otava, DEFAULT_P)],
        "pelt": [partial(_pelt, penalty=3.0, smallest=2)],
    }
    return _scores(series, finders)


def compare_best(series: Sequence[LabelledSeries], otava: Otava) -> list[FinderScores]:
    """Score each finder with the setting that suits each series best.

    Nobody can know that setting beforehand; the paper calls it the oracle.
    """
    finders: dict[str, list[FindPlaces]] = {
        f"{OURS}, best": [by_search, *(partial(by_search, q=q) for q in Q_THRESHOLDS)],
        "otava, best": [_otava(otava, p) for p in _OTAVA_P],
        "pelt, best": [
            partial(_pelt, penalty=penalty, smallest=smallest)
            for penalty in (None, *_PENALTIES)
            for smallest in _SMALLEST
        ],
    }
    return _scores(series, finders)


def _scores(
    series: Sequence[LabelledSeries], finders: Mapping[str, Sequence[FindPlaces]]
) -> list[FinderScores]:
    return [
        FinderScores(name, {each.name: max(_f1(each, find) for find in finds) for each in series})
        for name, finds in finders.items()
    ]


def _f1(series: LabelledSeries, find: FindPlaces) -> float:
    places = [place for place, value in enumerate(series.values) if value is not None]
    values = np.array([series.values[place] for place in places], dtype=np.float64)
    return f1(series.annotations, (places[index] for index in find(values)))


def by_search(values: Floats, q: float = _OPTIONS.q) -> list[int]:
    """Return the onsets of all changes that fire when our search runs at the end of each day."""
    search = DailySearch(replace(_OPTIONS, q=q))
    onsets = set()
    for sample in _samples(values):
        for finding in search.run(sample):
            if finding.verdict in LASTING:
                onsets.add(finding.onset_us // DAY_US)
                search.accept(finding, sample.as_of_us)
    return sorted(onsets)


def _samples(values: Floats) -> Iterator[Sample]:
    """Yield what is known at the end of each day."""
    us, day = _durations_us(values), np.arange(len(values), dtype=np.int32)
    same, gpus = np.zeros(len(values), dtype=np.int32), np.ones(len(values))
    for days in range(1, len(values) + 1):
        rows = slice(0, days)
        durations = Durations(
            us[rows], day[rows], same[rows], same[rows], day[rows], gpus[rows], us[rows]
        )
        yield Sample(days * DAY_US, days, _COHORTS, {_SUBJECT: durations}, {})


def _durations_us(values: Floats) -> Ints:
    """Return durations whose logarithm is linear in *values*, whatever their unit and origin."""
    centred = values - np.median(values)
    scale = _LOG_OF_SPREAD / (_spread(values) or 1.0)
    farthest = float(np.abs(centred).max(initial=0.0))
    if farthest * scale > _LARGEST_LOG:
        scale = _LARGEST_LOG / farthest
    return np.rint(np.exp(_MEDIAN_LOG + scale * centred)).astype(np.int64)


def _spread(values: Floats) -> float:
    """Return the standard deviation of noise, by the differences of neighbours."""
    steps = np.diff(values)
    if not len(steps):
        return 0.0
    robust = _MAD_TO_SIGMA * float(np.median(np.abs(steps - np.median(steps))))
    return (robust or float(steps.std())) / float(np.sqrt(2))


def _otava(otava: Otava, p: float) -> FindPlaces:
    def find(values: Floats) -> list[int]:
        (points,) = otava.change_points([values], p)
        return [point.index for point in points]

    return find


def _pelt(values: Floats, *, penalty: float | None, smallest: int) -> list[int]:
    """Find shifts of the mean of standardised values, as the paper's own comparison does."""
    from ruptures import KernelCPD  # noqa: PLC0415 - of developers' installations only

    spread = float(values.std())
    if not spread:
        return []
    cost = _AKAIKE if penalty is None else penalty * np.log(len(values))
    scaled = (values - values.mean()) / spread
    fitted = KernelCPD(kernel="linear", min_size=smallest).fit(scaled)
    return [int(place) for place in fitted.predict(pen=cost)[:-1]]
