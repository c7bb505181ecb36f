"""Acts of people who administer: each is written together with its entry in the audit log."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from sqlalchemy import Connection

from ett_service.api.deps import AdminKey, CorrectingKey, State
from ett_service.api.state import AppState
from ett_service.storage.record import audit
from ett_service.storage.record.audit import Actor, AdminAct, Via
from ett_service.storage.record.keys import Key

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Acts:
    """Writes what the holder of a key does."""

    state: AppState
    key: Key
    actor: Actor

    def write(self, work: Callable[[Connection], T], act: AdminAct) -> T:
        """Run *work* and record *act*, both or neither; a work that returns None or False did
        nothing, and leaves no entry."""

        def recorded(conn: Connection) -> T:
            result = work(conn)
            if result is not None and result is not False:
                self.record(conn, act)
            return result

        return self.state.store.write(recorded)

    def record(self, conn: Connection, act: AdminAct) -> None:
        """Record *act* in the transaction that does it."""
        audit.record(conn, self.actor, act, self.state.now_us())
        fields = {"event": "admin_act", "action": act.action.value, "target": act.target}
        log.info("An administrator acts.", extra={**fields, "key": self.actor.made_by})


def _acts(request: Request, key: Key, state: AppState) -> Acts:
    by_page = getattr(request.state, "reader", None) is not None
    host = request.client.host if request.client else ""
    actor = Actor(key.prefix, key.name, Via.PAGE if by_page else Via.API, host)
    return Acts(state, key, actor)


def _admin_acts(request: Request, key: AdminKey, state: State) -> Acts:
    return _acts(request, key, state)


def _correcting_acts(request: Request, key: CorrectingKey, state: State) -> Acts:
    return _acts(request, key, state)


AdminActs = Annotated[Acts, Depends(_admin_acts)]
CorrectingActs = Annotated[Acts, Depends(_correcting_acts)]
