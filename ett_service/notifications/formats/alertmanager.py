"""The body of ``POST /api/v2/alerts`` of an Alertmanager.

While it fires, ``endsAt`` is when it is over unless it is sent again; without one Alertmanager
takes its own ``resolve_timeout``. Labels are what it knows the alert by, so they are cut alike
however long the rest is.
"""

from typing import Any

from ett_service.core.intervals import rfc3339
from ett_service.notifications.formats.alert import annotations, labels
from ett_service.notifications.notice import Notice
from ett_service.notifications.routing import Receiver

_LABEL_LENGTH = 256


def body(notice: Notice, _: Receiver, most: int) -> list[dict[str, Any]]:
    """Write one alert."""
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
