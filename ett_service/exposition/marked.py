"""Lines of counters and histograms whose values are left open: text is made once, then filled in.

Values change with every scrape and labels hardly ever, and it is the labels that cost.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from typing import Protocol, TypeAlias

from ett_service.core.counters import BOUNDS_US
from ett_service.core.interval import SECOND_US
from ett_service.exposition.families import COUNTERS, Family, Kind
from ett_service.exposition.notation import labelled, number
from ett_service.storage.published import Labels, Marks

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
