"""The fleet's part of the page, written anew only when something was published."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from math import isnan
from threading import Lock
from typing import NamedTuple, TypeAlias

from sqlalchemy import Connection

from ett_service.metrics.counter_text import CountersWriter, Written
from ett_service.metrics.families import GAUGES, Family
from ett_service.metrics.text import TextFormat, head, labelled, number
from ett_service.storage.metrics import counters as storage
from ett_service.storage.metrics.counters import GaugeSamples, PublishedMetrics

_Texts: TypeAlias = dict[tuple[str, ...], str | None]
"""Names with their labels, by the values of these; None where they cannot be written."""


class GaugesWriter:
    """Writes gauges in one format, and keeps the text of their labels for the next time.

    What belongs to no family, is no number, was said before or has a label that UTF-8 cannot hold
    is left out. Not to be used by two threads at once.
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


class FleetWriter:
    """Writes what was published in one format; not to be used by two threads at once."""

    def __init__(self, form: TextFormat, *, cohort_histograms: bool = True) -> None:
        self._counters = CountersWriter(form, cohort_histograms=cohort_histograms)
        self._gauges = GaugesWriter(form)

    def write(self, published: PublishedMetrics) -> Written:
        """Write every family of the fleet."""
        counters = self._counters.write(published)
        gauges = self._gauges.write(published.gauges)
        return Written(counters.text + gauges.text, counters.left_out + gauges.left_out)


class Part(NamedTuple):
    """The fleet's part of the page as of one revision."""

    revision: int
    text: bytes  #: in UTF-8
    left_out: int  #: samples that could not be in it


class FleetPart:
    """Reads at each scrape whether something was published, and only then what."""

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
        self._kept: dict[TextFormat, Part] = {}
        self._one_at_a_time = Lock()

    def read(self, form: TextFormat) -> Part:
        """Return the part as of now.

        Raises:
            StorageUnavailable: The database cannot be read.
        """
        with self._one_at_a_time, self._reading() as conn:
            kept = self._kept.get(form)
            if kept is None or kept.revision != storage.revision(conn):
                found = storage.read(conn, with_exemplars=form is TextFormat.OPENMETRICS)
                written = self._writers[form].write(found)
                kept = Part(found.revision, written.text.encode(), written.left_out)
                self._kept[form] = kept
        return kept
