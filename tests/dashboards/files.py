"""The dashboards as Grafana loads them, read from the committed files."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from dashboards.build import PACKS

ROOT = Path(__file__).parents[2] / "dashboards"


@cache
def written(uid: str) -> dict[str, Any]:
    """Return the file of a dashboard."""
    (path,) = (ROOT / pack.folder / f"{uid}.json" for pack in PACKS for dashboard in pack.dashboards
               if dashboard.uid == uid)  # fmt: skip
    content: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return content


UIDS = [dashboard.uid for pack in PACKS for dashboard in pack.dashboards]


def within(value: Any, key: str) -> Iterator[Any]:
    """Yield whatever stands under *key* anywhere inside *value*."""
    if isinstance(value, dict):
        if key in value:
            yield value[key]
        for inner in value.values():
            yield from within(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from within(inner, key)


def drawn(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the panels of a file that are no titles of rows."""
    return [panel for panel in content["panels"] if panel["type"] != "row"]
