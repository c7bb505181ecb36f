"""The dashboard of one model family."""

from dashboards.build.kit import Dashboard, Link, Row, Source, ett_url, to_page
from dashboards.build.prometheus.cohort_time_spent import MIX, NOW, SPENT
from dashboards.build.prometheus.cohort_times import RECOVERY_ROW, START_ROW
from dashboards.build.prometheus.shared import MARKERS, OF_COHORTS, TO_JOBS

COHORT = Dashboard(
    uid="ett-cohort",
    title="What changed in this model family?",
    description="One or more model families: where their time goes, this week and the week "
    "before, and how long starts and recoveries take.",
    source=Source.PROMETHEUS,
    variables=(*OF_COHORTS, ett_url()),
    annotations=(MARKERS,),
    links=(TO_JOBS, Link("Page of the fleet", to_page("/"))),
    rows=(
        Row("How is it doing?", NOW),
        Row("Where does its time go?", SPENT),
        Row("Which phase of a start takes longer?", START_ROW),
        Row("Does it recover faster?", RECOVERY_ROW),
        Row("Or did the mix change?", MIX),
    ),
)
