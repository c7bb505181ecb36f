"""Every failure names what went wrong and what to try, and has the exit code of its kind."""

import fcntl
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ett_service.cli.main import main
from tests.builders.servers.ett import Server
from tests.builders.servers.threads import in_thread
from tests.cli.conftest import Ett


@pytest.mark.parametrize(
    ("command", "variables", "code", "wrong", "to_try"),
    [
        ("serv", {}, 2, "there is no verb 'serv'", "did you mean serve?"),
        ("jobs --tem language", {}, 2, "has no option --tem", "did you mean --team?"),
        ("regressions lst", {}, 2, "invalid choice: 'lst'", "list"),
        ("keys", {}, 2, "required: {create,list,rotate,revoke,usage}", "usage: ett keys"),
        ("jobs --limit 0", {}, 2, "is not a whole number from 1", "usage: ett jobs"),
        ("jobs --from zzz", {}, 2, "'zzz' is not a day", "2026-11-09"),
        ("keys create --project p --scope all", {}, 2, "invalid choice: 'all'", "admin"),
        ("config check", {"ETT_PROT": "1"}, 1, "ETT_PROT is not a setting", "mean ETT_PORT?"),
        ("config check", {"ETT_PORT": "x"}, 1, "port (from ETT_PORT)", "docs/operations.md"),
        ("config check --config no.toml", {}, 1, "no.toml cannot be read", "docs/operations.md"),
        ("config show --config torn.toml", {}, 1, "torn.toml is not TOML", "docs/operations.md"),
        ("migrate", {"ETT_DATABASE_URL": "mysql://h/d"}, 1, "must start with", "postgresql"),
        ("migrate", {"ETT_DATABASE_URL": "sqlite:///no/ett.db"}, 1, "No such file", "path"),
        ("migrate", {"ETT_DATABASE_URL": "sqlite:///torn.toml"}, 1, "not a database", "Try"),
        (
            "migrate",
            {"ETT_DATABASE_URL": "postgresql+psycopg://ett:hunter2@127.0.0.1:1/ett"},
            1,
            "The database is unavailable",
            "check that the database runs",
        ),
        ("run", {}, 2, "no command", "ett run"),
        ("sync", {}, 2, "there is no address to send to", "ETT_URL"),
        ("import mlperf none.log", {}, 1, "none.log: No such file", "paths are logs"),
        ("keys list", {}, 1, "There is no database at", "ett migrate"),
        ("verify", {}, 1, "There is no database at", "ett migrate"),
        ("worker", {}, 1, "There is no database at", "ett migrate"),
        ("jobs --url http://127.0.0.1:1", {}, 4, "the server cannot be reached", "ett serve"),
        ("job a --url ftp://h", {}, 4, "is not an http or https address", "--url"),
    ],
)
def test_a_failure_names_what_went_wrong_and_what_to_try(
    ett: Ett, command: str, variables: dict[str, str], code: int, wrong: str, to_try: str
) -> None:
    Path("torn.toml").write_text("port =\n" * 100)
    done = ett(*command.split(), **variables)
    assert done.returncode == code, done.stderr
    assert wrong in done.stderr
    assert to_try in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr


@pytest.mark.parametrize(
    ("command", "code", "wrong", "to_try"),
    [
        ("job nothing", 1, "No such job", "ett jobs"),
        ("jobs --state zzz", 1, "/query/state: enum", "--help"),
        (
            "fleet --by zzz",
            1,
            "`group_by`: unknown_dimension. It may be project,",
            "code_version.\n",
        ),
        ("jobs --sort zzz", 1, "/query/sort", "--help"),
        ("jobs --key ett_wrong", 5, "No valid key", "ett keys list"),
        ("jobs --key=", 5, "No valid key", "ett keys create"),
        (
            "keys revoke --yes ett_00000000 --url URL",
            1,
            "No active key has this prefix",
            "keys list",
        ),
    ],
)
def test_a_refusal_is_printed_in_the_words_of_the_server(
    ett: Ett, served: Server, command: str, code: int, wrong: str, to_try: str
) -> None:
    arguments = [served.url if word == "URL" else word for word in command.split()]
    done = ett(*arguments, ETT_URL=served.url, ETT_API_KEY=served.key)
    assert done.returncode == code, done.stderr
    assert wrong in done.stderr
    assert to_try in done.stderr
    assert done.stdout == ""


def test_a_key_that_may_not_read_is_named_as_such(ett: Ett, served: Server) -> None:
    body = {"project": "default", "name": "writer", "scopes": ["write"]}
    writer = served.ask("POST", "/v1/keys", body)["key"]
    done = ett("jobs", ETT_URL=served.url, ETT_API_KEY=writer)
    assert done.returncode == 5
    assert "The key lacks a scope" in done.stderr
    assert "ett keys create --scope" in done.stderr


def test_a_port_in_use_is_named(ett: Ett) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = ett("serve", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 1
    assert "Address already in use" in done.stderr
    assert "port is right and free" in done.stderr


def test_a_file_that_another_process_writes_is_left_to_it(ett: Ett, served: Server) -> None:
    done = ett("worker", ETT_DATABASE_URL=served.database_url)
    assert done.returncode == 1
    assert "Another process is writing" in done.stderr
    assert "use PostgreSQL" in done.stderr


def test_a_key_for_a_file_that_a_server_holds_is_requested_from_the_server(ett: Ett) -> None:
    main(["migrate"])
    with Path("ett.db.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = ett("keys", "create", "--project", "p", "--scope", "read")
    assert done.returncode == 1
    assert "--url ADDRESS --key KEY" in done.stderr


def test_revoking_a_key_that_is_not_there_is_a_failure(ett: Ett) -> None:
    main(["migrate"])
    done = ett("keys", "revoke", "ett_00000000", "--yes")
    assert done.returncode == 1
    assert "no active key begins with ett_00000000" in done.stderr
    assert "ett keys list" in done.stderr


@pytest.fixture
def other_server() -> Iterator[str]:
    """Serve pages that are not ours."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *_: object) -> None:
            """Keep the test's output clean."""

    server = HTTPServer(("127.0.0.1", 0), Page)
    with in_thread(server):
        yield f"http://127.0.0.1:{server.server_address[1]}"


def test_an_address_of_some_other_server_is_recognised(ett: Ett, other_server: str) -> None:
    done = ett("jobs", "--url", other_server)
    assert done.returncode == 1
    assert "did not answer with JSON" in done.stderr
    assert "Check --url and ETT_URL" in done.stderr
