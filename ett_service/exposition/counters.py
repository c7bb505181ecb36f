"""Counters and histograms of the fleet, as text."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ett_service.core.interval import SECOND_US
from ett_service.exposition.families import COUNTERS
from ett_service.exposition.marked import Lines, lines
from ett_service.exposition.notation import Form, head, labelled
from ett_service.storage.published import Exemplar, Labels, Marks, Published

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

    def __init__(self, form: Form, *, cohort_histograms: bool) -> None:
        self._form = form
        self._cohort_histograms = cohort_histograms
        self._rows: dict[Labels, _Row] = {}

    def write(self, published: Published) -> Written:
        """Write every counter and histogram."""
        shown = sorted(_with_clusters(published.marks).items())
        told = published.exemplars if self._form is Form.OPENMETRICS else {}
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
