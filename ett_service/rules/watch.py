"""Alerts on what the search for regressions found, and on whether people hear of it."""

from collections.abc import Iterator

from ett_service.rules.recording import merged
from ett_service.rules.rule import Alert, Scale

_COHORT = "/d/ett-regressions?var-cluster={{ $labels.cluster | urlquery }}&var-cohort="
_COHORT += "{{ $labels.cohort | urlquery }}"
_DASHBOARD = "/d/ett-regressions"


def alerts(scale: Scale) -> Iterator[Alert]:
    """Yield them."""
    yield Alert(
        "EttRegressionActive",
        f"sum without (severity) ({merged('ett_regression_active')}) > 0",
        severity="ticket",
        summary=(
            "{{ $labels.metric }} {{ $labels.phase }} of {{ $labels.cohort }} on "
            "{{ $labels.cluster }} is worse than it was"
        ),
        description=(
            "A lasting change was found, over all floors and in two runs at least. "
            "`ett regressions list` tells how much it is, since when and what it comes with."
        ),
        dashboard=_COHORT,
    )
    yield Alert(
        "EttDetectionStalled",
        f"time() - {merged('ett_detection_last_run_timestamp_seconds')} > {scale.seconds('26h')}",
        severity="ticket",
        summary="Nobody looks for regressions",
        description=(
            "The latest search of some project was of what was known {{ $value | "
            "humanizeDuration }} ago; there should be one a day."
        ),
        dashboard=_DASHBOARD,
        wait="30m",
    )
    yield Alert(
        "EttWebhookFailing",
        _failing(scale),
        severity="ticket",
        summary="Messages do not reach {{ $labels.receiver }}",
        description=(
            "They wait for over an hour, or were given up within a day. What was not delivered is "
            "kept: `ett receivers deliveries {{ $labels.receiver }}` shows why, and `ett receivers "
            "replay` sends it again."
        ),
        dashboard=_DASHBOARD,
        wait="5m",
    )


def _failing(scale: Scale) -> str:
    oldest = merged("ett_webhook_oldest_waiting_timestamp_seconds")
    dead = merged('ett_webhook_recent_deliveries{result="dead"}')
    return "\n".join(
        (
            f"  time() - {oldest} > {scale.seconds('1h')}",
            "or",
            f"  sum without (result) ({dead}) > 0",
        )
    )
