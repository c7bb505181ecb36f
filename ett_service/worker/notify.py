"""Puts into the outbox what receivers do not know of regressions yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from ett_service.core.regressions.finding import State
from ett_service.notifications.notice import Notice, Status, to_json
from ett_service.notifications.routing import Directory, targets
from ett_service.storage.receivers import outbox
from ett_service.storage.regressions import findings, mutes
from ett_service.storage.regressions.mutes import Muted
from ett_service.storage.regressions.rows import Regression


@dataclass(frozen=True, slots=True)
class Audience:
    """Whom to tell, and where they find more."""

    directory: Directory = field(default_factory=Directory)
    public_url: str = ""


def unsettled(conn: Connection, now_us: int) -> list[Regression]:
    """Read the regressions that something is to be done about now: those that are not muted.

    What was muted while it began, or was resolved, is told once the mute ends: as it is then.
    """
    owed = findings.owed(conn)
    muted: Mapping[int, Sequence[Muted]] = {
        project_id: mutes.muted(conn, project_id, now_us)
        for project_id in {one.project_id for one in owed}
    }
    return [
        one
        for one in owed
        if not any(each.covers(one.series, now_us) for each in muted[one.project_id])
    ]


def settle(conn: Connection, audience: Audience, now_us: int) -> None:
    """Put what is to be told into the outbox, in the transaction of whatever led to it."""
    owed = unsettled(conn, now_us)
    receivers = audience.directory.all(conn, now_us) if owed else []
    for one in owed:
        if _is_news(one):
            notice = _notice(one, audience.public_url)
            told = to_json(notice)
            outbox.put(
                conn,
                one.project_id,
                one.series.fingerprint,
                one.standing.version,
                [(each.owner, each.name, told) for each in targets(notice, receivers)],
                now_us,
            )
        findings.tell(conn, one)


def _is_news(known: Regression) -> bool:
    """Whether it fires, or receivers think so: versions are odd while it does."""
    return known.standing.state is State.FIRING or known.told % 2 == 1


def _notice(known: Regression, public_url: str) -> Notice:
    standing = known.standing
    assert standing.firing_us is not None
    return Notice(
        project_id=known.project_id,
        project=known.project,
        id=known.id,
        fingerprint=known.series.fingerprint,
        version=standing.version,
        status=Status.FIRING if standing.state is State.FIRING else Status.RESOLVED,
        severity=known.severity,
        starts_us=standing.firing_us,
        ends_us=standing.resolved_us,
        finding=standing.finding,
        attribution=known.attribution,
        public_url=public_url,
    )
