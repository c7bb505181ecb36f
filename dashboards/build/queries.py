"""Queries as Grafana's datasources take them."""

from dataclasses import dataclass
from typing import assert_never

from grafana_foundation_sdk.builders import prometheus
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models.dashboard import DataSourceRef
from grafana_foundation_sdk.models.prometheus import PromQueryFormat, QueryEditorMode

from dashboards.build.kit import Query, Source


@dataclass(frozen=True, slots=True)
class _Sql(Dataquery, Builder[Dataquery]):
    """A query of Grafana's PostgreSQL plugin, which the SDK does not have."""

    query: Query
    letter: str

    def build(self) -> Dataquery:
        return self

    def to_json(self) -> dict[str, object]:
        return {
            "datasource": datasource_of(Source.POSTGRES).to_json(),
            "editorMode": "code",
            "format": self.query.format.value,
            "rawQuery": True,
            "rawSql": self.query.text,
            "refId": self.letter,
        }


def datasource_of(source: Source) -> DataSourceRef:
    """Return the selected datasource."""
    return DataSourceRef(type_val=source.value, uid="${datasource}")


def target(query: Query, source: Source, place: int) -> Builder[Dataquery]:
    """Return the query at *place* of its panel, from 0."""
    letter = chr(ord("A") + place)
    match source:
        case Source.PROMETHEUS:
            return _promql(query, letter)
        case Source.POSTGRES:
            return _Sql(query, letter)
        case other:
            assert_never(other)


def _promql(query: Query, letter: str) -> prometheus.Dataquery:
    dataquery = (
        prometheus.Dataquery()
        .datasource(datasource_of(Source.PROMETHEUS))
        .editor_mode(QueryEditorMode.CODE)
        .expr(query.text)
        .format(PromQueryFormat(query.format.value))
        .legend_format(query.legend or "__auto")
        .exemplar(query.exemplars)
        .ref_id(letter)
    )
    return dataquery.instant() if query.instant else dataquery.range()
