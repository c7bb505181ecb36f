"""The dashboard of failures."""

from dashboards.build.kit import Dashboard, Link, Row, Source, ett_url, to_page
from dashboards.build.prometheus.failure_costs import COSTS
from dashboards.build.prometheus.failure_rates import CAUSES, NOW
from dashboards.build.prometheus.shared import MARKERS, OF_CLUSTERS, TO_JOBS

FAILURES = Dashboard(
    uid="ett-failures",
    title="What breaks, and who owns it?",
    description="How often attempts fail, by which cause and origin, and what that costs. "
    "Failures are counted by cluster, not by model family; hosts and teams are in the database.",
    source=Source.PROMETHEUS,
    variables=(*OF_CLUSTERS, ett_url()),
    annotations=(MARKERS,),
    links=(TO_JOBS, Link("Page of the fleet, with its failures", to_page("/"))),
    rows=(
        Row("How often?", NOW),
        Row("Which causes and origins?", CAUSES),
        Row("What does it cost?", COSTS),
    ),
)
