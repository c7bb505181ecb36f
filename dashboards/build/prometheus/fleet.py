"""Are we at target, and what costs most?"""

from dashboards.build.kit import Dashboard, Kind, Panel, Query, Row, Source
from dashboards.build.prometheus.reading import BASE, COHORT, MARKERS, SAME_EVERYWHERE

_TREND = Panel(
    title="ETT by cluster",
    description="Effective training per accelerator-hour.",
    unit="percentunit",
    queries=(
        Query(
            'cluster:ett_effective_per_weighted_seconds:ratio_rate1h{job="$job", '
            'cluster=~"$cluster"}',
            "{{cluster}}",
        ),
    ),
    unmatched=SAME_EVERYWHERE,
    kind=Kind.TIME_SERIES,
    width=24,
)

FLEET = Dashboard(
    uid="ett-fleet",
    title="Are we at target, and what costs most?",
    description="The fleet's ETT.",
    source=Source.PROMETHEUS,
    variables=(*BASE, COHORT),
    annotations=(MARKERS,),
    rows=(Row("Over time", (_TREND,)),),
)
