"""What the settings say about the search for regressions."""

from ett_service.core.dimensions import DIMENSIONS
from ett_service.detection.options import Options, Plan
from ett_service.settings import Settings


def plan_of(settings: Settings) -> Plan:
    """Return the plan that the settings ask for; regressions are each project's own anyway."""
    asked = settings.detection
    return Plan(
        cohort=tuple(name for name in asked.cohort if name in DIMENSIONS),
        strata=tuple(name for name in asked.strata if name in DIMENSIONS),
        options=Options(
            recent_days=asked.recent_days,
            baseline_days=asked.baseline_days,
            effect_floor=asked.effect_floor,
            impact_floor=asked.impact_floor,
            q=asked.q,
        ),
        economy=settings.economy,
    )
