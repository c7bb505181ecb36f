"""``ett audit-log``: who administered what, when, and from where."""

import json
from argparse import ArgumentParser, Namespace
from typing import Any

from ett_service.cli.arguments import INSTANT, config, when, whole
from ett_service.cli.operations.config import opened_for_reading
from ett_service.cli.output import minute
from ett_service.cli.record.administration import asks_server, server
from ett_service.cli.remote import listed
from ett_service.cli.tables import identifier, prose, spare, text, write_rows
from ett_service.cli.verb import Verb
from ett_service.core.intervals import rfc3339
from ett_service.ingest.members import parse_day_or_instant
from ett_service.storage.record import audit
from ett_service.storage.record.audit import Action, AuditFilter, Entry

_LATEST = 100


def _who(entry: dict[str, Any]) -> str:
    key = f" ({entry['made_by']})" if entry["made_by"] else ""
    return f"{entry['made_by_name']}{key}"


def _in_words(details: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in details.items()
    )


_COLUMNS = (
    text("at (UTC)", "at", minute),
    text("who", _who),
    text("action"),
    identifier("target"),
    spare(text("project", "project", lambda name: name or "")),
    spare(text("from", "made_from")),
    spare(prose("details", "details", _in_words)),
)


def _options(parser: ArgumentParser) -> None:
    when(parser, "--from", "from", f"only from then on: {INSTANT}")
    when(parser, "--to", "to", "only before")
    parser.add_argument(
        "--action", action="append", choices=[action.value for action in Action],
        help="repeat it for several",
    )  # fmt: skip
    parser.add_argument("--by", help="prefix of a key")
    parser.add_argument("--project")
    parser.add_argument("--target", help="such as the prefix of a key, or the name of a job")
    parser.add_argument("--limit", type=whole, default=_LATEST, help=f"default: {_LATEST}")


def _list(args: Namespace) -> Any:
    given = {"from": getattr(args, "from"), "to": args.to, "action": args.action}
    named = {"made_by": args.by, "project": args.project, "target": args.target}
    if asks_server(args):
        return listed(args, "/v1/audit", "entries", {**given, **named}, args.limit)
    wanted = AuditFilter(
        from_us=_us(given["from"]),
        to_us=_us(args.to),
        actions=tuple(map(Action, args.action or ())),
        **named,
    )
    with opened_for_reading(args) as (_, store), store.reading() as conn:
        return [_as_json(entry) for entry in audit.listing(conn, wanted, limit=args.limit)]


def _us(instant: str | None) -> int | None:
    return None if instant is None else parse_day_or_instant(instant)


def _as_json(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "at": rfc3339(entry.at_us),
        "action": entry.action.value,
        "project": entry.project,
        "target": entry.target,
        "details": entry.details,
        "made_by": entry.made_by,
        "made_by_name": entry.made_by_name,
        "made_via": entry.made_via.value,
        "made_from": entry.made_from,
    }


def _write(entries: Any, _args: Namespace) -> None:
    write_rows(_COLUMNS, entries, "Nobody has administered anything yet.")


VERB = Verb(
    description="List what administrators did, the latest first.",
    options=(_options, server, config),
    run=_list,
    write=_write,
)
