"""PagerDuty Events API v2: ``trigger`` and ``resolve``, one incident for each fingerprint.

Its limits: a summary of 1,024 characters, a ``dedup_key`` of 255, an event of 512 KB
(developer.pagerduty.com, "Send an alert event").
"""

from typing import Any

from ett_service.core.intervals import rfc3339
from ett_service.notifications.formats.alert import ALERT, cohort_label
from ett_service.notifications.notice import Notice, Status
from ett_service.notifications.routing import Receiver
from ett_service.notifications.wording import Wording, cut, shown, subject_in_words, word

_MOST_SUMMARY = 1_024
_SEVERITIES = {"critical": "critical", "high": "error", "medium": "warning", "low": "info"}


def body(notice: Notice, receiver: Receiver, most: int) -> dict[str, Any]:
    """Write one event; the first secret of the receiver is its routing key."""
    event = {
        "routing_key": receiver.secrets[0] if receiver.secrets else "",
        "event_action": "trigger",
        "dedup_key": notice.fingerprint,
    }
    if notice.status is Status.RESOLVED:
        return {**event, "event_action": "resolve"}
    told = word(notice, most)
    return {
        **event,
        "payload": _payload(notice, told, most),
        "client": "ett-service",
        **({"client_url": notice.link} if notice.link else {}),
        "links": _links(notice, told),
    }


def _payload(notice: Notice, told: Wording, most: int) -> dict[str, Any]:
    subject = notice.finding.series.subject
    return {
        "summary": cut(told.headline, _MOST_SUMMARY),
        "source": shown(notice.cohort.get("cluster", "") or notice.project, most),
        "severity": "info" if notice.is_test else _SEVERITIES.get(notice.severity, "warning"),
        "timestamp": rfc3339(notice.starts_us),
        "component": subject_in_words(subject, most),
        "group": shown(cohort_label(notice) or notice.project, most),
        "class": ALERT,
        "custom_details": {
            "what": told.what,
            "how_much": told.how_much,
            "since": told.since,
            "associated_with": told.associated,
            "cost": told.cost,
            "examples": [name for name, _ in told.examples],
            "more": told.more,
            "state_version": notice.version,
            **({"remark": told.remark} if told.remark else {}),
        },
    }


def _links(notice: Notice, told: Wording) -> list[dict[str, str]]:
    named = [(told.more, notice.link), *told.examples]
    return [{"href": link, "text": name} for name, link in named if link]
