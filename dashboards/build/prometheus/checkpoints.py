"""The dashboard of checkpoints."""

from dashboards.build.kit import Dashboard, Link, Row, Source, ett_url, to_dashboard, to_page
from dashboards.build.prometheus.checkpoint_interval import BY_COHORT, INTERVAL, NOW
from dashboards.build.prometheus.checkpoint_stops import STOPS
from dashboards.build.prometheus.shared import MARKERS, OF_COHORTS

CHECKPOINTS = Dashboard(
    uid="ett-checkpoints",
    title="Is the checkpoint interval right?",
    description="Frequent checkpoints block the training loop, rare ones lose training. The "
    "training really lost since the last checkpoint, job by job, is in the database.",
    source=Source.PROMETHEUS,
    variables=(*OF_COHORTS, ett_url()),
    annotations=(MARKERS,),
    links=(
        Link("Unsaved training, job by job", to_dashboard("ett-sql-fleet")),
        Link("Page of checkpoints", to_page("/checkpoints")),
    ),
    rows=(
        Row("How far is it from the optimum?", NOW),
        Row("The interval", INTERVAL),
        Row("Which model families?", BY_COHORT),
        Row("How long does a checkpoint block the training loop?", STOPS),
    ),
)
