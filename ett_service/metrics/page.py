"""The page of ``/metrics``: counters, histograms and gauges of the fleet, as text."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from math import isnan
from threading import Lock
from typing import NamedTuple, Protocol, TypeAlias

from sqlalchemy import Connection

from ett_service.core.fleet.counters import BOUNDS_US
from ett_service.core.intervals import SECOND_US
from ett_service.metrics.families import (
    COUNTERS,
    GAUGES,
    Family,
    Kind,
    TextFormat,
    head,
    labelled,
    number,
)
from ett_service.storage.metrics import counters
from ett_service.storage.metrics.counters import (
    Exemplar,
    GaugeSamples,
    HighWaterMarks,
    Labels,
    PublishedMetrics,
)

Values: TypeAlias = tuple[str, ...]
"""Values of the labels behind cluster and cohort."""

Exemplars: TypeAlias = Mapping[str, Exemplar]
"""Exemplars by the key of their bucket."""

_SUM = "us"
_FAMILIES = {family.key: family for family in COUNTERS}
_BUCKETS = {
    name: {_SUM, *map(str, range(len(family.bounds_us) + 1))} if family.bounds_us else {""}
    for name, family in _FAMILIES.items()
}
"""What may stand behind ``#`` in a key, by family."""

_MOST = 1 << 1000
"""Larger marks, which nothing real can reach, are no floats."""

_EXEMPLAR_LABELS = ("attempt_id",)
_LONGEST_EXEMPLAR = 128
"""What OpenMetrics allows the labels of an exemplar, their names included, in code points."""


class Written(NamedTuple):
    """Lines of a page, and how many samples had to be left out."""

    text: str
    left_out: int


class CountersWriter:
    """Writes marks in one format, and reuses the text of those that did not change.

    Samples that belong to no family, are negative or have a label that UTF-8 cannot hold are left
    out. Exemplars are for OpenMetrics only. Not thread-safe.
    """

    def __init__(self, form: TextFormat, *, cohort_histograms: bool) -> None:
        self._form = form
        self._cohort_histograms = cohort_histograms
        self._rows: dict[Labels, _Row] = {}

    def write(self, published: PublishedMetrics) -> Written:
        """Write every counter and histogram."""
        # A cluster of which nothing is counted beside its cohorts shows as 0.
        marks: dict[Labels, HighWaterMarks] = {(cluster, ""): {} for cluster, _ in published.marks}
        marks |= published.marks
        exemplars = published.exemplars if self._form is TextFormat.OPENMETRICS else {}
        self._rows = {
            labels: self._row(labels, marks[labels], exemplars.get(labels, {}))
            for labels in sorted(marks)
        }
        parts = []
        for family in COUNTERS:
            parts.append(head(family, self._form))
            parts.extend(row.texts.get(family.key, "") for row in self._rows.values())
        return Written("".join(parts), sum(row.left_out for row in self._rows.values()))

    def _row(self, labels: Labels, marks: HighWaterMarks, exemplars: Exemplars) -> "_Row":
        before = self._rows.get(labels)
        same_exemplars = before is not None and before.exemplars == exemplars
        if before is not None and before.marks == marks and same_exemplars:
            return before
        if before is not None and before.layout.keys == marks.keys():
            layout = before.layout
        else:
            layout = lay_out(labels, marks, cohort_histograms=self._cohort_histograms)
        ends = before.ends if before and same_exemplars else _exemplar_texts(exemplars)
        sound = _sound(marks)
        texts = {
            family: "".join(block.filled(sound, ends) for block in blocks)
            for family, blocks in layout.blocks.items()
        }
        left_out = layout.left_out + len(marks) - len(sound) + len(exemplars) - len(ends)
        return _Row(marks, exemplars, layout, ends, texts, left_out)


class Block(Protocol):
    """Lines of one family that share cluster and cohort, with places for their values."""

    def filled(self, marks: HighWaterMarks, ends: Mapping[str, str]) -> str:
        """Return the lines; *ends* are the texts behind buckets, by key."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The lines of one cluster and cohort, without their values."""

    keys: frozenset[str]  #: of the marks that it was made for
    blocks: Mapping[str, Sequence[Block]]  #: by the key of the family
    left_out: int  #: marks without a line


@dataclass(frozen=True, slots=True)
class _Row:
    """One cluster and cohort."""

    marks: HighWaterMarks
    exemplars: Exemplars
    layout: Layout
    ends: Mapping[str, str]  #: the texts of the exemplars, by the key of their bucket
    texts: Mapping[str, str]  #: by the key of the family
    left_out: int


@dataclass(frozen=True, slots=True)
class _Counts:
    template: str
    keys: tuple[str, ...]

    def filled(self, marks: HighWaterMarks, _: Mapping[str, str]) -> str:
        return self.template % tuple(_values(marks, self.keys))


@dataclass(frozen=True, slots=True)
class _Seconds:
    template: str
    keys: tuple[str, ...]

    def filled(self, marks: HighWaterMarks, _: Mapping[str, str]) -> str:
        return self.template % tuple([us / SECOND_US for us in _values(marks, self.keys)])


@dataclass(frozen=True, slots=True)
class _Histogram:
    template: str
    keys: tuple[str, ...]  #: of its buckets
    sum_key: str

    def filled(self, marks: HighWaterMarks, ends: Mapping[str, str]) -> str:
        below = list(accumulate(_values(marks, self.keys)))
        buckets = chain.from_iterable(zip(below, map(ends.get, self.keys, repeat("")), strict=True))
        return self.template % (*buckets, below[-1], marks.get(self.sum_key, 0) / SECOND_US)


def lay_out(labels: Labels, keys: Collection[str], *, cohort_histograms: bool) -> Layout:
    """Lay out the lines of one cluster and cohort: the known series, and those of *keys*.

    Without *cohort_histograms* those of the cohort have no lines, and do not count as left out.
    """
    series, left_out = _series(labels, keys)
    if labels[1] and not cohort_histograms:
        series = {name: values for name, values in series.items() if name not in BOUNDS_US}
    try:
        blocks = {name: _blocks(_FAMILIES[name], labels, values) for name, values in series.items()}
    except UnicodeEncodeError:
        return Layout(frozenset(keys), {}, max(1, len(keys)))
    return Layout(frozenset(keys), blocks, left_out)


def _series(labels: Labels, keys: Collection[str]) -> tuple[dict[str, list[Values]], int]:
    """Return values of labels by family, and how many keys are of no family that belongs here."""
    series = {
        name: dict.fromkeys(family.initial)
        for name, family in _FAMILIES.items()
        if family.of_cohorts == bool(labels[1])
    }
    left_out = 0
    for key in sorted(keys):
        parsed = _parsed(key)
        if parsed is None or parsed[0] not in series:
            left_out += 1
        else:
            series[parsed[0]][parsed[1]] = None
    return {name: list(values) for name, values in series.items()}, left_out


def _parsed(key: str) -> tuple[str, Values] | None:
    """Return the family's key and the labels behind cohort; None for a key of no family."""
    start, _, bucket = key.partition("#")
    name, _, text = start.partition(":")
    family = _FAMILIES.get(name)
    values = tuple(text.split("/")) if text else ()
    if family is None or bucket not in _BUCKETS[name]:
        return None
    return (name, values) if len(values) == len(family.own_labels) else None


def _blocks(family: Family, labels: Labels, sets: Iterable[Values]) -> list[Block]:
    shared = labels if family.of_cohorts else labels[:1]
    series = [(family.series(own), (*shared, *own)) for own in sets]
    if family.kind is Kind.HISTOGRAM:
        return [_histogram(family, key, values) for key, values in series]
    template = "".join(
        f"{_literal(family.name + labelled(family.labels, values))} %r\n" for _, values in series
    )
    keys = tuple(key for key, _ in series)
    return [_Seconds(template, keys) if family.is_seconds else _Counts(template, keys)]


def _histogram(family: Family, key: str, values: Values) -> Block:
    bounds = (*(number(bound_us / SECOND_US) for bound_us in family.bounds_us), "+Inf")
    names = (*family.labels, "le")
    buckets = "".join(
        f"{_literal(f'{family.name}_bucket{labelled(names, (*values, bound))}')} %r%s\n"
        for bound in bounds
    )
    whole = _literal(labelled(family.labels, values))
    template = f"{buckets}{family.name}_count{whole} %r\n{family.name}_sum{whole} %r\n"
    return _Histogram(template, tuple(f"{key}#{i}" for i in range(len(bounds))), f"{key}#{_SUM}")


def _values(marks: HighWaterMarks, keys: Iterable[str]) -> Iterator[int]:
    return map(marks.get, keys, repeat(0))


def _literal(text: str) -> str:
    return text.replace("%", "%%")


def _sound(marks: HighWaterMarks) -> HighWaterMarks:
    amounts = marks.values()
    if not marks or (min(amounts) >= 0 and max(amounts) <= _MOST):
        return marks
    return {key: amount for key, amount in marks.items() if 0 <= amount <= _MOST}


def _exemplar_texts(exemplars: Exemplars) -> dict[str, str]:
    """Write the exemplars; those that OpenMetrics does not allow are left out."""
    texts = {}
    for key, (at_us, us, attempt_id) in exemplars.items():
        if len(_EXEMPLAR_LABELS[0]) + len(attempt_id) <= _LONGEST_EXEMPLAR:
            with suppress(UnicodeEncodeError):
                labels = labelled(_EXEMPLAR_LABELS, (attempt_id,))
                texts[key] = f" # {labels} {us / SECOND_US!r} {at_us / SECOND_US!r}"
    return texts


_Texts: TypeAlias = dict[tuple[str, ...], str | None]
"""Names with their labels, by the values of the labels; None if they cannot be written."""


class GaugesWriter:
    """Writes gauges in one format, and reuses the text of their labels.

    Samples that belong to no family, are no number, repeat labels or have a label that UTF-8
    cannot hold are left out. Not thread-safe.
    """

    def __init__(self, form: TextFormat) -> None:
        self._form = form
        self._texts: dict[str, _Texts] = {family.name: {} for family in GAUGES}

    def write(self, gauges: Mapping[str, GaugeSamples]) -> Written:
        """Write every gauge, by the name of its family."""
        parts = []
        shown = 0
        for family in GAUGES:
            lines = self._lines(family, gauges.get(family.name, ()))
            parts.append(head(family, self._form))
            parts.extend(lines)
            shown += len(lines)
        return Written("".join(parts), sum(map(len, gauges.values())) - shown)

    def _lines(self, family: Family, samples: GaugeSamples) -> list[str]:
        before, texts = self._texts[family.name], {}
        lines = []
        for values, value in samples:
            labels = tuple(values)
            if labels in texts or isnan(value):
                continue
            text = texts[labels] = before.get(labels) or _named(family, labels)
            if text is not None:
                lines.append(f"{text} {number(value)}\n")
        self._texts[family.name] = texts
        return lines


def _named(family: Family, labels: Sequence[str]) -> str | None:
    """Return the name with its labels; None if they do not fit or cannot be written."""
    try:
        return family.name + labelled(family.labels, labels)
    except ValueError:
        return None


class FleetWriter:
    """Writes a publication in one format. Not thread-safe."""

    def __init__(self, form: TextFormat, *, cohort_histograms: bool = True) -> None:
        self._counters = CountersWriter(form, cohort_histograms=cohort_histograms)
        self._gauges = GaugesWriter(form)

    def write(self, published: PublishedMetrics) -> Written:
        """Write every family of the fleet."""
        written = self._counters.write(published)
        gauges = self._gauges.write(published.gauges)
        return Written(written.text + gauges.text, written.left_out + gauges.left_out)


class Part(NamedTuple):
    """The fleet's part of the page as of one revision."""

    revision: int
    text: bytes  #: in UTF-8
    left_out: int  #: samples


class FleetPart:
    """Reads the revision at each scrape, and renders the page if it is new."""

    def __init__(
        self,
        reading: Callable[[], AbstractContextManager[Connection]],
        *,
        cohort_histograms: bool = True,
    ) -> None:
        self._reading = reading
        self._writers = {
            form: FleetWriter(form, cohort_histograms=cohort_histograms) for form in TextFormat
        }
        self._parts: dict[TextFormat, Part] = {}
        self._lock = Lock()

    def read(self, form: TextFormat) -> Part:
        """Return the part as of now.

        Raises:
            StorageUnavailable: The database cannot be read.
        """
        with self._lock, self._reading() as conn:
            part = self._parts.get(form)
            if part is None or part.revision != counters.revision(conn):
                published = counters.read(conn, with_exemplars=form is TextFormat.OPENMETRICS)
                written = self._writers[form].write(published)
                part = Part(published.revision, written.text.encode(), written.left_out)
                self._parts[form] = part
        return part
