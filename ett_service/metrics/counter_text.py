"""Counters and histograms of the fleet, as text."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from typing import NamedTuple, Protocol, TypeAlias

from ett_service.core.fleet.counters import BOUNDS_US
from ett_service.core.intervals import SECOND_US
from ett_service.metrics.families import COUNTERS, Family, Kind
from ett_service.metrics.text import TextFormat, head, labelled, number
from ett_service.storage.metrics.counters import Exemplar, Labels, Marks, PublishedMetrics

_SUM = "us"

Values: TypeAlias = tuple[str, ...]
"""Of the labels behind cluster and cohort."""

_FAMILIES = {family.key: family for family in COUNTERS}
_BUCKETS = {
    name: {_SUM, *map(str, range(len(family.bounds_us) + 1))} if family.bounds_us else {""}
    for name, family in _FAMILIES.items()
}
"""What may stand behind ``#`` in a key."""


class Block(Protocol):
    """Lines of one family that share cluster and cohort, with places for their values."""

    def filled(self, marks: Marks, exemplars: Mapping[str, str]) -> str:
        """Return the lines; *exemplars* are what stands behind buckets, by their keys."""


@dataclass(frozen=True, slots=True)
class _Counts:
    template: str
    keys: tuple[str, ...]

    def filled(self, marks: Marks, _: Mapping[str, str]) -> str:
        return self.template % tuple(_of(marks, self.keys))


@dataclass(frozen=True, slots=True)
class _Seconds:
    template: str
    keys: tuple[str, ...]

    def filled(self, marks: Marks, _: Mapping[str, str]) -> str:
        return self.template % tuple([us / SECOND_US for us in _of(marks, self.keys)])


@dataclass(frozen=True, slots=True)
class _Histogram:
    template: str
    keys: tuple[str, ...]  #: of its buckets
    sum_key: str

    def filled(self, marks: Marks, exemplars: Mapping[str, str]) -> str:
        below = list(accumulate(_of(marks, self.keys)))
        ends = map(exemplars.get, self.keys, repeat(""))
        buckets = chain.from_iterable(zip(below, ends, strict=True))
        return self.template % (*buckets, below[-1], marks.get(self.sum_key, 0) / SECOND_US)


@dataclass(frozen=True, slots=True)
class Lines:
    """What one cluster and cohort has on the page."""

    keys: frozenset[str]  #: of the marks that it was made for
    blocks: Mapping[str, Sequence[Block]]  #: by the key of the family
    left_out: int  #: marks that have no line


def lines(labels: Labels, keys: Collection[str], *, cohort_histograms: bool) -> Lines:
    """Lay out the lines of one cluster and cohort: those known beforehand and those of *keys*.

    Without *cohort_histograms* those of the cohort have no lines, which is not counted.
    """
    values, left_out = _sorted_out(labels, keys)
    if labels[1] and not cohort_histograms:
        values = {name: of for name, of in values.items() if name not in BOUNDS_US}
    try:
        blocks = {name: _blocks(_FAMILIES[name], labels, of) for name, of in values.items()}
    except UnicodeEncodeError:
        return Lines(frozenset(keys), {}, max(1, len(keys)))
    return Lines(frozenset(keys), blocks, left_out)


def _sorted_out(labels: Labels, keys: Collection[str]) -> tuple[dict[str, list[Values]], int]:
    """Return values of labels by family, and how many keys are of no family that belongs here."""
    values = {
        name: dict.fromkeys(family.known)
        for name, family in _FAMILIES.items()
        if _of_cohorts(family) == bool(labels[1])
    }
    left_out = 0
    for key in sorted(keys):
        place = _place(key)
        if place is None or place[0] not in values:
            left_out += 1
        else:
            values[place[0]][place[1]] = None
    return {name: list(of) for name, of in values.items()}, left_out


def _of(marks: Marks, keys: Iterable[str]) -> Iterator[int]:
    return map(marks.get, keys, repeat(0))


def _of_cohorts(family: Family) -> bool:
    return "cohort" in family.labels


def _place(key: str) -> tuple[str, Values] | None:
    """Return the key of the family and the labels behind cohort; None where there is no family."""
    series, _, bucket = key.partition("#")
    name, _, said = series.partition(":")
    family = _FAMILIES.get(name)
    values = tuple(said.split("/")) if said else ()
    if family is None or bucket not in _BUCKETS[name]:
        return None
    own = len(family.labels) - (2 if _of_cohorts(family) else 1)
    return (name, values) if len(values) == own else None


def _blocks(family: Family, labels: Labels, sets: Iterable[Values]) -> list[Block]:
    shared = labels if _of_cohorts(family) else labels[:1]
    series = [(family.series(own), (*shared, *own)) for own in sets]
    if family.kind is Kind.HISTOGRAM:
        return [_histogram(family, key, values) for key, values in series]
    template = "".join(
        f"{_literal(family.name + labelled(family.labels, values))} %r\n" for _, values in series
    )
    keys = tuple(key for key, _ in series)
    of_seconds = family.key.endswith("_seconds")
    return [_Seconds(template, keys) if of_seconds else _Counts(template, keys)]


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


def _literal(text: str) -> str:
    return text.replace("%", "%%")


_MOST = 1 << 1000
"""Marks beyond it, which nothing can reach in earnest, are no floats."""

_LONGEST_EXEMPLAR = 128
"""What OpenMetrics allows the labels of an exemplar, their names included, in code points."""

_EXEMPLAR = ("attempt_id",)

Told: TypeAlias = Mapping[str, Exemplar]
"""Exemplars by the key of their bucket."""


class Written(NamedTuple):
    """Lines of a page, and how many samples could not be among them."""

    text: str
    left_out: int


@dataclass(frozen=True, slots=True)
class _Row:
    """One cluster and cohort."""

    marks: Marks
    told: Told
    lines: Lines
    exemplars: Mapping[str, str]  #: what stands behind buckets, by their keys
    texts: Mapping[str, str]  #: by the key of the family
    left_out: int


class CountersWriter:
    """Writes marks in one format, and keeps what can be used again the next time.

    What belongs to no family, is negative or has a label that UTF-8 cannot hold is left out.
    Exemplars are for OpenMetrics only. Not to be used by two threads at once.
    """

    def __init__(self, form: TextFormat, *, cohort_histograms: bool) -> None:
        self._form = form
        self._cohort_histograms = cohort_histograms
        self._rows: dict[Labels, _Row] = {}

    def write(self, published: PublishedMetrics) -> Written:
        """Write every counter and histogram."""
        shown = sorted(_with_clusters(published.marks).items())
        told = published.exemplars if self._form is TextFormat.OPENMETRICS else {}
        self._rows = {
            labels: self._row(labels, marks, told.get(labels, {})) for labels, marks in shown
        }
        parts = []
        for family in COUNTERS:
            parts.append(head(family, self._form))
            parts.extend(row.texts.get(family.key, "") for row in self._rows.values())
        return Written("".join(parts), sum(row.left_out for row in self._rows.values()))

    def _row(self, labels: Labels, marks: Marks, told: Told) -> _Row:
        before = self._rows.get(labels)
        if before is not None and before.marks == marks and before.told == told:
            return before
        if before is not None and before.lines.keys == marks.keys():
            laid_out = before.lines
        else:
            laid_out = lines(labels, marks, cohort_histograms=self._cohort_histograms)
        exemplars = before.exemplars if before and before.told == told else _exemplars(told)
        sound = _sound(marks)
        texts = {
            family: "".join(block.filled(sound, exemplars) for block in blocks)
            for family, blocks in laid_out.blocks.items()
        }
        odd = len(marks) - len(sound) + len(told) - len(exemplars)
        return _Row(marks, told, laid_out, exemplars, texts, laid_out.left_out + odd)


def _with_clusters(marks: Mapping[Labels, Marks]) -> dict[Labels, Marks]:
    """Add clusters of which nothing is counted beside their cohorts, so that it shows as 0."""
    return {(cluster, ""): {} for cluster, _ in marks} | dict(marks)


def _sound(marks: Marks) -> Marks:
    amounts = marks.values()
    if not marks or (min(amounts) >= 0 and max(amounts) <= _MOST):
        return marks
    return {key: amount for key, amount in marks.items() if 0 <= amount <= _MOST}


def _exemplars(told: Told) -> dict[str, str]:
    """Write what stands behind the buckets; what may not is left out."""
    written = {}
    for key, (at_us, us, attempt_id) in told.items():
        if len(_EXEMPLAR[0]) + len(attempt_id) <= _LONGEST_EXEMPLAR:
            with suppress(UnicodeEncodeError):
                labels = labelled(_EXEMPLAR, (attempt_id,))
                written[key] = f" # {labels} {us / SECOND_US!r} {at_us / SECOND_US!r}"
    return written
