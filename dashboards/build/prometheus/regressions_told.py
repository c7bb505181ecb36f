"""Whether people hear of what was found."""

from dashboards.build.colours import ALARM, GOOD
from dashboards.build.kit import Kind, Query, Threshold
from dashboards.build.prometheus.promql import once, whole
from dashboards.build.prometheus.reading import ABOVE_ZERO_IS_BAD, FleetPanel

_AN_HOUR_IS_BAD = (Threshold(None, GOOD), Threshold(3600, ALARM))

TOLD = (
    FleetPanel(
        title="Messages of a day",
        description="What came to an end in the day before each point: sent, given up after the "
        "last try (dead), or superseded by a later state before it could be sent.",
        unit="short",
        decimals=0,
        low=0,
        queries=(
            Query(
                f"sum by (receiver, result) ({once(whole('ett_webhook_recent_deliveries'))})",
                "{{receiver}} {{result}}",
            ),
        ),
        width=8,
    ),
    FleetPanel(
        title="Messages that wait",
        description="By receiver. One that climbs is a receiver that does not answer: "
        "`ett receivers deliveries` shows what it said.",
        unit="short",
        decimals=0,
        low=0,
        queries=(
            Query(f"max by (receiver) ({once(whole('ett_webhook_waiting'))})", "{{receiver}}"),
        ),
        width=8,
    ),
    FleetPanel(
        title="Oldest that waits",
        description="How long the oldest message has waited, by receiver. Over an hour: "
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
        may_be_empty="No message waits.",
        thresholds=_AN_HOUR_IS_BAD,
        named=True,
        width=4,
    ),
    FleetPanel(
        title="Disabled receivers",
        description="Receivers that said 410 Gone. They are sent nothing until they are added "
        "again.",
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
