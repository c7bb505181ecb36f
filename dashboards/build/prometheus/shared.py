"""Variables, links and annotations of the dashboards over Prometheus."""

from functools import partial
from typing import Any

from dashboards.build.colours import ALARM, BAD, GOOD, QUIET
from dashboards.build.kit import (
    Annotation,
    Link,
    Panel,
    Query,
    Source,
    Threshold,
    Variable,
    datasource,
    several,
    to_dashboard,
)

SAME_EVERYWHERE = (
    "Every replica exposes the same fleet metrics; the maximum over all instances is taken."
)
"""Why a query of the fleet matches no instance."""

FleetPanel = partial(Panel, unmatched=SAME_EVERYWHERE)


def series(title: str, description: str, *queries: Query, **more: Any) -> Panel:
    """Return series over time, drawn from zero on; *more* are members of ``Panel``."""
    return Panel(title=title, description=description, queries=queries, low=0, **more)


fleet_series = partial(series, unmatched=SAME_EVERYWHERE)

NO_WEEK_BEFORE = "Prometheus has scraped this service for less than two weeks."
NOTHING_FAILED = "Nothing failed in 7 days."
NO_PRICE = "Some hardware has no price in the setting `prices`."
NO_BASELINE = "No attempt has finished that phase in 28 days."
NO_TARGET = "The setting `targets` is empty."

_JOB = Variable(
    name="job",
    label="Service",
    description="The scrape job of the service: one for each ett-service that Prometheus scrapes.",
    query="label_values(ett_build_info, job)",
)
_CLUSTER = several(
    "cluster",
    "Cluster",
    "Clusters to show; small ones are counted under other.",
    'label_values(ett_attempts_running{job="$job"}, cluster)',
    ".+",
)
_COHORT = several(
    "cohort",
    "Cohort",
    "Model families to show; small ones are counted under other.",
    'label_values(ett_attempts_running{job="$job", cluster=~"$cluster"}, cohort)',
    ".+",
)
_INSTANCE = several(
    "instance",
    "Instance",
    "Replicas to show.",
    'label_values(ett_build_info{job="$job"}, instance)',
    ".+",
)
OF_SERVICE = (datasource(Source.PROMETHEUS), _JOB, _INSTANCE)
OF_CLUSTERS = (datasource(Source.PROMETHEUS), _JOB, _CLUSTER)
OF_COHORTS = (*OF_CLUSTERS, _COHORT)

MARKERS = Annotation(
    name="Markers",
    query="max by (marker) "
    '(changes(ett_last_marker_timestamp_seconds{job="$job"}[$__rate_interval])) > 0',
    colour=QUIET,
    title="{{marker}}",
    text="A deploy, a launch or a maintenance was marked.",
)

KEPT = ("datasource", "job")
TO_COHORT = Link(
    "What changed in this model family?",
    to_dashboard(
        "ett-cohort",
        *KEPT,
        cluster="__field.labels.cluster",
        cohort="__field.labels.cohort",
    ),
)
TO_COHORT_OF_ROW = Link(
    "What changed in this model family?",
    to_dashboard(
        "ett-cohort", *KEPT, cluster="__data.fields.cluster", cohort="__data.fields.cohort"
    ),
)
TO_JOBS = Link("Job by job, from the database", to_dashboard("ett-sql-fleet"))

BELOW_ZERO_IS_BAD = (Threshold(None, BAD), Threshold(0, GOOD))
ABOVE_ZERO_IS_BAD = (Threshold(None, GOOD), Threshold(1, ALARM))
