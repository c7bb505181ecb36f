"""A service that lacks something at its start says what, in one line, and ends."""

import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import open_store
from tests.builders.servers.processes import bare_environment, run

Environment = dict[str, str]
NOWHERE = "postgresql+psycopg://ett:hunter2@127.0.0.1:1/ett"


@contextmanager
def plain(folder: Path, **settings: str) -> Iterator[Environment]:
    """Have a database of the newest schema, and these settings."""
    migrate(f"sqlite:///{folder / 'ett.db'}")
    yield {"ETT_DATABASE_URL": f"sqlite:///{folder / 'ett.db'}", "ETT_PORT": "0", **settings}


@contextmanager
def unknown_schema(folder: Path) -> Iterator[Environment]:
    """Have a database of a later version."""
    with plain(folder) as environment:
        with closing(sqlite3.connect(folder / "ett.db")) as conn, conn:
            conn.execute("UPDATE alembic_version SET version_num = '20991231_later'")
        yield environment


@contextmanager
def earlier_schema(folder: Path) -> Iterator[Environment]:
    """Have a database of the first version."""
    migrate(f"sqlite:///{folder / 'ett.db'}", "20261121_first_schema")
    yield {"ETT_DATABASE_URL": f"sqlite:///{folder / 'ett.db'}"}


@contextmanager
def noise(folder: Path) -> Iterator[Environment]:
    """Have a file that is no database."""
    (folder / "ett.db").write_bytes(b"noise" * 1000)
    yield {"ETT_DATABASE_URL": f"sqlite:///{folder / 'ett.db'}"}


@contextmanager
def in_use(folder: Path) -> Iterator[Environment]:
    """Have another process write the file."""
    with plain(folder) as environment, closing(open_store(environment["ETT_DATABASE_URL"])):
        yield environment


@contextmanager
def port_taken(folder: Path) -> Iterator[Environment]:
    """Have somebody else listen."""
    with socket.create_server(("127.0.0.1", 0)) as listener, plain(folder) as environment:
        yield {**environment, "ETT_PORT": str(listener.getsockname()[1])}


@contextmanager
def settings(folder: Path, **values: str) -> Iterator[Environment]:
    """Have nothing but these settings."""
    yield {"ETT_DATABASE_URL": f"sqlite:///{folder / 'none' / 'ett.db'}", **values}


@contextmanager
def file(folder: Path, text: str) -> Iterator[Environment]:
    """Have a file of settings."""
    (folder / "ett.toml").write_text(text)
    yield {}


CASES: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "no PostgreSQL": ("serve", lambda at: settings(at, ETT_DATABASE_URL=NOWHERE), "unavailable"),
    "no PostgreSQL for a worker": (
        "worker", lambda at: settings(at, ETT_DATABASE_URL=NOWHERE), "unavailable",
    ),
    "a later schema": ("serve", unknown_schema, "schema"),
    "an earlier schema": ("serve", earlier_schema, "ett migrate"),
    "no database for a worker": ("worker", settings, "There is no database at"),
    "no folder": ("serve", settings, "No such file"),
    "no database": ("serve", noise, "not a database"),
    "a file in use": ("serve", in_use, "Another process"),
    "a port in use": ("serve", port_taken, "in use"),
    "a number that is none": ("serve", lambda at: settings(at, ETT_PORT="many"), "port"),
    "an unknown name": ("serve", lambda at: file(at, "databse_url = 'x'\n"), "database_url"),
    "no TOML": ("serve", lambda at: file(at, "= = ="), "ett.toml"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_service_that_cannot_start_says_why_in_a_line(case: str, tmp_path: Path) -> None:
    verb, situation, words = CASES[case]
    with situation(tmp_path) as environment:  # type: ignore[attr-defined]
        of_server = {**bare_environment(), "ETT_PORT": "0", **environment}
        done = run(verb, folder=tmp_path, environment=of_server)
    assert done.returncode in (1, 2), done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr
    assert words in done.stderr
    assert len(done.stderr.splitlines()) <= 5, done.stderr
