"""Alertmanager: the body of ``POST /api/v2/alerts``.

A firing alert ends at ``endsAt`` unless it is sent again; without one Alertmanager takes its own
``resolve_timeout``. Labels identify the alert, so they are always cut to the same length.
"""

from typing import Any

from ett_service.core.intervals import rfc3339
from ett_service.notifications.notice import Notice, Receiver, WebhookFormat
from ett_service.notifications.wording import annotations, labels

_LABEL_LENGTH = 256


def render(notice: Notice, _: Receiver, most: int) -> list[dict[str, Any]]:
    """Return one alert."""
    ends = {} if notice.ends_us is None else {"endsAt": rfc3339(notice.ends_us)}
    return [
        {
            "labels": labels(notice, _LABEL_LENGTH),
            "annotations": annotations(notice, most),
            "startsAt": rfc3339(notice.starts_us),
            **ends,
            **({"generatorURL": notice.link} if notice.link else {}),
        }
    ]


FORMAT = WebhookFormat(name="alertmanager", render=render, place=4, repeats=True)
