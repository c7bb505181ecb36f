"""How single series, columns and values of a panel are drawn."""

from collections.abc import Iterator

from grafana_foundation_sdk.builders.dashboard import DashboardFieldConfigSourceOverrides
from grafana_foundation_sdk.models.dashboard import (
    DynamicConfigValue,
    MatcherConfig,
    ValueMap,
    ValueMappingResult,
)

from dashboards.build.colours import PHASE_COLOURS
from dashboards.build.kit import Field, Link, Paint, Panel


def overrides(panel: Panel) -> list[DashboardFieldConfigSourceOverrides]:
    """Return what differs by name: the colours of categories, then what the panel says."""
    painted = PHASE_COLOURS if panel.paint is Paint.SERIES else {}
    named = [Field(name=name, colour=colour) for name, colour in painted.items()]
    return [_override(field) for field in (*named, *panel.fields)]


def mappings(panel: Panel) -> list[ValueMap]:
    """Return the colours of values: of categories, and what the panel says."""
    painted = PHASE_COLOURS if panel.paint is Paint.VALUES else {}
    colours = {**painted, **panel.value_colours}
    shown = {
        value: ValueMappingResult(color=colour, index=place, text=value)
        for place, (value, colour) in enumerate(colours.items())
    }
    return [ValueMap(shown)] if shown else []


def link_json(link: Link) -> dict[str, object]:
    """Return a link from a value; a page outside Grafana opens beside it."""
    return {"title": link.title, "url": link.url, "targetBlank": not link.url.startswith("/")}


def _override(field: Field) -> DashboardFieldConfigSourceOverrides:
    return (
        DashboardFieldConfigSourceOverrides()
        .matcher(MatcherConfig(id_val="byName", options=field.name))
        .properties([DynamicConfigValue(name, value) for name, value in _properties(field)])
    )


def _properties(field: Field) -> Iterator[tuple[str, object]]:
    colour = {"mode": "fixed", "fixedColor": field.colour} if field.colour else None
    properties: dict[str, object] = {
        "displayName": field.title,
        "unit": field.unit,
        "decimals": field.decimals,
        "color": colour,
        "custom.hidden": field.hidden,
        "custom.cellOptions": {"type": "color-text"} if field.painted else None,
        "custom.lineStyle": {"fill": "dash", "dash": [8, 6]} if field.dashed else None,
        "custom.fillBelowTo": field.fill_down_to,
        "custom.width": field.width,
        "links": [link_json(link) for link in field.links],
    }
    return (
        (name, value) for name, value in properties.items() if value not in (None, "", False, [])
    )
