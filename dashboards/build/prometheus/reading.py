"""What the dashboards over Prometheus share: whose series they read, and what a reader chooses."""

from dashboards.build.colours import QUIET
from dashboards.build.kit import Annotation, Source, Variable, datasource

SAME_EVERYWHERE = (
    "Every replica tells the same of the fleet; the largest value of all instances is taken."
)
"""Why a query of the fleet matches no instance."""

CLUSTER = Variable(
    name="cluster",
    label="Cluster",
    description="Clusters to look at; small ones are counted under other.",
    query='label_values(ett_attempts_running{job="$job"}, cluster)',
    several=True,
    all_value=".+",
)
COHORT = Variable(
    name="cohort",
    label="Cohort",
    description="Model families to look at; small ones are counted under other.",
    query='label_values(ett_attempts_running{job="$job", cluster=~"$cluster"}, cohort)',
    several=True,
    all_value=".+",
)
SCRAPE_JOB = Variable(
    name="job",
    label="Service",
    description="The scrape job of the service: one for each ett-service that Prometheus reads.",
    query="label_values(ett_build_info, job)",
)
BASE = (datasource(Source.PROMETHEUS), SCRAPE_JOB, CLUSTER)

MARKERS = Annotation(
    name="Markers",
    query="max by (marker) "
    '(changes(ett_last_marker_timestamp_seconds{job="$job"}[$__rate_interval])) > 0',
    colour=QUIET,
    title="{{marker}}",
    text="A marker was posted: deploy, launch or maintenance.",
)
