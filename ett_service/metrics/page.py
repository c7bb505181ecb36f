"""The fleet's part of the page, rendered only after a new publication."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from math import isnan
from threading import Lock
from typing import NamedTuple, TypeAlias

from sqlalchemy import Connection

from ett_service.metrics.counter_text import CountersWriter, Written
from ett_service.metrics.families import GAUGES, Family
from ett_service.metrics.text import TextFormat, head, labelled, number
from ett_service.storage.metrics import counters
from ett_service.storage.metrics.counters import GaugeSamples, PublishedMetrics

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
