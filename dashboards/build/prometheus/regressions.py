"""What got worse, and do people know?"""

from dashboards.build.kit import Dashboard, Row, Source
from dashboards.build.prometheus.reading import MARKERS, OF_COHORTS, TO_JOBS
from dashboards.build.prometheus.regressions_found import FOUND, SEARCH
from dashboards.build.prometheus.regressions_told import TOLD

REGRESSIONS = Dashboard(
    uid="ett-regressions",
    title="What got worse, and do people know?",
    description="Lasting changes for the worse that the daily search found, what they cost, and "
    "whether the search runs and its messages arrive.",
    source=Source.PROMETHEUS,
    variables=OF_COHORTS,
    annotations=(MARKERS,),
    links=(TO_JOBS,),
    rows=(
        Row("What got worse?", FOUND),
        Row("Is it looked for?", SEARCH),
        Row("Do people hear of it?", TOLD),
    ),
)
