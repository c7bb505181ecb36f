"""How groups of the fleet are called, and the numbers of one that several sections use."""

from collections.abc import Sequence

from ett_service.report.page import Answer

UNKNOWN = "(unknown)"
OTHER = "all smaller cohorts"
_HOUR = 3600.0


def name_of(group: Answer, dimensions: Sequence[str]) -> str:
    """Return what to call *group*: its values, or that it holds what is too small."""
    if group.get("other"):
        return OTHER
    return " / ".join(group["group"].get(dimension) or UNKNOWN for dimension in dimensions)


def lost_gpu_seconds(group: Answer) -> float:
    """Return the accelerators' time that was held and was not effective."""
    held: float = group["gpu_seconds"]
    effective: float = group["gpu_categories"].get("effective_training", 0.0)
    return held - effective


def ett_ratio(group: Answer) -> float | None:
    """Return the headline; None where no time has a weight."""
    ratio: float | None = group["ett_ratio"] if group["weighted_seconds"] else None
    return ratio


def lost_by_category(group: Answer) -> dict[str, float]:
    """Return GPU-hours by category, but for effective training."""
    return {
        category: seconds / _HOUR
        for category, seconds in group["gpu_categories"].items()
        if category != "effective_training" and seconds > 0
    }


def share(part: float, whole: float) -> float | None:
    """Divide; None where there is no whole."""
    return part / whole if whole else None
