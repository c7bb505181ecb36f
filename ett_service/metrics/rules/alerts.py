"""Alerts on the budget, the fleet, regressions and the service itself."""

from collections.abc import Iterator

from ett_service.metrics.rules.recording import FAILURES, INFRA, OPEN, merged
from ett_service.metrics.rules.rule import (
    BUDGET_DAYS,
    LEAST_GPU_HOURS,
    Alert,
    Burn,
    Objective,
    Scale,
    decimal,
    percent,
)


def budget_alerts(objective: Objective, scale: Scale) -> Iterator[Alert]:
    """Yield an alert for each burn rate."""
    for burn in objective.burns:
        yield Alert(
            burn.name,
            _expr(burn, objective, scale),
            severity=burn.severity,
            summary=(
                f"{{{{ $labels.cluster }}}} burns its ETT budget over {decimal(burn.factor)}x "
                "too fast"
            ),
            description=(
                "{{ $value | humanizePercentage }} of accelerator time was not effective training "
                f"over {burn.long}. The alert fires above {percent(objective.fires_at(burn))}; "
                f"the budget over {BUDGET_DAYS} days is {percent(objective.budget)}."
            ),
            dashboard="/d/ett-fleet?var-cluster={{ $labels.cluster | urlquery }}",
            wait=burn.wait,
        )


def _expr(burn: Burn, objective: Objective, scale: Scale) -> str:
    limit = decimal(objective.fires_at(burn))
    ratio = "cluster:ett_ineffective_per_weighted_seconds:ratio_rate"
    used = "cluster:ett_phase_weighted_seconds:rate"
    rate = f"{used}{burn.long}"
    least = f"{LEAST_GPU_HOURS} * {scale.seconds('1h')}"
    conditions = [
        f"{ratio}{burn.long} > {limit}",
        f"{ratio}{burn.short} > {limit}",
        f"{rate} * {scale.seconds(burn.long)} > {least}",
    ]
    if burn.filled:
        conditions.append(f"{rate} > {used}{burn.short} / {burn.filled}")
    return "\nand\n".join(f"  {condition}" for condition in conditions)


_COHORT = "/d/ett-cohort?var-cluster={{ $labels.cluster | urlquery }}&var-cohort="
_COHORT += "{{ $labels.cohort | urlquery }}"
_FAILURES = "/d/ett-failures?var-cluster={{ $labels.cluster | urlquery }}"


def fleet_alerts(scale: Scale) -> Iterator[Alert]:
    """Yield the alerts on running attempts and failures."""
    yield Alert(
        "EttPhaseStuck",
        _stuck(scale),
        severity="ticket",
        summary="An attempt of {{ $labels.cohort }} is stuck in {{ $labels.phase }}",
        description=(
            "It has been in {{ $labels.phase }} on {{ $labels.cluster }} for "
            "{{ $value | humanizeDuration }}: over 10 min and over three times the 99th "
            "percentile, or over 30 min in a checkpoint or a stall."
        ),
        dashboard=_COHORT,
        wait="5m",
    )
    yield Alert(
        "EttFailureRateHigh",
        _failing(scale),
        severity="ticket",
        summary="{{ $labels.cluster }} has many failures of cause {{ $labels.cause }}",
        description=(
            "{{ $value | humanize }} attempts failed with cause {{ $labels.cause }} in a day, over "
            "three times the daily average of the week before."
        ),
        dashboard=_FAILURES,
        wait="1h",
    )
    yield Alert(
        "EttCohortSilent",
        _silent(),
        severity="ticket",
        summary="No events from {{ $labels.cohort }} on {{ $labels.cluster }}",
        description=(
            "Its attempts run, and none has sent an event for {{ $value | humanizeDuration }}, "
            "while other attempts do. Silent attempts will soon count as lost."
        ),
        dashboard=_COHORT,
        wait="5m",
        hold="30m",
    )


def _stuck(scale: Scale) -> str:
    # A training loop may be open for weeks; a loop that hangs is `stalled`.
    p99 = merged("ett_phase_p99_seconds")
    return "\n".join(
        (
            f'    {OPEN}{{phase!="train_loop"}}',
            "  > ignoring (cohort) group_left ()",
            f"    clamp_min(3 * {p99}, {scale.seconds('10m')})",
            "or",
            f'  {OPEN}{{phase=~"checkpoint_blocking|stalled"}} > {scale.seconds("30m")}',
        )
    )


def _failing(scale: Scale) -> str:
    # Without a week to compare with there is nothing to be three times as high as; and increases
    # are rounded, because Prometheus extrapolates them to the ends of the window.
    day, week = scale.text("1d"), scale.text("7d")
    counter = f"{FAILURES}{{{INFRA}}}"
    recent = "cluster_cause:ett_infra_failures:increase1d"
    return "\n".join(
        (
            f"  round({recent}) > 5",
            "and",
            f"    {recent}",
            "  >",
            f"    3 * sum without (origin) (increase({counter}[{week}] offset {day})) / 7",
            "and",
            f"  sum without (origin) (present_over_time({counter}[{day}] offset {week}))",
        )
    )


def _silent() -> str:
    running, silent = merged("ett_attempts_running"), merged("ett_attempts_silent")
    # At least one attempt elsewhere is heard: else it is EttIngestStalled.
    return "\n".join(
        (
            f"  time() - {merged('ett_cohort_last_event_timestamp_seconds')}",
            "and",
            f"  ({silent} == {running}) > 0",
            "and ignoring (cluster, cohort)",
            f"  sum without (cluster, cohort) ({running})",
            f"    > sum without (cluster, cohort) ({silent})",
        )
    )


_DASHBOARD = "/d/ett-service"


def service_alerts(scale: Scale) -> Iterator[Alert]:
    """Yield the alerts on the service itself."""
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
        summary="ETT aggregation is behind",
        description=(
            "Events received {{ $value | humanizeDuration }} ago are not aggregated yet, or "
            "nothing has been published for so long."
        ),
        dashboard=_DASHBOARD,
        wait="5m",
    )
    yield Alert(
        "EttWatchdog",
        "vector(1)",
        severity="none",
        summary="ETT alerts arrive",
        description="This alert always fires. If it is missing, no alert of ETT arrives.",
        dashboard=_DASHBOARD,
    )


def _ingest(scale: Scale) -> Iterator[Alert]:
    yield Alert(
        "EttIngestStalled",
        _stalled(scale),
        severity="page",
        summary="ETT receives no events while attempts run",
        description=(
            "The last event arrived {{ $value | humanizeDuration }} ago. After 15 min of silence "
            "running attempts count as lost."
        ),
        dashboard=_DASHBOARD,
        wait="5m",
        hold="30m",
    )
    yield Alert(
        "EttIngestRejecting",
        _rejecting(scale),
        severity="ticket",
        summary="ETT rejects events: {{ $labels.code }}",
        description=(
            "{{ $value | humanizePercentage }} of the events of the last 15 min were rejected with "
            "`{{ $labels.code }}`."
        ),
        dashboard=_DASHBOARD,
        wait="15m",
    )


def _stalled(scale: Scale) -> str:
    # It must fire before silent attempts are closed as lost, because then none runs any more.
    # Without its database the service cannot say what runs: what ran before counts.
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
    # The worker publishes its watermark; if none ever ran, nothing is published at all.
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


_COHORT_REGRESSIONS = "/d/ett-regressions?var-cluster={{ $labels.cluster | urlquery }}&var-cohort="
_COHORT_REGRESSIONS += "{{ $labels.cohort | urlquery }}"
_REGRESSIONS = "/d/ett-regressions"


def regression_alerts(scale: Scale) -> Iterator[Alert]:
    """Yield the alerts on regressions and their notifications."""
    yield Alert(
        "EttRegressionActive",
        f"sum without (severity) ({merged('ett_regression_active')}) > 0",
        severity="ticket",
        summary=(
            "{{ $labels.metric }} {{ $labels.phase }} of {{ $labels.cohort }} on "
            "{{ $labels.cluster }} got worse"
        ),
        description=(
            "At least two runs found a lasting change above all floors. `ett regressions list` "
            "shows its size, its onset and what it is associated with."
        ),
        dashboard=_COHORT_REGRESSIONS,
    )
    yield Alert(
        "EttDetectionStalled",
        f"time() - {merged('ett_detection_last_run_timestamp_seconds')} > {scale.seconds('26h')}",
        severity="ticket",
        summary="The search for regressions has stopped",
        description=(
            "The latest search of a project covers data up to {{ $value | humanizeDuration }} ago; "
            "there should be one search a day."
        ),
        dashboard=_REGRESSIONS,
        wait="30m",
    )
    yield Alert(
        "EttWebhookFailing",
        _deliveries_failing(scale),
        severity="ticket",
        summary="Deliveries to {{ $labels.receiver }} fail",
        description=(
            "A delivery has been pending for over an hour, or was given up within a day. It is "
            "stored: `ett receivers deliveries {{ $labels.receiver }}` shows why it failed, and "
            "`ett receivers replay` sends it again."
        ),
        dashboard=_REGRESSIONS,
        wait="5m",
    )


def _deliveries_failing(scale: Scale) -> str:
    oldest = merged("ett_webhook_oldest_waiting_timestamp_seconds")
    dead = merged('ett_webhook_recent_deliveries{result="dead"}')
    return "\n".join(
        (
            f"  time() - {oldest} > {scale.seconds('1h')}",
            "or",
            f"  sum without (result) ({dead}) > 0",
        )
    )
