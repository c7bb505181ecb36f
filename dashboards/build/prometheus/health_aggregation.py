"""Panels of aggregation, the metrics page and the processes."""

from dashboards.build.colours import ALARM, GOOD
from dashboards.build.kit import Field, Format, Kind, Panel, Query, Threshold, Transformation
from dashboards.build.prometheus.promql import WEEK_AGO, once, own, whole
from dashboards.build.prometheus.shared import FleetPanel, fleet_series, series

_FIVE_MINUTES_ARE_BAD = (Threshold(None, GOOD), Threshold(300, ALARM))


def _age(name: str) -> str:
    return f"time() - max ({once(whole(name))})"


FRESHNESS = (
    Panel(
        title="Replicas up",
        description="Instances of the service that Prometheus reached at its last scrape.",
        kind=Kind.STAT,
        unit="short",
        queries=(Query(f"sum ({own('up')})", "up", instant=True),),
        thresholds=(Threshold(None, ALARM), Threshold(1, GOOD)),
        width=4,
        height=5,
    ),
    Panel(
        title="Time since the last event",
        description="Time since the last event at any selected replica, without history. "
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
        title="Aggregation lag",
        description="Age of the newest event that is surely aggregated. Over 10 minutes: "
        "EttAggregationLagging, check the worker.",
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
        title="Time since the last publication",
        description="Time since the metrics page was last published. It grows when no worker runs.",
        kind=Kind.STAT,
        unit="s",
        decimals=0,
        queries=(Query(_age("ett_published_timestamp_seconds"), "ago", instant=True),),
        thresholds=_FIVE_MINUTES_ARE_BAD,
        width=4,
        height=5,
    ),
    FleetPanel(
        title="Jobs to aggregate",
        description="Jobs with events that are not aggregated yet.",
        kind=Kind.STAT,
        unit="short",
        decimals=0,
        queries=(Query(f"max ({once(whole('ett_jobs_waiting'))})", "jobs"),),
        width=4,
        height=5,
    ),
    Panel(
        title="Builds",
        description="The version of each replica. Two versions outside a rollout: one replica "
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

AGGREGATION = (
    fleet_series(
        "Aggregation lag",
        "Age of the newest event that is surely aggregated. If it climbs, the "
        "worker cannot keep up.",
        Query(_age("ett_aggregation_watermark_timestamp_seconds"), "behind"),
        unit="s",
        width=6,
    ),
    fleet_series(
        "Database size",
        "As the database reports it. Plan for its growth; a setting limits how long "
        "events are stored.",
        Query(f"max ({once(whole('ett_db_size_bytes'))})", "database"),
        unit="bytes",
        width=6,
    ),
    fleet_series(
        "Counter excess",
        "Wall-clock seconds by which counters, which never go down, exceed the "
        "totals after late events. It falls as new time catches up; windows and the database "
        "are exact.",
        Query(f"max ({once(whole('ett_mark_excess_seconds'))})", "excess"),
        unit="s",
        width=6,
    ),
    fleet_series(
        "Folded labels",
        'Clusters and cohorts counted under "other", as the settings limit them.',
        Query(f"max by (label) ({once(whole('ett_label_values_folded'))})", "{{label}}"),
        unit="short",
        decimals=0,
        width=6,
    ),
)

ROOM = (
    fleet_series(
        "Size of tables",
        "With their indexes, the largest eight; of a large SQLite file only all of it.",
        Query(f"topk (8, max by (table) ({once(whole('ett_db_table_size_bytes'))}))", "{{table}}"),
        unit="bytes",
        width=8,
    ),
    fleet_series(
        "Growth in a week",
        "Size now, less the size a week ago. Nothing before a week is over.",
        Query(
            f"max ({once(whole('ett_db_size_bytes'))})\n-\n"
            f"max ({once(whole('ett_db_size_bytes') + WEEK_AGO)})",
            "growth",
            may_be_empty="No week is over.",
        ),
        unit="bytes",
        width=8,
    ),
    fleet_series(
        "Pruning would free",
        "Events and segments of jobs that are closed for longer than `retention_days`, and sums by "
        "hour older than `rollups.hourly_days`; of what is never pruned, as if after 90 days.",
        Query(f"max ({once(whole('ett_db_prunable_bytes'))})", "prunable"),
        unit="bytes",
        width=8,
    ),
)

PAGE = (
    series(
        "Scrape duration",
        "Duration of a scrape, and of rendering the fleet's part of it, for the slowest replica.",
        Query(f"max ({own('scrape_duration_seconds')})", "scrape"),
        Query(f"max ({own('ett_collector_duration_seconds')})", "fleet's part"),
        unit="s",
        width=6,
    ),
    series(
        "Samples on the page",
        "Samples on the largest page. Limits on clusters and cohorts, and the "
        "setting for cohort histograms, bound it.",
        Query(f"max ({own('scrape_samples_scraped')})", "samples"),
        unit="short",
        decimals=0,
        width=6,
    ),
    series(
        "Samples left out",
        "Per second. Each is a fault of the service: its log has the cause.",
        Query(f"sum (rate({own('ett_collector_errors_total')}[$__rate_interval]))", "left out"),
        unit="cps",
        width=6,
    ),
    fleet_series(
        "Publication duration",
        "Duration of each publication by the worker. It must stay below its period.",
        Query(f"max ({once(whole('ett_publish_duration_seconds'))})", "publish"),
        unit="s",
        width=6,
    ),
)

PROCESS = (
    series(
        "CPU",
        "Busy cores of each replica.",
        Query(f"rate({own('process_cpu_seconds_total')}[$__rate_interval])", "{{instance}}"),
        unit="short",
        width=8,
    ),
    series(
        "Memory",
        "Resident memory of each replica. Report it if it only grows.",
        Query(own("process_resident_memory_bytes"), "{{instance}}"),
        unit="bytes",
        width=8,
    ),
    series(
        "Open files",
        "Share of the allowed file descriptors that each replica has open, mostly connections.",
        Query(f"{own('process_open_fds')}\n/\n{own('process_max_fds')}", "{{instance}}"),
        unit="percentunit",
        width=8,
    ),
)
