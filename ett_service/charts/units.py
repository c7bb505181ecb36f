"""Numbers as people read them: % and points with one decimal, durations, GPU-hours, money.

Pages, reports and the command line show them alike. ``None`` stands for a number that does not
exist (a price that nobody gave, a mean of nothing) and is shown as a dash, never as 0.
"""

NONE = "-"
_MINUTE = 60
_HOUR = 3_600
_WHOLE_FROM = 100.0  # amounts from here on need no decimals


def percent(ratio: float | None) -> str:
    """Show a ratio: 0.8844 as ``88.4%``."""
    return NONE if ratio is None else f"{_unsigned_zero(ratio * 100, 1)}%"


def points(difference: float | None) -> str:
    """Show a difference of two ratios in percentage points: -0.009 as ``-0.9 pt``."""
    if difference is None:
        return NONE
    shown = _unsigned_zero(difference * 100, 1)
    return f"{shown if shown.startswith('-') or float(shown) == 0 else '+' + shown} pt"


def duration(seconds: float | None) -> str:
    """Show seconds by their two largest units: ``4.9s``, ``8m 06s``, ``3h 05m``, ``2d 04h``."""
    if seconds is None:
        return NONE
    sign, length = ("-", -seconds) if seconds < 0 else ("", seconds)
    if round(length, 1) < _MINUTE:
        return f"{sign}{length:.1f}s"
    for unit, small, many in (("ms", 1, _MINUTE), ("hm", _MINUTE, 24)):
        units, rest = divmod(round(length / small), _MINUTE)
        if units < many:
            return f"{sign}{units}{unit[0]} {rest:02}{unit[1]}"
    days, hours = divmod(round(length / _HOUR), 24)
    return f"{sign}{days}d {hours:02}h"


def longer(seconds: float | None) -> str:
    """Show a difference of durations with its sign: ``+1m 20s``, ``-4.9s``."""
    if seconds is None:
        return NONE
    shown = duration(seconds)
    if shown.strip("-0.s") == "":
        return shown.removeprefix("-")
    return shown if shown.startswith("-") else f"+{shown}"


def gpu_hours(gpu_seconds: float | None) -> str:
    """Show GPU-seconds as GPU-hours, without the unit: ``12,345``, ``87.3``."""
    return NONE if gpu_seconds is None else amount(gpu_seconds / _HOUR)


def amount(value: float | None) -> str:
    """Show a number of at least three digits without decimals, a smaller one with one."""
    if value is None:
        return NONE
    return _unsigned_zero(value, 0 if abs(value) >= _WHOLE_FROM else 1)


def money(value: float | None, currency: str) -> str:
    """Show an amount of money: ``USD 12,345``, and two decimals below 100."""
    if value is None:
        return NONE
    return f"{currency} {_unsigned_zero(value, 0 if abs(value) >= _WHOLE_FROM else 2)}"


def count(value: int | None) -> str:
    """Show a count, its thousands apart."""
    return NONE if value is None else f"{value:,}"


def _unsigned_zero(value: float, decimals: int) -> str:
    text = f"{value:,.{decimals}f}"
    return text if text.strip("-0.") else text.removeprefix("-")
