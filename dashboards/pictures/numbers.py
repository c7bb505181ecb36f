"""Values as Grafana writes them in the units that the dashboards use."""

from datetime import UTC, datetime
from math import isnan
from typing import Any

from ett_service.charts.units import NONE, duration, percent

_THOUSANDS = ("", " K", " Mil", " Bil", " Tri")
_HOUR_S = 3600
_BEHIND = {"bytes": "B", "cps": "/s", "reqps": "/s"}


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
            words = percent(value) if decimals is None else f"{value:.{decimals}%}"
        case "s":
            words = duration(value)
        case "h":
            words = duration(value * _HOUR_S)
        case "dateTimeAsIso":
            words = f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M}"
        case _:
            words = _short(value, decimals) + _BEHIND.get(unit, "")
    return words


def _short(value: float, decimals: int | None) -> str:
    size = 0
    while abs(value) >= 1000 and size < len(_THOUSANDS) - 1:  # noqa: PLR2004
        value, size = value / 1000, size + 1
    if decimals is not None and (size == 0 or decimals):
        digits = decimals
    else:
        digits = 0 if value == round(value) else 2 if abs(value) < 10 else 1  # noqa: PLR2004
    return f"{value:,.{digits}f}{_THOUSANDS[size]}"
