"""Alerts on the service itself."""

from collections.abc import Iterator

from ett_service.rules.recording import merged
from ett_service.rules.rule import Alert, Scale

_DASHBOARD = "/d/ett-service"


def alerts(scale: Scale) -> Iterator[Alert]:
    """Yield them."""
    yield Alert(
        "EttDown",
        'absent(up{job="ett"} == 1)',
        severity="page",
        summary="The ETT service is down",
        description="No target of the scrape job `ett` has answered for 5 min.",
        dashboard=_DASHBOARD,
        wait="5m",
    )
    yield from _ingest(scale)
    yield Alert(
        "EttAggregationLagging",
        _lagging(scale),
        severity="ticket",
        summary="ETT numbers are behind what came in",
        description=(
            "Facts that came in {{ $value | humanizeDuration }} ago are not in the numbers, or "
            "nothing has been published for so long."
        ),
        dashboard=_DASHBOARD,
        wait="5m",
    )
    yield Alert(
        "EttWatchdog",
        "vector(1)",
        severity="none",
        summary="Alerts of ETT reach whoever reads this",
        description="This always fires. Where it is missing, no alert of ETT arrives.",
        dashboard=_DASHBOARD,
    )


def _ingest(scale: Scale) -> Iterator[Alert]:
    yield Alert(
        "EttIngestStalled",
        _stalled(scale),
        severity="page",
        summary="ETT receives no events while attempts run",
        description=(
            "The last event came in {{ $value | humanizeDuration }} ago. After 15 min of silence "
            "running attempts are taken for lost."
        ),
        dashboard=_DASHBOARD,
        wait="5m",
        hold="30m",
    )
    yield Alert(
        "EttIngestRejecting",
        _rejecting(scale),
        severity="ticket",
        summary="ETT refuses events: {{ $labels.code }}",
        description=(
            "{{ $value | humanizePercentage }} of the events of the last 15 min were refused with "
            "`{{ $labels.code }}`."
        ),
        dashboard=_DASHBOARD,
        wait="15m",
    )


def _stalled(scale: Scale) -> str:
    # It has to fire before silent attempts are closed as lost, since nothing runs any more then.
    # Without its database the service cannot say what runs: what ran before goes on.
    running = "ett_attempts_running"
    before = f"last_over_time({running}[{scale.text('6h')}])"
    return "\n".join(
        (
            f"    time() - {merged('ett_ingest_last_event_timestamp_seconds')}",
            f"  > {scale.seconds('5m')}",
            "and",
            "    (",
            f"        sum without (cluster, cohort) ({merged(running)})",
            "      or",
            f"        sum without (cluster, cohort) ({merged(before)})",
            "    )",
            "  > 0",
        )
    )


def _rejecting(scale: Scale) -> str:
    def rate(metric: str, *labels: str) -> str:
        gone = ", ".join(("instance", "pod", *labels))
        return f"sum without ({gone}) (rate({metric}[{scale.text('15m')}]))"

    rejected = "ett_ingest_events_rejected_total"
    return "\n".join(
        (
            f"    {rate(rejected)}",
            "  / ignoring (code) group_left ()",
            "    (",
            f"        {rate('ett_ingest_events_total', 'source')}",
            f"      + {rate('ett_ingest_events_duplicate_total')}",
            f"      + {rate(rejected, 'code')}",
            "    )",
            "> 0.01",
        )
    )


def _lagging(scale: Scale) -> str:
    # The worker publishes how far it is; where none ever ran, nothing is published at all.
    watermark = merged("ett_aggregation_watermark_timestamp_seconds")
    started = merged('process_start_time_seconds{job="ett"}')
    most = scale.seconds("10m")
    return "\n".join(
        (
            f"  time() - {watermark} > {most}",
            "or",
            f"  (time() - {started} > {most} unless {watermark})",
        )
    )
