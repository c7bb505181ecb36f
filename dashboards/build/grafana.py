"""Dashboards as Grafana loads them: its classic JSON, of the schema of 11.6."""

import json
from typing import assert_never

from grafana_foundation_sdk.builders import dashboard as sdk
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    GridPos,
    VariableModel,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from dashboards.build.drawing import drawn
from dashboards.build.kit import Annotation, Dashboard, Link, Row, Source, Variable, VariableKind
from dashboards.build.layout import Place, places
from dashboards.build.queries import datasource_of

EVERY = VariableOption(text=["All"], value=["$__all"], selected=True)


def to_json(dashboard: Dashboard, tag: str) -> str:
    """Return the text of the file that Grafana loads; *tag* is that of its pack."""
    content = json.loads(json.dumps(_built(dashboard, tag).build(), cls=JSONEncoder))
    happened = [_annotation(annotation, dashboard.source) for annotation in dashboard.annotations]
    content["annotations"] = {"list": happened}
    return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _built(dashboard: Dashboard, tag: str) -> sdk.Dashboard:
    built = (
        sdk.Dashboard(dashboard.title)
        .uid(dashboard.uid)
        .description(dashboard.description)
        .tags(["ett", tag, *dashboard.tags])
        .readonly()
        .refresh(dashboard.refresh)
        .time(dashboard.since, "now")
        .timezone("utc")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(_to_pack(tag))
    )
    for link in dashboard.links:
        built.link(_to_elsewhere(link))
    for variable in dashboard.variables:
        built.with_variable(_variable(variable, dashboard.source))
    for number, (part, place) in enumerate(places(dashboard.rows), start=1):
        if isinstance(part, Row):
            built.with_row(_row(part, number, place))
        else:
            built.with_panel(drawn(part, dashboard.source, number, place))
    return built


def _row(row: Row, number: int, place: Place) -> sdk.Row:
    at = GridPos(h=place.height, w=place.width, x=place.x, y=place.y)
    return sdk.Row(row.title).id(number).grid_pos(at)


def _to_pack(tag: str) -> sdk.DashboardLink:
    link = sdk.DashboardLink("Other questions").type(DashboardLinkType.DASHBOARDS).tags([tag])
    return link.keep_time(keep_time=True).include_vars(include_vars=True)


def _to_elsewhere(link: Link) -> sdk.DashboardLink:
    """Variables stay behind: of another pack even ``datasource`` means something else.

    So does the time range where the link leaves Grafana: the service refuses what it did not ask.
    """
    inside = link.url.startswith("/")
    built = sdk.DashboardLink(link.title).type(DashboardLinkType.LINK).url(link.url)
    return built.keep_time(inside).target_blank(not inside)


def _variable(variable: Variable, source: Source) -> Builder[VariableModel]:
    match variable.kind:
        case VariableKind.DATASOURCE:
            return (
                sdk.DatasourceVariable(variable.name)
                .label(variable.label)
                .description(variable.description)
                .type(variable.query)
            )
        case VariableKind.TEXT:
            return _text(variable)
        case VariableKind.CHOICE:
            return _choice(variable)
        case VariableKind.QUERY:
            return _query_variable(variable, source)
        case other:
            assert_never(other)


def _text(variable: Variable) -> sdk.TextBoxVariable:
    return (
        sdk.TextBoxVariable(variable.name)
        .label(variable.label)
        .description(variable.description)
        .default_value(variable.query)
        .current(VariableOption(text=variable.query, value=variable.query, selected=True))
    )


def _choice(variable: Variable) -> sdk.CustomVariable:
    choices = variable.query.split(",")
    built = (
        sdk.CustomVariable(variable.name)
        .label(variable.label)
        .description(variable.description)
        .values(variable.query)
        .options([VariableOption(text=choice, value=choice, selected=False) for choice in choices])
    )
    if variable.several:
        return built.multi(multi=True).include_all(include_all=True).current(EVERY)
    return built.current(VariableOption(text=choices[0], value=choices[0], selected=True))


def _query_variable(variable: Variable, source: Source) -> sdk.QueryVariable:
    built = (
        sdk.QueryVariable(variable.name)
        .label(variable.label)
        .description(variable.description)
        .datasource(datasource_of(source))
        .query(variable.query)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_CASE_INSENSITIVE_ASC)
    )
    if variable.all_value:
        built.all_value(variable.all_value)
    if variable.several:
        built.multi(multi=True).include_all(include_all=True).current(EVERY)
    return built


def _annotation(annotation: Annotation, source: Source) -> dict[str, object]:
    annotation_json: dict[str, object] = {
        "name": annotation.name,
        "datasource": datasource_of(source).to_json(),
        "enable": annotation.shown,
        "hide": False,
        "iconColor": annotation.colour,
    }
    if source is Source.PROMETHEUS:
        target: dict[str, object] = {"expr": annotation.query, "refId": "Anno"}
        return annotation_json | target | {
            "titleFormat": annotation.title, "textFormat": annotation.text, "target": target,
        }  # fmt: skip
    return annotation_json | {
        "target": {
            "editorMode": "code", "format": "table", "rawQuery": True,
            "rawSql": annotation.query, "refId": "Anno",
        }
    }  # fmt: skip
