"""Notification: puts into the outbox which changes of regressions receivers do not know yet."""

from dataclasses import dataclass, field

from sqlalchemy import Connection

from ett_service.core.regressions.finding import State
from ett_service.notifications.notice import Notice, Status, to_json
from ett_service.notifications.routing import Directory, targets
from ett_service.storage.receivers import outbox
from ett_service.storage.receivers.outbox import Message
from ett_service.storage.regressions import findings, mutes
from ett_service.storage.regressions.findings import Regression


@dataclass(frozen=True, slots=True)
class Audience:
    """Who is notified, and where people reach the server."""

    directory: Directory = field(default_factory=Directory)
    public_url: str = ""


def pending(conn: Connection, now_us: int) -> list[Regression]:
    """Read the regressions whose changes receivers do not know yet, unless they are muted.

    Changes while a regression is muted are notified once the mute ends, as they are by then.
    """
    owed = findings.unnotified(conn)
    projects = {regression.project_id for regression in owed}
    muted = {project_id: mutes.muted(conn, project_id, now_us) for project_id in projects}
    return [
        regression
        for regression in owed
        if not any(mute.covers(regression.series, now_us) for mute in muted[regression.project_id])
    ]


def enqueue(conn: Connection, audience: Audience, now_us: int) -> None:
    """Put pending notices into the outbox, in the transaction of what led to them."""
    regressions = pending(conn, now_us)
    receivers = audience.directory.all(conn, now_us) if regressions else []
    for regression in regressions:
        if regression.is_news:
            notice = _notice(regression, audience.public_url)
            body = to_json(notice)
            messages = [
                Message(receiver.owner, receiver.name, body)
                for receiver in targets(notice, receivers)
            ]
            outbox.put(
                conn, notice.project_id, notice.fingerprint, notice.version, messages, now_us
            )
        findings.mark_notified(conn, regression)


def _notice(regression: Regression, public_url: str) -> Notice:
    standing = regression.standing
    assert standing.firing_us is not None
    return Notice(
        project_id=regression.project_id,
        project=regression.project,
        id=regression.id,
        fingerprint=regression.series.fingerprint,
        version=standing.version,
        status=Status.FIRING if standing.state is State.FIRING else Status.RESOLVED,
        severity=regression.severity,
        starts_us=standing.firing_us,
        ends_us=standing.resolved_us,
        finding=standing.finding,
        attribution=regression.attribution,
        public_url=public_url,
    )
