"""How long a save stops the loop."""

from dashboards.build.kit import Format, Kind, Query
from dashboards.build.prometheus.promql import cohorts, grown, quantile
from dashboards.build.prometheus.reading import FleetPanel

_STOPS = cohorts("ett_checkpoint_blocking_seconds_bucket")
_BY = "cluster, cohort, "
_NAME = "{{cluster}} {{cohort}}"

STOPS = (
    FleetPanel(
        title="Stop for a save, p50",
        description="Half of the saves of the day before each point stopped the loop no longer.",
        unit="s",
        low=0,
        queries=(Query(quantile(0.5, _STOPS, _BY), _NAME),),
        width=8,
    ),
    FleetPanel(
        title="Stop for a save, p90",
        description="Nine of ten saves of the day before each point stopped the loop no longer. "
        "Far above p50: storage that is slow at times.",
        unit="s",
        low=0,
        queries=(Query(quantile(0.9, _STOPS, _BY), _NAME),),
        width=8,
    ),
    FleetPanel(
        title="Stops for saves",
        description="How many saves stopped the loop for how long. Bands are kinds of checkpoints.",
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
