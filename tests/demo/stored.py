"""The fleet of sixty days in a database, as the worker would have stored it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert

from ett_service.core.events import Marker, MarkerKind
from ett_service.core.fleet.contribution import contribution
from ett_service.core.ledger.results import FORMULA_VERSION
from ett_service.demo.calendar import WireEvent
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import open_store
from ett_service.storage.fleet import rollup_deltas
from ett_service.storage.folded_jobs import JobChanges, LedgerRows
from ett_service.storage.jobs.ledgers import Head
from ett_service.storage.record.dirty_marks import JobBatch, JobKey
from ett_service.storage.record.events import encode_body
from ett_service.storage.record.keys import create_project
from ett_service.storage.record.markers import add_marker
from ett_service.storage.schema import event, job
from tests.demo.conftest import END_US, Judged, Lived, decoded, instant

_HEAD = Head(1, FORMULA_VERSION, 1, END_US, None)
_INFORMATIVE_TYPES = frozenset({"attempt_started", "span"})


def stored(judged: Judged, folder: Path) -> str:
    """Store what was folded with the fleet's markers, and return the address of the database.

    Only events that say more of an attempt than its ledger are stored.
    """
    url = f"sqlite:///{folder / 'ett.db'}"
    migrate(url)
    store = open_store(url)
    store.write(lambda conn: _put(conn, judged))
    store.close()
    return url


def _put(conn: Connection, judged: Judged) -> None:
    project_id = create_project(conn, "default", END_US)
    changes = JobChanges(project_id)
    for name, lived in judged.lived.items():
        key = JobKey(project_id, name)
        changes.compare_ledger(key, lived.ledger, _HEAD, LedgerRows())
        changes.compare_cells(key, contribution(lived.ledger), {})
    of_jobs = [{"project_id": project_id, "job": name} for name in judged.lived]
    conn.execute(insert(job), [{**row, "received_us": END_US} for row in of_jobs])
    conn.execute(insert(event), list(_events(project_id, judged)))
    changes.write(conn, {}, END_US)
    rollup_deltas.merge_jobs(conn, JobBatch(project_id, list(judged.lived)))
    for number, marker in enumerate(judged.fleet.markers):
        stored_marker = Marker(
            id=f"marker {number}",
            at=instant(marker["at"]),
            kind=MarkerKind(marker["kind"]),
            title=marker["title"],
            end=instant(marker["end"]) if "end" in marker else None,
            labels=marker["labels"],
        )
        add_marker(conn, project_id, stored_marker, made_by="ett_demo", now_us=END_US)


def _events(project_id: int, judged: Judged) -> Iterator[dict[str, Any]]:
    for name, lived in judged.lived.items():
        for fact in decoded(list(_informative_events(lived))):
            yield {
                "project_id": project_id,
                "job": name,
                "id": fact.id,
                "type": fact.type,
                "at_us": fact.at,
                "received_us": END_US,
                "batch": 1,
                "body": encode_body(fact),
            }


def _informative_events(lived: Lived) -> Iterator[WireEvent]:
    for fact in lived.story.events:
        if fact["type"] in _INFORMATIVE_TYPES and (fact["type"] != "span" or "attributes" in fact):
            yield fact
