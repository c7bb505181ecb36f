"""``ett demo`` as its users meet it: loaded through the API, served, and gone without a trace."""

import json
import re
import signal
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ett_service.cli.demo.server import Narrator, keep_alive, load, served
from ett_service.cli.verb import Exit, Failure, OutOfReach
from ett_service.client.sending.transport import request
from ett_service.core.intervals import rfc3339
from ett_service.demo.calendar import MINUTE
from ett_service.demo.generator import Fleet, generate
from ett_service.storage.record.keys import SCOPES
from tests.builders.servers.processes import Running, bare_environment
from tests.builders.servers.waiting import wait_for
from tests.cli.conftest import Ett

END = "2026-03-05T15:00:00Z"
END_US = round(datetime.fromisoformat(END).timestamp() * 1_000_000)
RUNS = 14  #: of the first search over a project that is older
SMALL = ("--days", "3", "--end", END)


@pytest.fixture(scope="module")
def small() -> Fleet:
    """Return the fleet that the tests load."""
    return generate(seed=7, days=3, end_us=END_US)


@pytest.mark.long
def test_the_fleet_is_loaded_and_kept_beside_its_truth(
    ett: Ett, tmp_path: Path, small: Fleet
) -> None:
    done = ett("demo", *SMALL, "--no-serve", "--json", "--directory", "kept")
    assert done.returncode == Exit.DONE, done.stderr
    answer = json.loads(done.stdout)
    directory = tmp_path / "kept"
    assert answer["directory"] == str(directory)
    assert answer["counts"] == small.truth["counts"]
    assert json.loads((directory / "truth.json").read_text()) == small.truth
    with sqlite3.connect(answer["database"]) as database:
        counts = dict(database.execute("SELECT type, count(*) FROM event GROUP BY type"))
        (folded,) = database.execute("SELECT count(*) FROM job_ledger").fetchone()
        (markers,) = database.execute("SELECT count(*) FROM marker").fetchone()
    database.close()
    assert sum(counts.values()) == small.truth["counts"]["events"]
    assert folded == small.truth["counts"]["jobs"]
    assert markers == small.truth["counts"]["markers"]
    lines = done.stderr.splitlines()
    assert all(re.match(r" +\d+\.\d s  \S", line) for line in lines)
    assert "no regressions were found" in lines[3]
    assert lines[4].endswith(f"`ett detect --at {rfc3339(END_US)}` is as of the fleet's end")
    assert len(lines) == 5
    assert answer["regressions"] == []
    with sqlite3.connect(answer["database"]) as database:
        (runs,) = database.execute("SELECT count(*) FROM detection_run").fetchone()
    database.close()
    assert runs == RUNS


@pytest.mark.long
def test_it_serves_until_it_is_interrupted_and_leaves_nothing(tmp_path: Path) -> None:
    environment = bare_environment() | {"TMPDIR": str(tmp_path)}
    process = Running("demo", *SMALL, folder=tmp_path, environment=environment)
    wait_for(lambda: "Ctrl-C ends the demo" in process.out, lambda: process.err)
    printed = process.out
    (address,) = re.findall(r"^address +(\S+)/docs$", printed, re.MULTILINE)
    (key,) = re.findall(r"^key +(\S+) \(it may do everything", printed, re.MULTILINE)
    assert f"  export ETT_URL={address} ETT_API_KEY={key}\n" in printed
    assert urlsplit(address).hostname == "127.0.0.1"  # or a key for everything is too much
    (job,) = re.findall(r"^  ett job (\S+)$", printed, re.MULTILINE)
    (truth,) = re.findall(r"^truth +(\S+)$", printed, re.MULTILINE)
    assert json.loads(Path(truth).read_text())["seed"] == 7
    assert request("GET", f"{address}/v1/jobs/{job}", key).status == 200
    assert "  ett regressions list\n" in printed
    searched = request("GET", f"{address}/v1/regressions/power", key)
    assert len(json.loads(searched.body)["runs"]) == 1
    listed = json.loads(request("GET", f"{address}/v1/keys", key).body)["keys"]
    assert {tuple(each["scopes"]) for each in listed if key.startswith(each["prefix"])} == {
        tuple(sorted(SCOPES))
    }
    assert [*tmp_path.iterdir()]
    process.send_signal(signal.SIGINT)
    assert process.wait() == Exit.DONE
    assert [*tmp_path.iterdir()] == []


@pytest.mark.slow
def test_what_runs_at_its_end_is_kept_running(tmp_path: Path, small: Fleet) -> None:
    running = [story for story in small.stories if story.running is not None]
    assert running
    part = replace(small, stories=running, truth={"counts": _counts(running)}, markers=[])
    with served(tmp_path, 0) as server:
        load(server, part, Narrator())
        later = END_US + 12 * MINUTE
        keep_alive(server, part, later)
        name = running[0].job.name
        events = server.ask("GET", f"/v1/jobs/{name}/events?limit=1000")["events"]
    sent = max(datetime.fromisoformat(event["at"]) for event in events)
    assert sent > datetime.fromtimestamp(END_US / 1e6, UTC)
    with pytest.raises(OutOfReach, match="server is gone"):
        keep_alive(server, part, later)


def test_events_that_are_refused_stop_it(tmp_path: Path, small: Fleet) -> None:
    story = small.stories[0]
    broken = replace(story, events=[{**story.events[0], "gpus": -1}, *story.events[1:]])
    part = replace(small, stories=[broken], truth={"counts": _counts([broken])})
    with (
        served(tmp_path, 0) as server,
        pytest.raises(Failure, match="refused 1 events, the first with out_of_range"),
    ):
        load(server, part, Narrator())


def test_it_does_not_wait_for_ever_where_nothing_is_folded(tmp_path: Path, small: Fleet) -> None:
    stories = small.stories[:2]
    part = replace(small, stories=stories, truth={"counts": _counts(stories)}, markers=[])
    with served(tmp_path, 0) as server:
        with closing(sqlite3.connect(server.database)) as database:
            database.execute("ALTER TABLE segment RENAME TO gone")
        with pytest.raises(Failure, match="2 jobs wait, and none was folded for 1 s") as failed:
            load(server, part, Narrator(), patience_s=1.0)
    assert "no such table: segment" in (failed.value.hint or "")


def _counts(stories: Sequence[object]) -> dict[str, int]:
    return {"jobs": len(stories), "events": 1}


def test_a_directory_in_use_is_left_alone(ett: Ett, tmp_path: Path) -> None:
    (tmp_path / "ett.db").write_text("mine")
    done = ett("demo", *SMALL, "--directory", str(tmp_path))
    assert done.returncode == Exit.FAILED
    assert "is not empty" in done.stderr
    assert "Name a new directory" in done.stderr
    assert (tmp_path / "ett.db").read_text() == "mine"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--days", "2"), "must be from 3 to 360"),
        (("--days", "many"), "invalid"),
        (("--end", "2026-03-05T15:00:00"), "needs an offset"),
        (("--end", "yesterday"), "is not a day"),
        (("--end", "2999-01-01T00:00:00Z"), "between the year 2020 and now"),
        (("--end", "0001-01-01T00:00:00Z"), "between the year 2020 and now"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(
    ett: Ett, given: tuple[str, str], message: str
) -> None:
    done = ett("demo", *given)
    assert done.returncode == Exit.USAGE
    assert given[0] in done.stderr
    assert message in done.stderr


def test_a_port_that_cannot_be_used_is_reported(ett: Ett) -> None:
    done = ett("demo", *SMALL, "--no-serve", "--port", "70000")
    assert done.returncode == Exit.FAILED
    assert "did not start" in done.stderr
    assert "port" in done.stderr
