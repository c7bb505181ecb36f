"""The fleet's part of the page, written anew only when something was published."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Lock
from typing import NamedTuple

from sqlalchemy import Connection

from ett_service.exposition.counters import CountersWriter, Written
from ett_service.exposition.gauges import GaugesWriter
from ett_service.exposition.notation import Form
from ett_service.storage import published as storage
from ett_service.storage.published import Published


class FleetWriter:
    """Writes what was published in one format; not to be used by two threads at once."""

    def __init__(self, form: Form, *, cohort_histograms: bool = True) -> None:
        self._counters = CountersWriter(form, cohort_histograms=cohort_histograms)
        self._gauges = GaugesWriter(form)

    def write(self, published: Published) -> Written:
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
            form: FleetWriter(form, cohort_histograms=cohort_histograms) for form in Form
        }
        self._kept: dict[Form, Part] = {}
        self._one_at_a_time = Lock()

    def read(self, form: Form) -> Part:
        """Return the part as of now.

        Raises:
            StorageUnavailable: The database cannot be read.
        """
        with self._one_at_a_time, self._reading() as conn:
            kept = self._kept.get(form)
            if kept is None or kept.revision != storage.revision(conn):
                found = storage.read(conn, with_exemplars=form is Form.OPENMETRICS)
                written = self._writers[form].write(found)
                kept = Part(found.revision, written.text.encode(), written.left_out)
                self._kept[form] = kept
        return kept
