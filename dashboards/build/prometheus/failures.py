"""The dashboard of failures."""

from dashboards.build.kit import Dashboard, Row, Source
from dashboards.build.prometheus.failure_costs import COSTS
from dashboards.build.prometheus.failure_rates import CAUSES, NOW
from dashboards.build.prometheus.shared import MARKERS, OF_CLUSTERS, TO_JOBS

FAILURES = Dashboard(
    uid="ett-failures",
    title="What breaks, and who owns it?",
    description="How often attempts fail, by which cause and origin, and what that costs. "
    "Failures are counted by cluster, not by model family; hosts and teams are in the database.",
    source=Source.PROMETHEUS,
    variables=OF_CLUSTERS,
    annotations=(MARKERS,),
    links=(TO_JOBS,),
    rows=(
        Row("How often?", NOW),
        Row("Which causes and origins?", CAUSES),
        Row("What does it cost?", COSTS),
    ),
)
