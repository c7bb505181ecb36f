"""Panels of deliveries to receivers."""

from dashboards.build.colours import ALARM, GOOD
from dashboards.build.kit import Kind, Query, Threshold
from dashboards.build.prometheus.promql import once, whole
from dashboards.build.prometheus.shared import ABOVE_ZERO_IS_BAD, FleetPanel, fleet_series

_AN_HOUR_IS_BAD = (Threshold(None, GOOD), Threshold(3600, ALARM))

DELIVERIES = (
    fleet_series(
        "Deliveries of a day",
        "Deliveries that ended in the day before each point: sent, given up after "
        "the last try (dead), or superseded by a later state before they were sent.",
        Query(
            f"sum by (receiver, result) ({once(whole('ett_webhook_recent_deliveries'))})",
            "{{receiver}} {{result}}",
        ),
        unit="short",
        decimals=0,
        width=8,
    ),
    fleet_series(
        "Pending deliveries",
        "By receiver. If it climbs, the receiver does not accept deliveries: `ett "
        "receivers deliveries` shows its answers.",
        Query(f"max by (receiver) ({once(whole('ett_webhook_waiting'))})", "{{receiver}}"),
        unit="short",
        decimals=0,
        width=8,
    ),
    FleetPanel(
        title="Oldest pending delivery",
        description="Age of the oldest pending delivery, by receiver. Over an hour: "
        "EttWebhookFailing.",
        kind=Kind.STAT,
        unit="s",
        decimals=0,
        queries=(
            Query(
                "time() - min by (receiver) "
                f"({once(whole('ett_webhook_oldest_waiting_timestamp_seconds'))})",
                "{{receiver}}",
                instant=True,
            ),
        ),
        may_be_empty="No delivery is pending.",
        thresholds=_AN_HOUR_IS_BAD,
        named=True,
        width=4,
    ),
    FleetPanel(
        title="Disabled receivers",
        description="Receivers that answered 410 Gone. Nothing is sent to them until they are "
        "added again.",
        kind=Kind.STAT,
        unit="short",
        decimals=0,
        queries=(
            Query(
                f"max ({once(whole('ett_webhook_disabled_receivers'))})", "disabled", instant=True
            ),
        ),
        thresholds=ABOVE_ZERO_IS_BAD,
        width=4,
    ),
)
