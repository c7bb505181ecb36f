"""Who asks for hours that were pruned is told what to ask instead, by every way of asking."""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ett_service.cli.main import main
from ett_service.cli.mcp import questions
from ett_service.cli.mcp.questions import ServerAccess, Window
from ett_service.cli.verb import Failure
from ett_service.core.events import JobFacts
from ett_service.core.intervals import DAY_US
from ett_service.frames import FrameError
from ett_service.frames.http import HttpSource
from ett_service.frames.sql import SqlSource
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import open_store
from ett_service.storage.fleet import hours
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.keys import create_project
from tests.builders.clock import NOON, RECEIVED_AT
from tests.builders.record import event as fact
from tests.builders.servers.ett import Server, serving
from tests.storage.test_retention import closed_job, fold

HOUR = ("2026-03-01T12:00:00Z", "2026-03-01T13:00:00Z")
DAY = ("2026-03-01", "2026-03-02")
INSTEAD = (
    "Hours before 2026-03-10T00:00:00Z were pruned; whole days are kept. "
    "Instead of 2026-03-01T12:00:00Z to 2026-03-01T13:00:00Z ask for "
    "2026-03-01T00:00:00Z to 2026-03-02T00:00:00Z, or for hours from 2026-03-10T00:00:00Z on."
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serve a job of the first of March, of which only the day is kept."""
    folder: Path = tmp_path_factory.mktemp("pruned")
    url = f"sqlite:///{folder / 'ett.db'}"
    migrate(url)
    with closing(open_store(url)) as store:
        project_id = store.write(lambda conn: create_project(conn, "research", RECEIVED_AT))
        for name in ("closed", "other"):
            facts = fact(JobFacts, team="nlp")
            fold(store, JobKey(project_id, name), [facts, *closed_job()])
        store.write(lambda conn: hours.move_horizon(conn, NOON + 9 * DAY_US))
        store.write(lambda conn: hours.prune(conn, 1_000))
    with serving(url, folder, ETT_DETECTION='{"enabled": false}') as served:
        yield served


def test_the_command_says_it(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETT_URL", server.url)
    monkeypatch.setenv("ETT_API_KEY", server.key)
    for verb in (["fleet"], ["explain"], ["fleet", "--by", "team", "--step", "1d"]):
        assert main([*verb, "--from", HOUR[0], "--to", HOUR[1]]) == 1, verb
        refused = " ".join(capsys.readouterr().err.split())
        assert "Hours before 2026-03-10T00:00:00Z were pruned" in refused, verb
    assert main(["fleet", "--from", HOUR[0], "--to", HOUR[1]]) == 1
    assert INSTEAD in " ".join(capsys.readouterr().err.split())
    assert main(["fleet", "--from", DAY[0], "--to", DAY[1]]) == 0
    assert "2026-03-01 00:00:00 to" in capsys.readouterr().out
    assert main(["fleet", "--from", DAY[0], "--to", DAY[1], "--step", "1h"]) == 1
    assert "Ask for steps of a day or a week" in " ".join(capsys.readouterr().err.split())
    assert main(["job", "closed", "--compare", "--by", "team"]) == 0  # of whole days


def test_an_assistant_is_told(server: Server) -> None:
    access = ServerAccess(Namespace(url=server.url, key=server.key, project=None))
    with pytest.raises(Failure) as refused:
        questions.where_did_the_gpu_hours_go(access, Window(*HOUR), [], [])
    assert INSTEAD in str(refused.value)
    assert questions.where_did_the_gpu_hours_go(access, Window(*DAY), [], [])


def test_notebooks_are_told_over_http_and_sql(server: Server) -> None:
    over_http = HttpSource(server.url, server.key)
    with closing(SqlSource(server.database_url)) as over_sql:
        for source in (over_http, over_sql):
            for step, window in ((None, HOUR), ("1d", HOUR), ("1h", DAY)):
                with pytest.raises(FrameError, match="ours before 2026-03-10T00:00:00"):
                    source.rollups(step=step, begin=window[0], end=window[1])
            whole = source.summary(begin=DAY[0], end=DAY[1])
            assert whole["jobs"].tolist() == [2]
            assert whole["e2e_seconds"][0] == 2400
            into_the_kept = source.summary(begin=DAY[0], end="2026-03-10T05:00:00Z")
            assert into_the_kept["e2e_seconds"][0] == 2400
