"""The dashboard of the service itself."""

from dashboards.build.kit import Dashboard, Link, Row, Source, ett_url, to_page
from dashboards.build.prometheus.health_aggregation import (
    AGGREGATION,
    FRESHNESS,
    PAGE,
    PROCESS,
    ROOM,
)
from dashboards.build.prometheus.health_ingest import ANSWERS, INGEST, MISSING, OVERLOAD
from dashboards.build.prometheus.shared import MARKERS, OF_SERVICE

HEALTH = Dashboard(
    uid="ett-service",
    title="Is the service healthy?",
    description=("Whether events arrive, aggregation keeps up, and requests are answered."),
    source=Source.PROMETHEUS,
    variables=(*OF_SERVICE, ett_url()),
    annotations=(MARKERS,),
    links=(Link("Page of data quality", to_page("/quality")),),
    since="now-6h",
    refresh="1m",
    rows=(
        Row("Is it up, and is aggregation fresh?", FRESHNESS),
        Row("Do events arrive?", INGEST),
        Row("Is data missing?", MISSING),
        Row("Are requests answered?", ANSWERS),
        Row("Is it overloaded?", OVERLOAD),
        Row("Does aggregation keep up?", AGGREGATION),
        Row("How large is the database?", ROOM),
        Row("What does the metrics page cost?", PAGE),
        Row("Which resources does it use?", PROCESS),
    ),
)
