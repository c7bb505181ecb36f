"""What comes in at the service's door: events and requests."""

from dashboards.build.colours import ALARM, GOOD
from dashboards.build.kit import Kind, Panel, Query, Threshold
from dashboards.build.prometheus.promql import own

_NO_REFUSAL = "No event was ever refused."


def _per_second(name: str, *matchers: str) -> str:
    return f"rate({own(name, *matchers)}[$__rate_interval])"


def _quantile(q: float, histogram: str, by: str = "") -> str:
    return f"histogram_quantile({q:g}, sum by ({by}le) ({_per_second(f'{histogram}_bucket')}))"


_ALL_EVENTS = f"sum ({_per_second('ett_ingest_events_total')})"
_REJECTED = _per_second("ett_ingest_events_rejected_total")
_FAILED = _per_second("ett_http_requests_total", 'status=~"5.."')
_REQUESTS = _per_second("ett_http_requests_total")

INGEST = (
    Panel(
        title="Events taken in",
        description="Per second, by where they came from, all replicas together. None while "
        "attempts run: EttIngestStalled will page.",
        unit="cps",
        low=0,
        queries=(
            Query(f"sum by (source) ({_per_second('ett_ingest_events_total')})", "{{source}}"),
        ),
        width=6,
    ),
    Panel(
        title="Events refused",
        description="Per second, by the code that their sender was told. The sender's log has "
        "the reason of each.",
        unit="cps",
        low=0,
        queries=(
            Query(f"sum ({_REJECTED}) or vector(0)", "all"),
            Query(f"sum by (code) ({_REJECTED})", "{{code}}", may_be_empty=_NO_REFUSAL),
        ),
        width=6,
    ),
    Panel(
        title="Events known already",
        description="Share of duplicates in what came in. A little is senders that try again; "
        "much is two senders with one stream.",
        unit="percentunit",
        low=0,
        queries=(
            Query(
                f"sum ({_per_second('ett_ingest_events_duplicate_total')})\n/\n"
                f"(sum ({_per_second('ett_ingest_events_duplicate_total')}) + {_ALL_EVENTS} > 0)",
                "duplicates",
            ),
        ),
        width=6,
    ),
    Panel(
        title="Lag of events",
        description="From the instant that an event names to its arrival. Hours at p99 are "
        "spooled events of trainers that were cut off.",
        unit="s",
        low=0,
        queries=(
            Query(_quantile(0.5, "ett_ingest_event_lag_seconds"), "p50"),
            Query(_quantile(0.99, "ett_ingest_event_lag_seconds"), "p99"),
        ),
        width=6,
    ),
)

ANSWERS = (
    Panel(
        title="Requests",
        description="Per second, by the template of their route, all replicas together.",
        unit="reqps",
        low=0,
        queries=(Query(f"sum by (method, route) ({_REQUESTS}) > 0", "{{method}} {{route}}"),),
        width=8,
    ),
    Panel(
        title="Requests that failed in the service",
        description="Share of answers with a status of 500 or more. Any is a fault of ours: the "
        "log names it.",
        kind=Kind.TIME_SERIES,
        unit="percentunit",
        low=0,
        queries=(
            Query(
                f"(sum ({_FAILED}) or vector(0))\n/\nsum ({_REQUESTS})",
                "failed",
            ),
        ),
        thresholds=(Threshold(None, GOOD), Threshold(0.001, ALARM)),
        width=8,
    ),
    Panel(
        title="Time to answer, p99",
        description="Of each route, all replicas together. Events are answered when they are on "
        "disk: a slow database shows here first.",
        unit="s",
        low=0,
        queries=(
            Query(_quantile(0.99, "ett_http_request_duration_seconds", "route, "), "{{route}}"),
        ),
        width=8,
    ),
)
