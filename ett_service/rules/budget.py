"""Alerts on the budget of ineffective time."""

from collections.abc import Iterator

from ett_service.rules.objective import (
    BUDGET_DAYS,
    LEAST_GPU_HOURS,
    Burn,
    Objective,
    decimal,
    percent,
)
from ett_service.rules.rule import Alert, Scale


def alerts(objective: Objective, scale: Scale) -> Iterator[Alert]:
    """Yield one for each speed at which the budget burns."""
    for burn in objective.burns:
        yield Alert(
            burn.name,
            _expr(burn, objective, scale),
            severity=burn.severity,
            summary=(
                f"{{{{ $labels.cluster }}}} burns its ETT budget over {decimal(burn.factor)}x "
                "too fast"
            ),
            description=(
                "{{ $value | humanizePercentage }} of accelerator time was not effective training "
                f"over {burn.long}. This fires above {percent(objective.fires_at(burn))}; over "
                f"{BUDGET_DAYS} days {percent(objective.budget)} are allowed."
            ),
            dashboard="/d/ett-fleet?var-cluster={{ $labels.cluster | urlquery }}",
            wait=burn.wait,
        )


def _expr(burn: Burn, objective: Objective, scale: Scale) -> str:
    limit = decimal(objective.fires_at(burn))
    ratio = "cluster:ett_ineffective_per_weighted_seconds:ratio_rate"
    used = "cluster:ett_phase_weighted_seconds:rate"
    rate = f"{used}{burn.long}"
    least = f"{LEAST_GPU_HOURS} * {scale.seconds('1h')}"
    conditions = [
        f"{ratio}{burn.long} > {limit}",
        f"{ratio}{burn.short} > {limit}",
        f"{rate} * {scale.seconds(burn.long)} > {least}",
    ]
    if burn.filled:
        conditions.append(f"{rate} > {used}{burn.short} / {burn.filled}")
    return "\nand\n".join(f"  {condition}" for condition in conditions)
