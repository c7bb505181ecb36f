"""Gauges of the fleet, as text."""

from collections.abc import Mapping, Sequence
from math import isnan
from typing import TypeAlias

from ett_service.exposition.counters import Written
from ett_service.exposition.families import GAUGES, Family
from ett_service.exposition.notation import Form, head, labelled, number
from ett_service.storage.published import Samples

_Texts: TypeAlias = dict[tuple[str, ...], str | None]
"""Names with their labels, by the values of these; None where they cannot be written."""


class GaugesWriter:
    """Writes gauges in one format, and keeps the text of their labels for the next time.

    What belongs to no family, is no number, was said before or has a label that UTF-8 cannot hold
    is left out. Not to be used by two threads at once.
    """

    def __init__(self, form: Form) -> None:
        self._form = form
        self._texts: dict[str, _Texts] = {family.name: {} for family in GAUGES}

    def write(self, gauges: Mapping[str, Samples]) -> Written:
        """Write every gauge, by the name of its family."""
        parts = []
        shown = 0
        for family in GAUGES:
            lines = self._lines(family, gauges.get(family.name, ()))
            parts.append(head(family, self._form))
            parts.extend(lines)
            shown += len(lines)
        return Written("".join(parts), sum(map(len, gauges.values())) - shown)

    def _lines(self, family: Family, samples: Samples) -> list[str]:
        known, texts = self._texts[family.name], {}
        lines = []
        for said, value in samples:
            labels = tuple(said)
            if labels in texts or isnan(value):
                continue
            text = texts[labels] = known.get(labels) or _written(family, labels)
            if text is not None:
                lines.append(f"{text} {number(value)}\n")
        self._texts[family.name] = texts
        return lines


def _written(family: Family, labels: Sequence[str]) -> str | None:
    """Return the name with its labels; None where they do not fit or cannot be written."""
    try:
        return family.name + labelled(family.labels, labels)
    except ValueError:
        return None
