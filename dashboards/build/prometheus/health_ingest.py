"""Panels of received events and answered requests."""

from dashboards.build.colours import ALARM, GOOD
from dashboards.build.kit import Kind, Panel, Query, Threshold
from dashboards.build.prometheus.promql import once, own
from dashboards.build.prometheus.shared import series

_NO_REFUSAL = "No event was ever rejected."
_NOT_BUSY = "No request was refused."


def _per_second(name: str, *matchers: str) -> str:
    return f"rate({own(name, *matchers)}[$__rate_interval])"


def _quantile(q: float, histogram: str, by: str = "") -> str:
    return f"histogram_quantile({q:g}, sum by ({by}le) ({_per_second(f'{histogram}_bucket')}))"


_ALL_EVENTS = f"sum ({_per_second('ett_ingest_events_total')})"
_REJECTED = _per_second("ett_ingest_events_rejected_total")
_DROPS = own("ett_ingest_sender_drops_total")
_GAPS = own("ett_reporting_gaps_total")
_FAILED = _per_second("ett_http_requests_total", 'status=~"5.."')
_REQUESTS = _per_second("ett_http_requests_total")

INGEST = (
    series(
        "Accepted events",
        "Per second, by source, all replicas together. None while attempts run: "
        "EttIngestStalled will page.",
        Query(f"sum by (source) ({_per_second('ett_ingest_events_total')})", "{{source}}"),
        unit="cps",
        width=6,
    ),
    series(
        "Rejected events",
        "Per second, by error code. The sender's log has the reason of each.",
        Query(f"sum ({_REJECTED}) or vector(0)", "all"),
        Query(f"sum by (code) ({_REJECTED})", "{{code}}", may_be_empty=_NO_REFUSAL),
        unit="cps",
        width=6,
    ),
    series(
        "Duplicate events",
        "Share of duplicates in the received events. A few come from senders that "
        "retry; many mean that two senders send the same stream.",
        Query(
            f"sum ({_per_second('ett_ingest_events_duplicate_total')})\n/\n"
            f"(sum ({_per_second('ett_ingest_events_duplicate_total')}) + {_ALL_EVENTS} > 0)",
            "duplicates",
        ),
        unit="percentunit",
        width=6,
    ),
    series(
        "Event lag",
        "From an event's timestamp to its arrival. Hours at p99 are spooled events "
        "of trainers that were cut off.",
        Query(_quantile(0.5, "ett_ingest_event_lag_seconds"), "p50"),
        Query(_quantile(0.99, "ett_ingest_event_lag_seconds"), "p99"),
        unit="s",
        width=6,
    ),
)

MISSING = (
    series(
        "Gaps in reports",
        "In the day before each point, by kind. Missing hooks after an upgrade of "
        "PyTorch: what they report is missing, not zero. Unreported restarts: launchers that "
        "count wrongly.",
        Query(f"sum by (kind) ({once(f'increase({_GAPS}[1d])')})", "{{kind}}"),
        unit="short",
        width=12,
    ),
    series(
        "Dropped by senders",
        "Events that trainers had to drop, as they report it, by reason. A "
        "full spool: the server was away for longer than 64 MiB of events last.",
        Query(f"sum by (reason) (increase({_DROPS}[$__rate_interval]))", "{{reason}}"),
        unit="short",
        width=12,
    ),
)

ANSWERS = (
    series(
        "Requests",
        "Per second, by route template, all replicas together.",
        Query(f"sum by (method, route) ({_REQUESTS}) > 0", "{{method}} {{route}}"),
        unit="reqps",
        width=8,
    ),
    Panel(
        title="Server errors",
        description="Share of answers with a status of 500 or more. Each is a fault of the "
        "service: its log has the cause.",
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
    series(
        "Response time, p99",
        "By route, all replicas together. Events are answered once they are on "
        "disk: a slow database shows here first.",
        Query(_quantile(0.99, "ett_http_request_duration_seconds", "route, "), "{{route}}"),
        unit="s",
        width=8,
    ),
)

_REFUSED = _per_second("ett_http_refused_total")

OVERLOAD = (
    series(
        "Refused requests",
        "Per second, by reason. Of `overloaded` and `key_share` the senders wait and try again; "
        "the others are connections that were closed to protect the process.",
        Query(f"sum (\n{_REFUSED}\n)", "all"),
        Query(f"sum by (reason) ({_REFUSED}) > 0", "{{reason}}", may_be_empty=_NOT_BUSY),
        unit="reqps",
        width=8,
    ),
    series(
        "Requests in flight",
        "Worked on, by class of work, all replicas together; those that wait for a place, too.",
        Query(f"sum by (work) ({own('ett_http_requests_in_flight')})", "{{work}}"),
        Query(f"sum by (work) ({own('ett_http_requests_waiting')})", "{{work}}, waiting"),
        unit="short",
        width=8,
    ),
    series(
        "Request bodies in memory",
        "As they were sent, all replicas together.",
        Query(f"sum ({own('ett_http_body_bytes')})", "bodies"),
        unit="bytes",
        width=8,
    ),
)
