"""PagerDuty Events API v2: ``trigger`` and ``resolve``, one incident for each fingerprint.

Its limits: a summary of 1,024 characters, a ``dedup_key`` of 255, an event of 512 KB
(developer.pagerduty.com, "Send an alert event").
"""

from typing import Any

from ett_service.core.intervals import rfc3339
from ett_service.notifications.notice import Notice, Receiver, Secret, Status, WebhookFormat
from ett_service.notifications.wording import (
    ALERT,
    Wording,
    cohort_label,
    cut,
    shown,
    subject_in_words,
    word,
)

_MOST_SUMMARY = 1_024
_SEVERITIES = {"critical": "critical", "high": "error", "medium": "warning", "low": "info"}


def render(notice: Notice, receiver: Receiver, most: int) -> dict[str, Any]:
    """Return one event; the first secret of the receiver is its routing key."""
    event = {
        "routing_key": receiver.secrets[0] if receiver.secrets else "",
        "event_action": "trigger",
        "dedup_key": notice.fingerprint,
    }
    if notice.status is Status.RESOLVED:
        return {**event, "event_action": "resolve"}
    wording = word(notice, most)
    links = [(wording.more, notice.link), *wording.examples]
    return {
        **event,
        "payload": _payload(notice, wording, most),
        "client": "ett-service",
        **({"client_url": notice.link} if notice.link else {}),
        "links": [{"href": link, "text": name} for name, link in links if link],
    }


FORMAT = WebhookFormat(name="pagerduty", render=render, place=2, secret=Secret.ROUTING_KEY)


def _payload(notice: Notice, wording: Wording, most: int) -> dict[str, Any]:
    return {
        "summary": cut(wording.headline, _MOST_SUMMARY),
        "source": shown(notice.cohort.get("cluster", "") or notice.project, most),
        "severity": "info" if notice.is_test else _SEVERITIES.get(notice.severity, "warning"),
        "timestamp": rfc3339(notice.starts_us),
        "component": subject_in_words(notice.finding.series.subject, most),
        "group": shown(cohort_label(notice) or notice.project, most),
        "class": ALERT,
        "custom_details": {
            "what": wording.what,
            "how_much": wording.how_much,
            "since": wording.since,
            "associated_with": wording.associated,
            "cost": wording.cost,
            "examples": [name for name, _ in wording.examples],
            "more": wording.more,
            "state_version": notice.version,
            **({"remark": wording.remark} if wording.remark else {}),
        },
    }
