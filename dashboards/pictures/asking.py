"""Asks the queries of a dashboard's panels as Grafana does, of one that reads PromQL or SQL."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import psycopg

from dashboards.build.kit import Dashboard, Panel, VariableKind
from dashboards.build.macros import ALL, Chosen, written_out
from dashboards.build.variables import filled
from dashboards.pictures.frames import Frame, of_rows, of_samples, transformed
from ett_service.core.intervals import SECOND_US
from ett_service.storage.schema.views import READER
from tests.builders.servers.grafana import Range, Viewer
from tests.builders.servers.prometheus import Prometheus

HOUR_S = 3600
_LONG_S = 24 * HOUR_S
_UNITS_S = {"h": HOUR_S, "d": 24 * HOUR_S}


class Steps(NamedTuple):
    """Seconds between two samples: of ranges of days, and of those of hours."""

    long_s: int
    short_s: int


class DashboardViewer(Protocol):
    """Somebody who looks at one dashboard."""

    range: Range

    def frames(self, panel: Panel) -> list[Frame]:
        """Return what a panel draws."""

    def titled(self, text: str) -> str:
        """Return a title with what was chosen in it."""


@dataclass(frozen=True, slots=True)
class _Scraped(Range):
    """A range of data that was scraped every so many seconds."""

    scrape_s: int = 1
    least_s: int = 0  #: from one point to the next, as the panel says

    @property
    def step_s(self) -> int:
        return max(self.scrape_s, self.least_s)

    def variables(self) -> dict[str, str]:
        window = f"{max(self.step_s + self.scrape_s, 4 * self.scrape_s)}s"
        return {**Range.variables(self), "__rate_interval": window}


class OfPrometheus:
    """Looks at a dashboard over Prometheus."""

    def __init__(
        self, prometheus: Prometheus, dashboard: Dashboard, end_s: float, steps: Steps
    ) -> None:
        self._prometheus = prometheus
        self._dashboard = dashboard
        self._steps = steps
        self.range = Range.of(dashboard, end_s)

    def frames(self, panel: Panel) -> list[Frame]:
        """Return what a panel draws."""
        short = self.range.end_s - self.range.start_s < _LONG_S
        span = _Scraped(
            self.range.start_s,
            self.range.end_s,
            self._steps.short_s if short else self._steps.long_s,
            0 if short else _seconds(panel.step),
        )
        viewer = Viewer(self._prometheus, span)
        frames: list[Frame] = []
        for place, query in enumerate(panel.queries):
            letter = f" #{chr(ord('A') + place)}" if len(panel.queries) > 1 else ""
            frames += of_samples(query, viewer.ask(query, self._chosen), letter)
        return transformed(panel, frames)

    def titled(self, text: str) -> str:
        """Return a title with what was chosen in it."""
        return filled(text, self._chosen)

    @cached_property
    def _chosen(self) -> Mapping[str, str]:
        return Viewer(self._prometheus, self.range).chosen(self._dashboard)


class OfPostgres:
    """Looks at a dashboard over PostgreSQL, with a *job* chosen where one is needed."""

    def __init__(
        self, conn: psycopg.Connection[Any], dashboard: Dashboard, end_s: float, chosen: Any
    ) -> None:
        self._conn = conn
        self._dashboard = dashboard
        self._preferred: Mapping[str, Chosen] = chosen
        self.range = Range.of(dashboard, end_s)

    def frames(self, panel: Panel) -> list[Frame]:
        """Return what a panel draws."""
        frames: list[Frame] = []
        for query in panel.queries:
            columns, rows = self._ask(query.text, self._chosen)
            frames += of_rows(query, columns, rows)
        return transformed(panel, frames)

    def titled(self, text: str) -> str:
        """Return a title with what was chosen in it."""
        return filled(text, {name: str(value) for name, value in self._chosen.items()})

    @cached_property
    def _chosen(self) -> Mapping[str, Chosen]:
        return {**dict(self._first()), **self._preferred}

    def _first(self) -> Iterator[tuple[str, Chosen]]:
        for each in self._dashboard.variables:
            if each.kind is VariableKind.QUERY:
                yield each.name, ALL
            elif each.kind is VariableKind.CHOICE:
                choices = [choice.strip() for choice in each.query.split(",")]
                values = [choice.rpartition(" : ")[2] for choice in choices]
                yield each.name, values if each.several else values[0]

    def _ask(self, sql: str, chosen: Mapping[str, Chosen]) -> tuple[list[str], list[Any]]:
        span = (round(self.range.start_s * SECOND_US), round(self.range.end_s * SECOND_US))
        with self._conn.transaction(force_rollback=True):
            self._conn.execute(f"SET LOCAL ROLE {READER}")
            cursor = self._conn.execute(written_out(sql, chosen, *span).encode())
            return [column.name for column in cursor.description or ()], cursor.fetchall()


def _seconds(step: str) -> int:
    return int(step[:-1]) * _UNITS_S[step[-1]] if step else 0
