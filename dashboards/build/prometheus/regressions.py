"""The dashboard of regressions."""

from dashboards.build.kit import Dashboard, Link, Row, Source, ett_url, to_page
from dashboards.build.prometheus.regressions_deliveries import DELIVERIES
from dashboards.build.prometheus.regressions_findings import FINDINGS, SEARCH
from dashboards.build.prometheus.shared import MARKERS, OF_COHORTS, TO_JOBS

REGRESSIONS = Dashboard(
    uid="ett-regressions",
    title="What got worse, and do people know?",
    description="Lasting changes for the worse that the daily search found, their cost, and "
    "whether the search runs and its notifications arrive.",
    source=Source.PROMETHEUS,
    variables=(*OF_COHORTS, ett_url()),
    annotations=(MARKERS,),
    links=(TO_JOBS, Link("Page of the findings", to_page("/regressions"))),
    rows=(
        Row("What got worse?", FINDINGS),
        Row("Is the search running?", SEARCH),
        Row("Are people notified?", DELIVERIES),
    ),
)
