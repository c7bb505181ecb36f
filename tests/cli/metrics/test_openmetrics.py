"""The past of a fleet in a real Prometheus, which answers as the service does."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from ett_service.cli.main import main
from ett_service.core.intervals import SECOND_US
from ett_service.demo.generator import generate
from ett_service.storage.engine.migrate import migrate
from tests.builders.jobs import failing_job
from tests.builders.servers.ett import Server
from tests.builders.servers.prometheus import Prometheus, Sample, backfill

pytestmark = pytest.mark.xdist_group("backfill")

ENDS_US = (
    1_772_668_800 * SECOND_US
)  #: 2026-03-05T00:00:00Z, days after the story of ``failing_job``
ENDS = "2026-03-05T00:00:00Z"
BEGINS = "2026-02-20T00:00:00Z"
JOB = 'cluster="a"'


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serve three days of the demo's fleet, sent as history, and one job that was not."""
    folder = tmp_path_factory.mktemp("past")
    database_url = f"sqlite:///{folder / 'ett.db'}"
    migrate(database_url)
    server = Server(database_url, folder)
    with ExitStack() as stack:
        stack.callback(server.stop)
        server.start()
        fleet = generate(seed=16, days=3, end_us=ENDS_US)
        events = (event for story in fleet.stories for event in story.events)
        while batch := list(islice(events, 5000)):
            assert server.send(batch, history=True).status == 200
        assert server.send(failing_job()).status == 200
        server.reaches("/readyz", lambda ready: ready["waiting_jobs"] == 0)
        yield server


@pytest.fixture(autouse=True)
def _its_database(past: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETT_DATABASE_URL", past.environment["ETT_DATABASE_URL"])


@pytest.fixture(scope="module")
def blocks(past: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Run a Prometheus over blocks of the past, with nothing to scrape."""
    prometheus = Prometheus(tmp_path_factory.mktemp("prometheus"))
    text = prometheus.folder / "past.om"
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv("ETT_DATABASE_URL", past.environment["ETT_DATABASE_URL"])
        assert exported("--label", "job=ett", "-o", str(text)) == 0
        backfill(text, prometheus.blocks)
        stack.callback(prometheus.stop)
        prometheus.start()
        yield prometheus


def exported(*arguments: str) -> int:
    """Run ``ett export openmetrics`` up to the fleet's end."""
    return main(["export", "openmetrics", "--to", ENDS, *arguments])


def summary(server: Server, begins: str = BEGINS) -> dict[tuple[str, str], dict[str, Any]]:
    """Read the numbers of each cluster and model that was sent as history."""
    query = f"from={begins}&to={ENDS}&group_by=cluster,model"
    groups = server.get(f"/v1/fleet/summary?{query}")["groups"]
    return {
        (group["group"]["cluster"], group["group"]["model"]): group
        for group in groups
        if group["group"]["cluster"] != "a" and group["jobs"]
    }


def by_cohort(samples: list[Sample]) -> dict[tuple[str, str], float]:
    """Key an answer as the service's groups are keyed."""
    return {(sample.labels["cluster"], sample.labels["cohort"]): sample.value for sample in samples}


@pytest.mark.parametrize(
    ("expression", "member"),
    [
        ("ett_phase_seconds_total", "e2e_seconds"),
        ("ett_phase_weighted_seconds_total", "weighted_seconds"),
        ('ett_phase_weighted_seconds_total{held="true"}', "gpu_seconds"),
        ("ett_attempts_started_total", "attempts"),
    ],
)
def test_a_counter_stands_at_what_the_service_has_summed_up(
    past: Server, blocks: Prometheus, expression: str, member: str
) -> None:
    values = by_cohort(
        blocks.query(f"sum by (cluster, cohort) ({expression})", ENDS_US / SECOND_US)
    )

    assert values == pytest.approx(
        {cohort: group[member] for cohort, group in summary(past).items()}, rel=1e-9
    )


def test_what_a_day_adds_is_what_the_service_has_for_the_day(
    past: Server, blocks: Prometheus
) -> None:
    gross = 'ett_phase_weighted_seconds_total{phase="train_loop"}'
    deducted = 'ett_deducted_weighted_seconds_total{phase="train_loop"}'
    expected = {
        cohort: group["weighted_categories"]["effective_training"]
        for cohort, group in summary(past, "2026-03-04T00:00:00Z").items()
    }
    assert sum(expected.values()) > 0
    for added, precision in (
        ("sum by (cluster, cohort) ({0} - ({0} offset 1d or {0} * 0))", 1e-9),
        # One second more, since whether a window holds its left edge depends on the version.
        ("sum by (cluster, cohort) (increase({0}[86401s]))", 1e-4),
    ):
        trained = f"{added.format(gross)} - {added.format(deducted)}"
        values = by_cohort(blocks.query(trained, ENDS_US / SECOND_US))
        for cohort, seconds in expected.items():
            assert values[cohort] == pytest.approx(seconds, rel=precision, abs=1e-3)


def test_histograms_count_what_the_service_counts(past: Server, blocks: Prometheus) -> None:
    for name in ("time_to_start", "time_to_recover", "checkpoint_blocking"):
        counted = blocks.query(
            f"sum by (cluster, cohort) (ett_{name}_seconds_count)", ENDS_US / SECOND_US
        )
        expected = {cohort: group[name]["count"] for cohort, group in summary(past).items()}
        assert by_cohort(counted) == expected


def test_no_counter_ever_goes_down(blocks: Prometheus) -> None:
    at = ENDS_US / SECOND_US
    names = [
        sample.labels["__name__"]
        for sample in blocks.query('group by (__name__) ({__name__=~"ett_.+"})', at)
    ]

    assert len(names) == 11 + 3 * 4
    assert {
        sample.value for name in names for sample in blocks.query(f"resets({name}[5d])", at)
    } == {0}


def test_every_sample_has_the_requested_labels(blocks: Prometheus) -> None:
    without = blocks.query('count({__name__=~"ett_.+", job!="ett"})', ENDS_US / SECOND_US)

    assert without == []


def test_jobs_that_move_the_live_counters_come_with_all_of_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exported() == 0
    assert JOB not in capsys.readouterr().out
    assert exported("--all", "--step", "30m", "--from", "2026-03-01T13:00:00Z") == 0
    text = capsys.readouterr().out
    started = re.findall(rf"(ett_attempts_started_total{{{JOB}.*}}) (\d+) (\d+)", text)
    restarts = [(count, at) for name, count, at in started if "restart" in name]
    assert [count for _, count, at in started if at == "1772370000"] == ["1", "1"]
    assert {count for count, _ in restarts} == {"1"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--label", "le=1"],
        ["--label", "cohort=a"],
        ["--label", "__name__=a"],
        ["--label", "no-label=a"],
        ["--label", "job"],
        ["--step", "10s"],
        ["--step", "1.5m"],
        ["--from", "yesterday"],
        ["--from", "2026-03-01T00:00:00"],
    ],
)
def test_what_cannot_be_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        exported(*arguments)

    assert refused.value.code == 2
    assert "export openmetrics: error" in capsys.readouterr().err


def test_an_empty_export_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'empty.db'}"
    migrate(url)
    monkeypatch.setenv("ETT_DATABASE_URL", url)

    assert exported("-o", str(tmp_path / "past.om")) == 1
    assert "--all" in capsys.readouterr().err
    assert not list(tmp_path.glob("past.om*"))


def test_a_past_of_ages_is_to_be_cut(capsys: pytest.CaptureFixture[str], past: Server) -> None:
    long_ago = {"type": "attempt_started", "job": "long-ago", "at": "1970-01-01T00:00:00Z"}
    assert json.loads(past.send([long_ago], history=True).body)["accepted"] == 1

    assert exported() == 1
    assert "--from" in capsys.readouterr().err
