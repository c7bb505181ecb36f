"""The page of metrics: what the ledgers say at a scrape, as Prometheus families.

Gross seconds tell who owned a second as it was reported; deductions move seconds out of a phase
when later facts give them another category. Ratios are for those who read.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString
from sqlalchemy import Connection

from ett_service.exposition.scrape import Cohort, Scrape, Times
from ett_service.exposition.totals import BUCKETS_S

_COHORT = ("cluster", "cohort")
_MICROSECONDS = 1_000_000
_BOUNDS = tuple(
    floatToGoString(float(bound))  # type: ignore[no-untyped-call]
    for bound in BUCKETS_S
)


class LedgerCollector(Collector):
    """Reads the database at each scrape; ``reading`` gives it a connection."""

    def __init__(
        self, reading: Callable[[], AbstractContextManager[Connection]], version: str
    ) -> None:
        self._reading = reading
        self._version = version

    def collect(self) -> Iterator[Metric]:
        """Yield every family, with or without samples."""
        with self._reading() as conn:
            scrape = Scrape(conn)
        yield _phases(scrape)
        yield _deductions(scrape)
        yield _failures(scrape)
        yield _running(scrape)
        yield _histogram(
            "ett_time_to_start_seconds", "Hardware allocated to the first loop.", scrape.starts
        )
        yield _histogram(
            "ett_time_to_recover_seconds",
            "End of the interrupted attempt's last loop to the next loop.",
            scrape.recoveries,
        )
        yield InfoMetricFamily("ett_build", "The running build.", {"version": self._version})


def _phases(scrape: Scrape) -> Metric:
    family = CounterMetricFamily(
        "ett_phase_seconds_total",
        "Wall seconds by reported phase; phases sum to E2E.",
        labels=[*_COHORT, "phase"],
    )
    for cohort, by_phase in scrape.phase_us.items():
        for phase, us in by_phase.items():
            family.add_metric([*cohort, phase], us / _MICROSECONDS)
    return family


def _deductions(scrape: Scrape) -> Metric:
    family = CounterMetricFamily(
        "ett_deducted_seconds_total",
        "Seconds of a phase found to belong to another category.",
        labels=[*_COHORT, "phase", "category"],
    )
    for cohort, deducted in scrape.deducted_us.items():
        for (phase, category), us in deducted.items():
            family.add_metric([*cohort, phase, category], us / _MICROSECONDS)
    return family


def _failures(scrape: Scrape) -> Metric:
    family = CounterMetricFamily(
        "ett_failures_total",
        "Attempts that ended failed, preempted or lost.",
        labels=["cluster", "origin", "cause"],
    )
    for labels, count in scrape.failures.items():
        family.add_metric(labels, count)
    return family


def _running(scrape: Scrape) -> Metric:
    family = GaugeMetricFamily(
        "ett_attempts_running", "Attempts now running.", labels=list(_COHORT)
    )
    for cohort, count in scrape.running.items():
        family.add_metric(cohort, count)
    return family


def _histogram(name: str, text: str, times: Mapping[Cohort, Times]) -> Metric:
    family = HistogramMetricFamily(name, text, labels=list(_COHORT))
    for cohort, seen in times.items():
        below = [(bound, float(count)) for bound, count in zip(_BOUNDS, seen.below, strict=True)]
        family.add_metric(cohort, [*below, ("+Inf", seen.count)], seen.us / _MICROSECONDS)
    return family
