"""``ett backup``: a copy of a SQLite database while it is used; a new name for a restored one."""

import sys
from argparse import ArgumentParser, Namespace
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from ett_service.charts.units import size
from ett_service.cli.arguments import config
from ett_service.cli.operations.local import loaded, record
from ett_service.cli.output import write_line
from ett_service.cli.verb import Failure, Verb
from ett_service.logs import redact
from ett_service.storage.engine import migrate, sqlite
from ett_service.storage.engine.backup import back_up, renew_epoch
from ett_service.storage.engine.seal import key_file
from ett_service.storage.engine.store import open_store
from ett_service.storage.record.audit import Action, AdminAct


class NoBackup(Failure):
    """The command does not say what to do, or cannot do it for this database."""


def _options(parser: ArgumentParser) -> None:
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("path", nargs="?", type=Path, metavar="PATH", help="file to copy to")
    target.add_argument(
        "--restored", action="store_true",
        help="the database was restored from elsewhere: have trainers send again what it lacks",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")


def _backup(args: Namespace) -> Any:
    url = loaded(args).settings.database_url
    if args.restored:
        with closing(open_store(url)) as store:
            store.write(_restored)
        return {"database": redact(url), "epoch": "new"}
    address = migrate.address(url)
    if address.get_backend_name() != "sqlite":
        hint = "Use pg_dump, or a base backup and the write-ahead log: see docs/operations.md."
        raise NoBackup("PostgreSQL has its own backups.", hint)
    database = sqlite.path_of(address)
    n_bytes = back_up(database, args.path, replace=args.force)
    if key_file(database).exists():
        sys.stderr.write(
            f"{key_file(database).name} is not in the copy: without it, or `secret_key`, "
            "receivers have to be added again.\n"
        )
    return {"path": str(args.path), "bytes": n_bytes}


def _restored(conn: Connection) -> None:
    renew_epoch(conn)
    record(conn, AdminAct(Action.STORE_RESTORED))


def _write(answer: Any, args: Namespace) -> None:
    if args.restored:
        write_line(f"{answer['database']} counts as restored: trainers send again what it lacks.")
    else:
        write_line(f"{answer['path']}: {size(answer['bytes'])}.")


VERB = Verb(
    description="Copy the SQLite database while it is used.",
    epilog="A copy is restored by putting it in the database's place while no server runs.",
    options=(_options, config),
    run=_backup,
    write=_write,
)
