"""The dashboard of the fleet."""

from dashboards.build.kit import Dashboard, Link, Row, Source, ett_url, to_page
from dashboards.build.prometheus.fleet_cohorts import NAMED_JOBS, RUNNING, STUCK, TOP_COHORTS
from dashboards.build.prometheus.fleet_ett import NOW, TREND
from dashboards.build.prometheus.fleet_loss import LOST_HOURS, LOST_POINTS, WEEKS
from dashboards.build.prometheus.fleet_speed import SPEED
from dashboards.build.prometheus.fleet_times import FAILURES, RECOVERIES, STARTS
from dashboards.build.prometheus.shared import MARKERS, OF_COHORTS, TO_JOBS

FLEET = Dashboard(
    uid="ett-fleet",
    title="Are we at target, and what costs most?",
    description=(
"ETT of the fleet, weighted by accelerators: its present value, the losses by "
"category, and the model families to look at first."
),
    source=Source.PROMETHEUS,
    variables=(*OF_COHORTS, ett_url()),
    annotations=(MARKERS,),
    links=(TO_JOBS, Link("Page of the fleet", to_page("/"))),
    rows=(
        Row("Are we at target?", NOW),
        Row("What costs most?", (LOST_POINTS, LOST_HOURS, WEEKS)),
        Row("Is it getting better?", TREND),
        Row("Which model families?", (TOP_COHORTS,)),
        Row("How long do starts and recoveries take, and what fails?",
            (STARTS, RECOVERIES, FAILURES)),
        Row("Is the training itself slow?", SPEED),
        Row("What is running now?", (RUNNING, STUCK, NAMED_JOBS)),
    ),
)  # fmt: skip
