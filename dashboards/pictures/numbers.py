"""Values as Grafana writes them in the units that the dashboards use."""

from collections.abc import Sequence
from datetime import UTC, datetime
from math import isnan
from typing import Any

from ett_service.charts.units import NONE, duration, percent

_THOUSANDS = ("", " K", " Mil", " Bil", " Tri")
_HOUR_S = 3600
_BEHIND = {"cps": "/s", "reqps": "/s"}
_BYTES = (" B", " kB", " MB", " GB", " TB")
_FEW = 0.01


def shown(value: Any, unit: str, decimals: int | None = None) -> str:
    """Write a value; words stay as they are."""
    if value is None or (isinstance(value, float) and isnan(value)):
        return NONE
    if isinstance(value, bool | str):
        return str(value)
    return _number(float(value), unit, decimals)


def _number(value: float, unit: str, decimals: int | None) -> str:
    match unit:
        case "percentunit":
            words = _percent(value) if decimals is None else f"{value:.{decimals}%}"
        case "s":
            words = f"{1000 * value:.3g} ms" if 0 < abs(value) < 1 else duration(value)
        case "bytes":
            words = _short(value, decimals, _BYTES)
        case "h":
            words = duration(value * _HOUR_S)
        case "dateTimeAsIso":
            words = f"{datetime.fromtimestamp(value, UTC):%b %d %H:%M}"
        case _:
            words = _short(value, decimals) + _BEHIND.get(unit, "")
    return words


def _percent(ratio: float) -> str:
    return f"{ratio:.2%}" if 0 < abs(ratio) < _FEW else percent(ratio)


def _short(value: float, decimals: int | None, sizes: Sequence[str] = _THOUSANDS) -> str:
    size = 0
    while abs(value) >= 1000 and size < len(sizes) - 1:  # noqa: PLR2004
        value, size = value / 1000, size + 1
    if decimals is not None and (size == 0 or decimals):
        words = f"{value:,.{decimals}f}"
    else:
        words = f"{value:,.0f}" if value == round(value) else f"{value:.3g}"
    return words + sizes[size]
