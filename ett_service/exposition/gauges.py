"""Gauges of the fleet, as text."""

from collections.abc import Mapping, Sequence
from math import isnan
from typing import TypeAlias

from ett_service.exposition.counters import Written
from ett_service.exposition.families import GAUGES, Family
from ett_service.exposition.notation import Form, head, labelled, number
from ett_service.storage.published import Samples

_Series: TypeAlias = tuple[str, tuple[str, ...]]
"""A family's name, and values of its labels."""


class GaugesWriter:
    """Writes gauges in one format, and keeps the text of their labels for the next time.

    What belongs to no family, is no number, was said before or has a label that UTF-8 cannot hold
    is left out. Not to be used by two threads at once.
    """

    def __init__(self, form: Form) -> None:
        self._form = form
        self._texts: dict[_Series, str | None] = {}

    def write(self, gauges: Mapping[str, Samples]) -> Written:
        """Write every gauge, by the name of its family."""
        texts: dict[_Series, str | None] = {}
        parts = []
        shown = 0
        for family in GAUGES:
            parts.append(head(family, self._form))
            for labels, value in gauges.get(family.name, ()):
                series = (family.name, tuple(labels))
                if series in texts or isnan(value):
                    continue
                text = texts[series] = self._text(family, series)
                if text is not None:
                    parts.append(f"{text} {number(value)}\n")
                    shown += 1
        self._texts = texts
        return Written("".join(parts), sum(map(len, gauges.values())) - shown)

    def _text(self, family: Family, series: _Series) -> str | None:
        known = self._texts.get(series)
        return known or _written(family, series[1])


def _written(family: Family, labels: Sequence[str]) -> str | None:
    """Return the name with its labels; None where they do not fit or cannot be written."""
    try:
        return family.name + labelled(family.labels, labels)
    except ValueError:
        return None
