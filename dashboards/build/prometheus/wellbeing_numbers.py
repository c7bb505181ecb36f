"""Whether the numbers are fresh, and what it takes to work them out and to show them."""

from dashboards.build.colours import ALARM, GOOD
from dashboards.build.kit import Field, Format, Kind, Panel, Query, Threshold, Transformation
from dashboards.build.prometheus.promql import once, own, whole
from dashboards.build.prometheus.reading import FleetPanel

_FIVE_MINUTES_ARE_BAD = (Threshold(None, GOOD), Threshold(300, ALARM))


def _age(name: str) -> str:
    return f"time() - max ({once(whole(name))})"


STANDING = (
    Panel(
        title="Replicas that answer",
        description="Instances of the service that Prometheus reached at its last scrape.",
        kind=Kind.STAT,
        unit="short",
        queries=(Query(f"sum ({own('up')})", "up", instant=True),),
        thresholds=(Threshold(None, ALARM), Threshold(1, GOOD)),
        width=4,
        height=5,
    ),
    Panel(
        title="Since the last event",
        description="How long ago an event last came in at any chosen replica, history apart. "
        "Minutes while attempts run: EttIngestStalled will page.",
        kind=Kind.STAT,
        unit="s",
        decimals=0,
        queries=(
            Query(
                f"time() - max ({own('ett_ingest_last_event_timestamp_seconds')})",
                "ago",
                instant=True,
            ),
        ),
        width=4,
        height=5,
    ),
    FleetPanel(
        title="Numbers behind",
        description="What came in before this is in the numbers. Over 10 minutes: "
        "EttAggregationLagging, look at the worker.",
        kind=Kind.STAT,
        unit="s",
        decimals=0,
        queries=(
            Query(_age("ett_aggregation_watermark_timestamp_seconds"), "behind", instant=True),
        ),
        thresholds=_FIVE_MINUTES_ARE_BAD,
        width=4,
        height=5,
    ),
    FleetPanel(
        title="Page worked out",
        description="How long ago the numbers of the page of metrics were last worked out. It "
        "grows when no worker runs.",
        kind=Kind.STAT,
        unit="s",
        decimals=0,
        queries=(Query(_age("ett_published_timestamp_seconds"), "ago", instant=True),),
        thresholds=_FIVE_MINUTES_ARE_BAD,
        width=4,
        height=5,
    ),
    FleetPanel(
        title="Jobs waiting",
        description="Jobs with facts that are not in the numbers yet.",
        kind=Kind.STAT,
        unit="short",
        decimals=0,
        queries=(Query(f"max ({once(whole('ett_jobs_waiting'))})", "jobs"),),
        width=4,
        height=5,
    ),
    Panel(
        title="Builds",
        description="Which version each replica runs. Two of them outside a rollout: one replica "
        "was left behind.",
        kind=Kind.TABLE,
        unit="short",
        queries=(
            Query(
                f"count by (instance, version) ({own('ett_build_info')})",
                format=Format.TABLE,
                instant=True,
            ),
        ),
        transformations=(
            Transformation("organize", {"excludeByName": {"Time": True, "Value": True}}),
        ),
        fields=(Field(name="instance", width=180),),
        width=4,
        height=5,
    ),
)

NUMBERS = (
    FleetPanel(
        title="Numbers behind",
        description="Age of the newest event that is surely in the numbers. A saw that climbs is "
        "a worker that cannot keep up.",
        unit="s",
        low=0,
        queries=(Query(_age("ett_aggregation_watermark_timestamp_seconds"), "behind"),),
        width=6,
    ),
    FleetPanel(
        title="Size of the database",
        description="As the database tells it. Plan for its growth; see the setting for how long "
        "events are kept.",
        unit="bytes",
        low=0,
        queries=(Query(f"max ({once(whole('ett_db_size_bytes'))})", "database"),),
        width=6,
    ),
    FleetPanel(
        title="Counters above what is known",
        description="Wall seconds by which counters, which never go down, stand above what late "
        "facts left. They fall as new time catches up; windows and the database are exact.",
        unit="s",
        low=0,
        queries=(Query(f"max ({once(whole('ett_mark_excess_seconds'))})", "excess"),),
        width=6,
    ),
    FleetPanel(
        title="Labels folded",
        description='Clusters and cohorts that count under "other", as the settings cap them.',
        unit="short",
        decimals=0,
        low=0,
        queries=(Query(f"max by (label) ({once(whole('ett_label_values_folded'))})", "{{label}}"),),
        width=6,
    ),
)

PAGE = (
    Panel(
        title="Time to scrape",
        description="How long Prometheus waited for the page, and how much of that the fleet's "
        "part took, the slowest replica.",
        unit="s",
        low=0,
        queries=(
            Query(f"max ({own('scrape_duration_seconds')})", "scrape"),
            Query(f"max ({own('ett_collector_duration_seconds')})", "fleet's part"),
        ),
        width=6,
    ),
    Panel(
        title="Samples on the page",
        description="Of the largest page. Caps on clusters and cohorts, and the setting for "
        "histograms of cohorts, bound it.",
        unit="short",
        decimals=0,
        low=0,
        queries=(Query(f"max ({own('scrape_samples_scraped')})", "samples"),),
        width=6,
    ),
    Panel(
        title="Left out of the page",
        description="What had to be left out, per second. Any is a fault of ours: the log names "
        "it.",
        unit="cps",
        low=0,
        queries=(
            Query(f"sum (rate({own('ett_collector_errors_total')}[$__rate_interval]))", "left out"),
        ),
        width=6,
    ),
    FleetPanel(
        title="Time to work the page out",
        description="What the worker takes each time. It must stay below how often it does so.",
        unit="s",
        low=0,
        queries=(Query(f"max ({once(whole('ett_publish_duration_seconds'))})", "publish"),),
        width=6,
    ),
)

PROCESS = (
    Panel(
        title="CPU",
        description="Cores that each replica keeps busy.",
        unit="short",
        low=0,
        queries=(
            Query(f"rate({own('process_cpu_seconds_total')}[$__rate_interval])", "{{instance}}"),
        ),
        width=8,
    ),
    Panel(
        title="Memory",
        description="Resident memory of each replica. One that only grows is to be reported.",
        unit="bytes",
        low=0,
        queries=(Query(own("process_resident_memory_bytes"), "{{instance}}"),),
        width=8,
    ),
    Panel(
        title="Open files",
        description="Share of the allowed file descriptors that each replica holds: connections "
        "mostly.",
        unit="percentunit",
        low=0,
        queries=(Query(f"{own('process_open_fds')}\n/\n{own('process_max_fds')}", "{{instance}}"),),
        width=8,
    ),
)
