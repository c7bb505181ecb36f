"""Checkpoint blocking."""

from dashboards.build.kit import Format, Kind, Query
from dashboards.build.prometheus.promql import cohorts, grown, quantile
from dashboards.build.prometheus.shared import FleetPanel, fleet_series

_STOPS = cohorts("ett_checkpoint_blocking_seconds_bucket")
_BY = "cluster, cohort, "
_NAME = "{{cluster}} {{cohort}}"

STOPS = (
    fleet_series(
        "Checkpoint blocking, p50",
        "Median over the checkpoints of the day before each point.",
        Query(quantile(0.5, _STOPS, _BY), _NAME),
        unit="s",
        width=8,
    ),
    fleet_series(
        "Checkpoint blocking, p90",
        "90th percentile over the checkpoints of the day before each point. Far "
        "above p50, the storage is slow at times.",
        Query(quantile(0.9, _STOPS, _BY), _NAME),
        unit="s",
        width=8,
    ),
    FleetPanel(
        title="Checkpoint blocking distribution",
        description="Number of checkpoints by how long they blocked the training loop. Bands "
        "are kinds of checkpoints.",
        kind=Kind.HEATMAP,
        unit="s",
        step="6h",
        queries=(
            Query(
                f"sum by (le) ({grown(_STOPS)})",
                "{{le}}",
                format=Format.HEATMAP,
            ),
        ),
        width=8,
    ),
)
