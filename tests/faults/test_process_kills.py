"""Servers, workers and databases are killed under load: what was acknowledged stands, and once."""

import logging
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from ett_service.client.sending.transport import request
from ett_service.storage.engine.migrate import migrate
from tests.builders.databases import postgres
from tests.builders.databases.engines import new_postgresql
from tests.builders.servers.ett import Server, serving
from tests.builders.servers.processes import Running
from tests.builders.servers.waiting import wait_for
from tests.builders.tally import Tally
from tests.faults.senders import Senders, Stored, check, verified

LONGEST_LIFE_S = 0.4
LONGEST_STOP_S = 10.0
BROKEN = 0.01
"""Of all requests, those that a server which is asked to end may leave without an answer."""

log = logging.getLogger(__name__)

QUIET = {"ETT_DETECTION": '{"enabled": false}'}
ALONE = {**QUIET, "ETT_EMBEDDED_WORKER": "false"}


LONG = pytest.param(None, marks=pytest.mark.long, id="long")


def storm(senders: Senders, tally: Tally, rounds: int, kill: Callable[[], None]) -> None:
    """Let *kill* act after times that are drawn, each once something was acknowledged again."""
    draw = tally.draw
    with senders.sending():
        for _ in range(rounds):
            wait_for(senders.progressed(), senders.explain)
            time.sleep(draw.uniform(0, LONGEST_LIFE_S))
            kill()
            tally.add(kills=1)
        wait_for(senders.progressed(), senders.explain)


@pytest.mark.parametrize(
    ("dialect", "rounds"),
    [
        ("sqlite", 1),
        ("postgresql", 1),
        pytest.param("sqlite", None, marks=pytest.mark.long, id="sqlite-long"),
        pytest.param("postgresql", None, marks=pytest.mark.long, id="postgresql-long"),
    ],
    indirect=["dialect"],
)
def test_a_server_that_is_killed_loses_nothing_that_it_acknowledged(
    database_url: str,
    tmp_path: Path,
    rounds: int | None,
    tally: Tally,
) -> None:
    with serving(database_url, tmp_path, **QUIET) as server:
        senders = Senders(server)

        def kill() -> None:
            server.kill()
            server.start()

        storm(senders, tally, rounds or tally.share(0.5), kill)
        check(senders, tally)


@pytest.mark.long
@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_sender_that_takes_a_broken_connection_for_an_answer_is_found_out(
    database_url: str, tmp_path: Path
) -> None:
    with serving(database_url, tmp_path, **ALONE) as server:
        senders = Senders(server, believes=True)

        def has_lost() -> bool:
            server.kill()
            server.start()
            return Stored.by(senders).lost > 0

        with senders.sending():
            wait_for(has_lost)


@pytest.mark.parametrize(
    ("dialect", "rounds"),
    [
        ("postgresql", 1),
        pytest.param("postgresql", None, marks=pytest.mark.long, id="postgresql-long"),
    ],
    indirect=["dialect"],
)
def test_a_worker_that_is_killed_leaves_every_number_as_one_fold_says(
    database_url: str,
    tmp_path: Path,
    rounds: int | None,
    tally: Tally,
) -> None:
    with serving(database_url, tmp_path, **ALONE) as server:
        senders = Senders(server)
        workers = [_worker(server), _worker(server)]

        def kill() -> None:
            workers.pop(0).kill()
            workers.append(_worker(server))

        storm(senders, tally, rounds or tally.share(0.25), kill)
        check(senders, tally)
        for each in workers:
            assert each.stop() == 0, each.err


def _worker(server: Server) -> Running:
    return Running("worker", folder=server.folder, environment=server.environment)


@pytest.fixture(scope="module")
def cluster() -> Iterator[postgres.Cluster]:
    """Return a PostgreSQL that may be killed."""
    programs = postgres.binaries()
    if programs is None:
        pytest.skip(postgres.MISSING)
    with postgres.cluster(programs) as cluster:
        yield cluster


@pytest.fixture
def mortal_url(cluster: postgres.Cluster) -> Iterator[str]:
    """Return the address of a database on it."""
    with new_postgresql(cluster.url) as url:
        migrate(url)
        yield url


def a_session(cluster: postgres.Cluster, state: str = "active") -> int | None:
    """Return the process of a session of the service, if possible one in that state."""
    address = make_url(cluster.url).set(drivername="postgresql").render_as_string()
    try:
        own = psycopg.connect(address, autocommit=True)
    except psycopg.OperationalError:  # it recovers
        return None
    with closing(own) as conn:
        row = conn.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'ett'"
            " ORDER BY state <> %s, xact_start LIMIT 1",
            [state],
        ).fetchone()
    return None if row is None else int(row[0])


@pytest.mark.parametrize(
    ("how", "rounds"),
    [
        ("terminated", 1),
        ("all killed", 1),
        pytest.param("terminated", None, marks=pytest.mark.long, id="terminated-long"),
        pytest.param("killed", None, marks=pytest.mark.long, id="killed-long"),
        pytest.param("all killed", None, marks=pytest.mark.long, id="all killed-long"),
    ],
)
def test_a_database_that_is_killed_loses_nothing_and_is_found_again(
    cluster: postgres.Cluster,
    mortal_url: str,
    tmp_path: Path,
    how: str,
    rounds: int | None,
    tally: Tally,
) -> None:
    share = {"terminated": 0.25, "killed": 0.2, "all killed": 0.1}[how]
    with serving(mortal_url, tmp_path, **QUIET) as server:
        senders = Senders(server)

        def kill() -> None:
            if how == "all killed":
                cluster.kill()
                cluster.start()
            else:
                session = wait_for(lambda: a_session(cluster))
                number = signal.SIGTERM if how == "terminated" else signal.SIGKILL
                postgres.signal_session(session, number)
                wait_for(lambda: not Path(f"/proc/{session}").exists())

        storm(senders, tally, rounds or tally.share(share), kill)
        wait_for(lambda: a_session(cluster))  # what was acknowledged may have been on its way
        check(senders, tally)
        assert set(senders.statuses) <= {200, 503}


@pytest.mark.parametrize("rounds", [1, LONG])
def test_a_database_that_is_away_is_answered_for_and_found_when_it_is_back(
    cluster: postgres.Cluster, mortal_url: str, tmp_path: Path, rounds: int | None, tally: Tally
) -> None:
    with serving(mortal_url, tmp_path, **QUIET) as server:
        senders = Senders(server)
        with senders.sending():
            for _ in range(rounds or tally.share(0.05)):
                wait_for(senders.progressed(), senders.explain)
                cluster.stop()
                wait_for(senders.refused(20), senders.explain)
                answer = request("GET", f"{server.url}/v1/jobs", server.key)
                assert answer.status == 503
                assert b"urn:ett-service:problem:storage-unavailable" in answer.body
                assert int(answer.headers["retry-after"]) > 0
                assert request("GET", f"{server.url}/healthz").status == 200
                assert request("GET", f"{server.url}/readyz").status == 503
                cluster.start()
                tally.add(others=1)
            wait_for(senders.progressed(), senders.explain)
        assert set(senders.statuses) == {200, 503}
        check(senders, tally)


@contextmanager
def standby_of(primary: postgres.Cluster, programs: Path) -> Iterator[postgres.Cluster]:
    """Run a standby that hears of *primary* no more."""
    with tempfile.TemporaryDirectory() as made:
        base = Path(made) / "base"
        copied = ["--pgdata", str(base), "--dbname", primary.url.replace("+psycopg", "")]
        subprocess.run([programs / "pg_basebackup", *copied], check=True)
        (base / "standby.signal").touch()
        with postgres.cluster(programs, data=base) as running:
            yield running


@pytest.mark.slow
def test_a_standby_that_is_behind_is_answered_for_by_503_until_it_is_promoted(
    tmp_path: Path, tally: Tally
) -> None:
    programs = postgres.binaries()
    if programs is None or not (programs / "pg_basebackup").exists():
        pytest.skip("pg_basebackup is not installed beside the server")
    with postgres.cluster(programs) as primary, tempfile.TemporaryDirectory() as made:
        address = Path(made) / "database"
        address.symlink_to(primary.folder)
        url = f"postgresql+psycopg://postgres@/postgres?host={address}"
        migrate(url)
        with (
            serving(url, tmp_path, **QUIET) as server,
            standby_of(primary, programs) as standby,
        ):
            of_primary = Senders(server)
            with of_primary.sending():
                wait_for(of_primary.progressed(), of_primary.explain)
            primary.stop()
            address.unlink()
            address.symlink_to(standby.folder)

            senders = Senders(server)
            with senders.sending():
                wait_for(lambda: is_read(server), senders.explain)
                wait_for(senders.refused(20), senders.explain)
                with psycopg.connect(host=str(standby.folder), user="postgres") as conn:
                    conn.execute("SELECT pg_promote()")
                tally.add(others=1)
                wait_for(senders.progressed(), senders.explain)
            assert set(senders.statuses) <= {200, 503}
            check(senders, tally)


def is_read(server: Server) -> bool:
    """Whether the server answers from its database."""
    return request("GET", f"{server.url}/v1/jobs", server.key).status == 200


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
@pytest.mark.parametrize("rounds", [1, LONG])
def test_a_server_that_is_asked_to_end_finishes_what_it_has_begun(
    database_url: str,
    tmp_path: Path,
    rounds: int | None,
    tally: Tally,
) -> None:
    took: list[float] = []
    with serving(database_url, tmp_path, **QUIET) as server:
        senders = Senders(server)
        draw = tally.draw
        with senders.sending():
            for _ in range(rounds or tally.share(0.5)):
                wait_for(senders.progressed())
                time.sleep(draw.uniform(0, LONGEST_LIFE_S / 4))
                began = time.monotonic()
                server.stop()
                took.append(time.monotonic() - began)
                server.start()
                tally.add(others=1)
            wait_for(senders.progressed())
        check(senders, tally)
    verified(server)
    sent = senders.statuses.total()
    log.warning(
        "%d stops, the longest of %.1f s; of %d requests %d broken: %s",
        len(took), max(took), sent, len(senders.broken), Counter(senders.broken),
    )  # fmt: skip
    assert max(took) <= LONGEST_STOP_S
    assert len(senders.broken) <= max(1, BROKEN * sent)
