"""Panels as Grafana draws them."""

from collections.abc import Callable, Mapping

from grafana_foundation_sdk.builders import (
    barchart,
    bargauge,
    common,
    dashboard,
    gauge,
    heatmap,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.models.common import (
    BarGaugeDisplayMode,
    BigValueColorMode,
    BigValueGraphMode,
    BigValueTextMode,
    GraphDrawStyle,
    HeatmapCellLayout,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VisibilityMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    DataTransformerConfig,
    FieldColorModeId,
    GridPos,
    Threshold,
    ThresholdsMode,
)
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode

from dashboards.build.fields import mappings, overrides
from dashboards.build.kit import Kind, Paint, Panel, Source, Stack
from dashboards.build.layout import Place
from dashboards.build.queries import datasource_of, target

Drawn = (
    barchart.Panel | bargauge.Panel | gauge.Panel | heatmap.Panel | stat.Panel
    | statetimeline.Panel | table.Panel | timeseries.Panel
)  # fmt: skip


def drawn(panel: Panel, source: Source, number: int, place: Place) -> Drawn:
    """Return the panel as the SDK builds it; *number* is its id on the dashboard."""
    builder = _described(_KINDS[panel.kind](panel), panel)
    builder.id(number)
    builder.grid_pos(GridPos(h=place.height, w=place.width, x=place.x, y=place.y))
    builder.datasource(datasource_of(source))
    for at, query in enumerate(panel.queries):
        builder.with_target(target(query, source, at))
    return builder


def _described(builder: Drawn, panel: Panel) -> Drawn:
    builder.title(panel.title)
    builder.description(panel.description)
    builder.unit(panel.unit)
    builder.no_value(panel.no_value)
    _bounded(builder, panel)
    builder.overrides(list(overrides(panel)))
    builder.mappings(list(mappings(panel)))
    if panel.step:
        builder.interval(panel.step)
    builder.data_links([_data_link(link.title, link.url) for link in panel.links])
    builder.transformations(
        [
            DataTransformerConfig(id_val=transformation.name, options=transformation.options)
            for transformation in panel.transformations
        ]
    )
    return builder


def _bounded(builder: Drawn, panel: Panel) -> None:
    if panel.decimals is not None:
        builder.decimals(panel.decimals)
    if panel.low is not None:
        builder.min(panel.low)
    if panel.high is not None:
        builder.max(panel.high)
    if panel.thresholds:
        builder.thresholds(_thresholds(panel))
        builder.color_scheme(dashboard.FieldColor().mode(FieldColorModeId.THRESHOLDS))


def _thresholds(panel: Panel) -> dashboard.ThresholdsConfig:
    steps = [Threshold(value=step.value, color=step.colour) for step in panel.thresholds]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)


def _data_link(title: str, url: str) -> dashboard.DashboardLink:
    return dashboard.DashboardLink(title).url(url).target_blank(not url.startswith("/"))


def _legend() -> common.VizLegendOptions:
    return (
        common.VizLegendOptions()
        .show_legend(show_legend=True)
        .display_mode(LegendDisplayMode.LIST)
        .placement(LegendPlacement.BOTTOM)
    )


def _tooltip() -> common.VizTooltipOptions:
    return common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING)


def _orientation(panel: Panel) -> VizOrientation:
    return VizOrientation.HORIZONTAL if panel.horizontal else VizOrientation.AUTO


def _latest(panel: Panel) -> common.ReduceDataOptions:
    """Each row of a table is a value of its own; of a series the last one is."""
    rows = any(query.format == "table" for query in panel.queries)
    return common.ReduceDataOptions().calcs(["lastNotNull"]).values(rows)


def _time_series(panel: Panel) -> Drawn:
    builder = timeseries.Panel().legend(_legend()).tooltip(_tooltip())
    builder.line_width(1).show_points(VisibilityMode.AUTO).fill_opacity(0)
    if panel.stack is not Stack.NONE:
        stacking = common.StackingConfig().mode(StackingMode(panel.stack.value)).group("A")
        builder.stacking(stacking).draw_style(GraphDrawStyle.BARS).fill_opacity(80)
    return builder


def _stat(panel: Panel) -> Drawn:
    shown = stat.Panel().reduce_options(_latest(panel)).color_mode(BigValueColorMode.VALUE)
    if panel.named:
        shown.text_mode(BigValueTextMode.VALUE_AND_NAME)
    over_time = any(not query.instant for query in panel.queries)
    return shown.graph_mode(BigValueGraphMode.AREA if over_time else BigValueGraphMode.NONE)


def _gauge(panel: Panel) -> Drawn:
    return (
        gauge.Panel()
        .reduce_options(_latest(panel))
        .show_threshold_labels(show_threshold_labels=True)
    )


def _table(panel: Panel) -> Drawn:
    shown = table.Panel().filterable(filterable=True)
    if not panel.sort_by:
        return shown
    return shown.sort_by(
        [common.TableSortByFieldState().display_name(panel.sort_by).desc(desc=True)]
    )


def _bar_chart(panel: Panel) -> Drawn:
    shown = barchart.Panel().legend(_legend()).tooltip(_tooltip()).fill_opacity(80)
    shown.orientation(_orientation(panel)).stacking(StackingMode(panel.stack.value))
    if panel.x_field and panel.paint is Paint.VALUES:
        shown.color_by_field(panel.x_field)
    return shown.x_field(panel.x_field) if panel.x_field else shown


def _bar_gauge(panel: Panel) -> Drawn:
    shown = bargauge.Panel().reduce_options(_latest(panel)).orientation(_orientation(panel))
    return shown.display_mode(BarGaugeDisplayMode.BASIC)


def _heatmap(panel: Panel) -> Drawn:
    colours = heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Blues").steps(32)
    shown = heatmap.Panel().color(colours).calculate(calculate=False)
    shown.y_axis(heatmap.YAxisConfig().unit(panel.unit))
    return shown.rows_frame(heatmap.RowsHeatmapOptions().layout(HeatmapCellLayout.LE))


def _state_timeline(_panel: Panel) -> Drawn:
    shown = statetimeline.Panel().legend(_legend()).tooltip(_tooltip())
    return shown.merge_values(merge_values=True).show_value(VisibilityMode.NEVER).fill_opacity(90)


_KINDS: Mapping[Kind, Callable[[Panel], Drawn]] = {
    Kind.TIME_SERIES: _time_series,
    Kind.STAT: _stat,
    Kind.GAUGE: _gauge,
    Kind.TABLE: _table,
    Kind.BAR_CHART: _bar_chart,
    Kind.BAR_GAUGE: _bar_gauge,
    Kind.HEATMAP: _heatmap,
    Kind.STATE_TIMELINE: _state_timeline,
}
