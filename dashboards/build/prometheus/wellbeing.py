"""Is the service itself well?"""

from dashboards.build.kit import Dashboard, Row, Source
from dashboards.build.prometheus.reading import MARKERS, OF_SERVICE
from dashboards.build.prometheus.wellbeing_door import ANSWERS, INGEST
from dashboards.build.prometheus.wellbeing_numbers import NUMBERS, PAGE, PROCESS, STANDING

WELLBEING = Dashboard(
    uid="ett-service",
    title="Is the service itself well?",
    description="Whether events come in, the numbers keep up, and requests are answered.",
    source=Source.PROMETHEUS,
    variables=OF_SERVICE,
    annotations=(MARKERS,),
    since="now-6h",
    refresh="1m",
    rows=(
        Row("Is it up, and are the numbers fresh?", STANDING),
        Row("Do events come in?", INGEST),
        Row("Are requests answered?", ANSWERS),
        Row("Do the numbers keep up?", NUMBERS),
        Row("What does the page of metrics take?", PAGE),
        Row("What does it use?", PROCESS),
    ),
)
