"""Numbers and regressions as people read them."""

from collections.abc import Mapping
from typing import Any

from ett_service.core.regressions.finding import Unit

NONE = "-"
_MINUTE = 60
_HOUR = 3_600
_KIBI = 1024
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


def many(n: int, thing: str) -> str:
    """Show a count of things: ``1 job``, ``2,300 jobs``."""
    return f"{count(n)} {thing if n == 1 else f'{thing}s'}"


def size(n_bytes: int) -> str:
    """Show bytes in the largest unit of which there is one: ``812 KiB``, ``1.4 GiB``."""
    value, unit = float(n_bytes), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(value) < _KIBI:
            break
        value, unit = value / _KIBI, larger
    return (
        f"{value:.0f} {unit}"
        if unit == "bytes" or abs(value) >= _WHOLE_FROM
        else f"{value:.1f} {unit}"
    )


def _unsigned_zero(value: float, decimals: int) -> str:
    text = f"{value:,.{decimals}f}"
    return text if text.strip("-0.") else text.removeprefix("-")


Answer = Mapping[str, Any]

ALL = "(all)"
"""The cohort of all of a project."""

_RATE_PER = 1_000  # GPU-hours
_TELLING = 3_600.0  # seconds: what runs for less mostly ends well, whatever its MTBF
_PRECISE_UNDER = 9.995  # seconds, as of a step: shorter ones have three digits


def ratio_of_e2e(job: Answer, member: str) -> float | None:
    """Return a ratio of a job or of a run; None while its E2E is empty, of which it is 0."""
    ratio: float | None = job[member] if job["e2e_seconds"] else None
    return ratio


def e2e(job: Answer) -> float | None:
    """Return the seconds of a job or of a run; None while there are none."""
    return job["e2e_seconds"] or None


def subject(finding: Answer) -> str:
    """Name what is watched: the phase and stage if it is the time of one, else the metric."""
    if finding["metric"] in ("phase_seconds", "stage_seconds"):
        return " / ".join(finding[name] for name in ("phase", "stage") if finding[name])
    phase = finding["phase"] if finding["metric"] == "cache_miss_ratio" else ""
    return " ".join(filter(None, (finding["metric"], phase, finding["cause"])))


def subject_in_words(finding: Answer) -> str:
    """Name what is watched as people say it: ``checkpoint blocking``, ``ETT%``, ``pt2_compile``."""
    name, metric = subject(finding), finding["metric"]
    if not name.startswith(metric):
        return name  # a phase or stage, which is called as it was reported
    words = "ETT%" if metric == "ett_ratio" else metric.removesuffix("_seconds").replace("_", " ")
    return words + name.removeprefix(metric)


def cohort(values: Mapping[str, str]) -> str:
    """Name a cohort: ``cluster:eu-1 model:llm-70b``."""
    return " ".join(f"{name}:{value or '(unknown)'}" for name, value in values.items()) or ALL


def value(unit: Unit, number: float | None) -> str:
    """Show a value in the unit of its metric, which is next to nothing for failures by the hour."""
    if number is None:
        return NONE
    match unit:
        case "seconds":
            return f"{number:.3g}s" if 0 < number < _PRECISE_UNDER else duration(number)
        case "ratio":
            return percent(number)
        case "failures_per_gpu_hour":
            return f"{number * _RATE_PER:,.2f} per 1,000 GPU-h"


def factor(ratio: float | None) -> str:
    """Show after over before."""
    return NONE if ratio is None else f"x {ratio:.2f}"


def level_change(finding: Answer, arrow: str = "->") -> str:
    """Show before and after: ``8m 06s -> 13m 24s``."""
    before, after = (
        value(finding["unit"], finding[side]["median"]) for side in ("before", "after")
    )
    return f"{before} {arrow} {after}"


def failure_counts(total: int, infra: int) -> str:
    """Count failures, and the infra failures among them by what that term means."""
    return f"{many(total, 'failure')}, {count(infra)} of them of origin infra or preemption"


def time_between_failures(mtbf: Answer) -> str:
    """Show a mean time with its interval; without a failure what it is at least, if that tells."""
    low = mtbf["low"]
    if mtbf["failures"]:
        ends = f"{duration(low)} to {duration(mtbf['high'])}"
        return f"{duration(mtbf['seconds'])} ({mtbf['confidence']:.0%} interval: {ends})"
    if low is None or low < _TELLING:
        return "not known yet: nothing failed"
    return f"at least {duration(low)}: nothing failed"


def cost(impact: Answer) -> str:
    """Say what a week of it costs, as far as that is known."""
    costs = []
    if impact["gpu_hours_per_week"] is not None:
        costs.append(f"{amount(impact['gpu_hours_per_week'])} GPU-hours a week")
    if impact["cost_per_week"] is not None:
        costs.append(money(impact["cost_per_week"], impact["currency"] or "") + " a week")
    if impact["ett_points"] is not None:
        costs.append(f"{points(impact['ett_points'] / 100)} of the cohort's ETT%")
    return ", ".join(costs) or "unknown: it has neither accelerators nor ETT%"
