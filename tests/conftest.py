"""Stores for the tests: a SQLite file and a real PostgreSQL, made by the migrations."""

import gc
import os
import random
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import settings

from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.record import dirty_marks
from ett_service.storage.record.keys import create_project
from tests.builders.clock import RECEIVED_AT, Clock
from tests.builders.databases import postgres
from tests.builders.databases.engines import CITUS, DIALECTS, SERVERS, clear, new_postgresql
from tests.builders.servers.application import Service, running
from tests.builders.tally import PROPERTY, Tally, sentence

LONGEST_NAME = 80

ABOVE_STORAGE = (
    "tests/api/", "tests/cli/", "tests/dashboards/", "tests/detection/", "tests/fleet/",
    "tests/frames/", "tests/metrics/", "tests/pages/", "tests/report/", "tests/scenarios/",
    "tests/worker/test_regressions.py",
)  # fmt: skip
"""What asks stores through ``storage`` alone, whose own tests run on each engine: what is run on
SQLite there is a slow test on a server."""

_tallied: Counter[str] = Counter()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the caller choose tests in their long form."""
    parser.addoption("--long", action="store_true", help="let live tests take a quarter of an hour")
    parser.addoption("--slow", action="store_true", help="run tests that take many seconds as well")
    parser.addoption("--cases", type=int, default=10_000, help="of each law (profile laws)")
    parser.addoption("--mib", type=int, default=1024, help="of junk for each format (--long)")
    parser.addoption("--minutes", type=float, default=30.0, help="of the soak (--long)")
    parser.addoption("--rounds", type=int, default=200, help="of killing and pausing (--long)")
    parser.addoption("--seed", type=int, help="of the faults, as a run has printed it")


def pytest_configure(config: pytest.Config) -> None:
    """Set how many cases are drawn, and have programs heed SIGINT in the background too."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    drawn = settings(deadline=None, database=None)
    settings.register_profile("test", drawn, max_examples=60, derandomize=True)
    settings.register_profile("laws", drawn, max_examples=config.getoption("--cases"))
    settings.load_profile("test")
    if config.option.seed is None:  # here, so that all processes of a run have the same
        config.option.seed = random.SystemRandom().randrange(1 << 30)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow tests and long forms unless asked for, and let ``-k`` find PostgreSQL's."""
    on_sqlite = {_function_of(item) for item in items if _dialect_of(item) == "sqlite"}
    for item in items:
        dialect = _dialect_of(item)
        if dialect == "citus":
            item.add_marker(pytest.mark.xdist_group("citus"))  # all share one database
        again = dialect in SERVERS and _function_of(item) in on_sqlite
        if again and item.nodeid.startswith(ABOVE_STORAGE):
            item.add_marker("slow")
        if {"postgres_url", "cluster"} & {*getattr(item, "fixturenames", ())}:
            item.extra_keyword_matches.add("postgresql")
    if not config.getoption("--long"):
        asked = config.getoption("--slow")
        too_long = {"long"} if asked else {"long", "slow"}
        left = {item for item in items if too_long & {mark.name for mark in item.iter_markers()}}
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=[*left])


def _function_of(item: pytest.Item) -> object:
    return getattr(item, "function", None)


def _dialect_of(item: pytest.Item) -> str | None:
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("dialect") if callspec else None


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what lives as long as the tests: seven thousand items."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(700, 10, 1000)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what tests of faults have counted."""
    if report.when == "teardown":
        for name, counts in report.user_properties:
            if name == PROPERTY:
                assert isinstance(counts, dict)
                _tallied.update(counts)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print what tests of faults have counted, and on which PyTorch the hooks were tried."""
    if _tallied:
        terminalreporter.section("faults")
        terminalreporter.line(sentence(_tallied, config.option.seed))
    tried = sum("torch" in report.keywords for report in terminalreporter.stats.get("passed", ()))
    if tried:
        terminalreporter.write_line(f"{tried} tests with torch {version('torch')}")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name long bytes and texts by their length: a name made of them could be megabytes long."""
    if isinstance(val, bytes | str) and len(val) > LONGEST_NAME:
        return f"{argname} of {len(val)}"
    return None


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Return a server on which databases may be created; its own database is left alone."""
    if given := os.environ.get("ETT_TEST_DATABASE_URL"):
        yield given
        return
    programs = postgres.binaries()
    if programs is None:
        pytest.skip(postgres.MISSING)
    with postgres.server(programs) as url:
        yield url


@pytest.fixture(scope="session")
def _migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("migrated") / "ett.db"
    migrate(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def _migrated_postgresql(postgres_url: str) -> Iterator[str]:
    with new_postgresql(postgres_url) as url:
        migrate(url)
        yield url


@pytest.fixture(scope="session")
def _migrated_citus() -> str:
    """Return the address of the database of Citus that all tests share: making one takes long."""
    url = os.environ.get(CITUS)
    if url is None:
        pytest.skip(f"{CITUS} names no database of Citus on which the service could be tried")
    migrate(url, citus=True)
    return url


@pytest.fixture(scope="session")
def _sqlite_store(
    _migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    path = tmp_path_factory.mktemp("shared") / "ett.db"
    shutil.copyfile(_migrated_sqlite, path)
    with closing(open_store(f"sqlite:///{path}")) as store:
        yield store


@pytest.fixture(scope="session")
def _postgresql_store(_migrated_postgresql: str) -> Iterator[Store]:
    with closing(open_store(_migrated_postgresql)) as store:
        yield store


@pytest.fixture(scope="session")
def _citus_store(_migrated_citus: str) -> Iterator[Store]:
    with closing(open_store(_migrated_citus)) as store:
        yield store


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Tally]:
    """Return the counts of a test of faults, for the sum at the end of the run."""
    option = request.config.option
    tally = Tally(option.seed, option.rounds)
    yield tally
    request.node.user_properties.append((PROPERTY, dict(tally.counts)))


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> str:
    """Name one engine after the other: a test that uses it runs on all."""
    name: str = request.param
    return name


@pytest.fixture
def database_url(dialect: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of an empty database with the current schema, which is not open."""
    if dialect == "sqlite":
        path = tmp_path / "ett.db"
        shutil.copyfile(request.getfixturevalue("_migrated_sqlite"), path)
        return f"sqlite:///{path}"
    clear(request.getfixturevalue(f"_{dialect}_store"))
    url: str = request.getfixturevalue(f"_migrated_{dialect}")
    return url


@pytest.fixture
def bare_database_url(
    dialect: str, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[str]:
    """Return the address of a database without any table."""
    if dialect == "sqlite":
        yield f"sqlite:///{tmp_path / 'bare.db'}"
    elif dialect == "citus":
        pytest.skip("a database of Citus takes long to make, so tests share one that has tables")
    else:
        with new_postgresql(request.getfixturevalue("postgres_url")) as url:
            yield url


@pytest.fixture
def store(dialect: str, request: pytest.FixtureRequest) -> Store:
    """Return an empty store, on each engine in turn.

    All tests share it, with its statements compiled; what closes it opens *database_url* itself.
    """
    store: Store = request.getfixturevalue(f"_{dialect}_store")
    clear(store)
    return store


@pytest.fixture
def project_id(store: Store) -> int:
    """Return the id of a project in *store*."""
    return store.write(lambda conn: create_project(conn, "research", RECEIVED_AT))


@pytest.fixture
def service(store: Store) -> Iterator[Service]:
    """Return the application on a store, with a clock and a worker that the test moves by hand."""
    with running(store) as service:
        yield service


@pytest.fixture
def elapsed(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock by which jobs that failed, or were slow to fold, are left alone."""
    clock = Clock()
    monkeypatch.setattr(dirty_marks, "monotonic_us", clock)
    return clock
