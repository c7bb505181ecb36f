"""The fleet's part of the page, written anew only when something was published."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Lock

from sqlalchemy import Connection

from ett_service.exposition.counters import CountersWriter, Written
from ett_service.exposition.gauges import GaugesWriter
from ett_service.exposition.notation import Form
from ett_service.storage import published as storage
from ett_service.storage.published import Published


class FleetWriter:
    """Writes what was published; not to be used by two threads at once."""

    def __init__(self, *, cohort_histograms: bool = True) -> None:
        self._counters = CountersWriter(cohort_histograms=cohort_histograms)
        self._gauges = GaugesWriter()

    def write(self, published: Published, form: Form) -> Written:
        """Write every family of the fleet."""
        counters = self._counters.write(published, form)
        gauges = self._gauges.write(published.gauges, form)
        return Written(counters.text + gauges.text, counters.left_out + gauges.left_out)


class FleetPart:
    """Reads at each scrape whether something was published, and only then what."""

    def __init__(
        self,
        reading: Callable[[], AbstractContextManager[Connection]],
        *,
        cohort_histograms: bool = True,
    ) -> None:
        self._reading = reading
        self._writer = FleetWriter(cohort_histograms=cohort_histograms)
        self._kept: dict[Form, tuple[int, bytes, int]] = {}
        self._one_at_a_time = Lock()

    def read(self, form: Form) -> tuple[bytes, int]:
        """Return the text in UTF-8, and how many samples had to be left out of it.

        Raises:
            StorageUnavailable: The database cannot be read.
        """
        with self._one_at_a_time, self._reading() as conn:
            revision = storage.revision(conn)
            kept = self._kept.get(form)
            if kept is None or kept[0] != revision:
                published = storage.read(conn)
                written = self._writer.write(published, form)
                kept = (published.revision, written.text.encode(), written.left_out)
                self._kept[form] = kept
        return kept[1], kept[2]
