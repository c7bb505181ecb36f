"""Is the checkpoint interval right?"""

from dashboards.build.kit import Dashboard, Link, Row, Source, to_dashboard
from dashboards.build.prometheus.checkpoint_interval import BY_COHORT, INTERVAL, NOW
from dashboards.build.prometheus.checkpoint_stops import STOPS
from dashboards.build.prometheus.reading import MARKERS, OF_COHORTS

CHECKPOINTS = Dashboard(
    uid="ett-checkpoints",
    title="Is the checkpoint interval right?",
    description="Saves too often stop the loop, saves too seldom lose training. What failures "
    "really lost since the last save, job by job, is in the database.",
    source=Source.PROMETHEUS,
    variables=OF_COHORTS,
    annotations=(MARKERS,),
    links=(Link("Unsaved training, job by job", to_dashboard("ett-sql-fleet")),),
    rows=(
        Row("How far is it from the best?", NOW),
        Row("The interval", INTERVAL),
        Row("Which model families?", BY_COHORT),
        Row("How long does a save stop the loop?", STOPS),
    ),
)
