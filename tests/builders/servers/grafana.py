"""Runs a panel's queries as Grafana does: variables chosen, intervals worked out, then PromQL."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan

from dashboards.build.kit import Dashboard, Query, Variable, VariableKind
from dashboards.build.variables import filled
from tests.builders.servers.prometheus import Prometheus, Sample

POINTS = 1000
"""A panel's width: the most points that Grafana requests."""

_SCRAPE_S = 1
_UNITS_S = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SINCE = re.compile(r"now-(?P<count>\d+)(?P<unit>[mhdw])")
_LABEL_VALUES = re.compile(r"label_values\((?:(?P<series>.+),\s*)?(?P<label>\w+)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Range:
    """The range of a dashboard, in seconds since the Unix epoch."""

    start_s: float
    end_s: float

    @classmethod
    def of(cls, dashboard: Dashboard, end_s: float) -> "Range":
        """Return the range that a dashboard opens with."""
        since = _SINCE.fullmatch(dashboard.since)
        assert since is not None, dashboard.since
        return cls(end_s - int(since["count"]) * _UNITS_S[since["unit"]], end_s)

    @property
    def step_s(self) -> int:
        """Seconds between two points."""
        return max(_SCRAPE_S, round((self.end_s - self.start_s) / POINTS))

    @property
    def first_s(self) -> float:
        """The first point, where the last one is the end."""
        return self.end_s - self.step_s * ((self.end_s - self.start_s) // self.step_s)

    def variables(self) -> dict[str, str]:
        """Return Grafana's own variables."""
        step, length = self.step_s, round(self.end_s - self.start_s)
        return {
            "__interval": f"{step}s",
            "__interval_ms": str(1000 * step),
            "__rate_interval": f"{max(step + _SCRAPE_S, 4 * _SCRAPE_S)}s",
            "__range": f"{length}s",
            "__range_s": str(length),
            "__range_ms": str(1000 * length),
        }


@dataclass(frozen=True, slots=True)
class Viewer:
    """A reader of a range of the data of *prometheus*."""

    prometheus: Prometheus
    range: Range

    def chosen(self, dashboard: Dashboard, *, single: bool = False) -> dict[str, str]:
        """Choose a value of each variable, of those that may be several all, or the first."""
        values: dict[str, str] = {}
        for variable in dashboard.variables:
            values[variable.name] = self._value(variable, values, single=single)
        return values

    def ask(self, query: Query, chosen: Mapping[str, str]) -> Sequence[Sample]:
        """Return the samples of a query."""
        text = self.filled(query.text, chosen)
        if query.instant:
            return self.prometheus.query(text, self.range.end_s)
        return self.prometheus.over(text, self.range.first_s, self.range.end_s, self.range.step_s)

    def unanswered(self, dashboard: Dashboard) -> Iterator[tuple[str, str]]:
        """Yield the panels that need data, each with a query to which no number is answered."""
        chosen = self.chosen(dashboard)
        for panel in dashboard.panels:
            for query in panel.queries:
                samples = self.ask(query, chosen)
                if panel.needs_data and not query.may_be_empty and not _has_a_number(samples):
                    yield panel.title, query.text

    def filled(self, text: str, chosen: Mapping[str, str]) -> str:
        """Return a query with its variables' values in their places."""
        return filled(text, {**self.range.variables(), **chosen})

    def _value(self, variable: Variable, values: Mapping[str, str], *, single: bool) -> str:
        match variable.kind:
            case VariableKind.QUERY:
                label_values = self._label_values(filled(variable.query, values))
                if variable.several and not single:
                    return variable.all_value or "|".join(map(re.escape, label_values))
                assert label_values, f"${variable.name} has no values: {variable.query}"
                return label_values[0]
            case VariableKind.CHOICE:
                choices = [choice.strip() for choice in variable.query.split(",")]
                return choices[0] if single or not variable.several else "|".join(choices)
            case VariableKind.TEXT | VariableKind.DATASOURCE:
                return variable.query

    def _label_values(self, query: str) -> list[str]:
        parts = _LABEL_VALUES.fullmatch(query)
        assert parts is not None, query
        label: str = parts["label"]
        return sorted(
            {labels[label] for labels in self._series(parts["series"]) if label in labels}
        )

    def _series(self, selector: str | None) -> Iterator[Mapping[str, str]]:
        yield from self.prometheus.ask(
            "series",
            start=self.range.start_s,
            end=self.range.end_s,
            **{"match[]": selector or '{__name__=~".+"}'},
        )


def _has_a_number(samples: Sequence[Sample]) -> bool:
    return any(not isnan(value) for sample in samples for _, value in sample.points)
