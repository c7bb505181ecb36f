"""``ett regressions`` against a real server, into whose database a search wrote what it found."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ett_service.charts import units
from ett_service.cli.main import main
from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Cohort, Metric, Subject, Verdict
from ett_service.storage.engine.store import open_store
from ett_service.storage.record.keys import create_project
from tests.builders.clock import NOON
from tests.builders.databases.engines import DIALECTS, new_database
from tests.builders.regressions.stored import finding, fires, searched
from tests.builders.servers.ett import Server, serving

pytestmark = pytest.mark.xdist_group("regressions")

OF_B: Cohort = (("cluster", "b"),)
FAILURES = finding(Subject(Metric.FAILURES_PER_GPU_HOUR), OF_B, gpu_hours=None)
BETTER = finding(Subject(Metric.ETT_RATIO), (), verdict=Verdict.IMPROVEMENT)


@dataclass(frozen=True)
class Found:
    """A server, and the ids of what fires there: a slow compile, failures, an improvement."""

    server: Server
    compiles: str
    failures: str
    better: str


@pytest.fixture(scope="module", params=DIALECTS)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Found]:
    """Serve what three runs found, on each engine in turn."""
    folder: Path = tmp_path_factory.mktemp("regressions")
    with new_database(request, folder) as url:
        with closing(open_store(url)) as store:
            project_id = store.write(partial(create_project, name="research", now_us=NOON))
            ids = fires(store, project_id, finding(), FAILURES, BETTER)
            pending = finding(cohort=(*OF_B, ("model", "rare")))
            searched(store, project_id, NOON + DAY_US, finding(), FAILURES, BETTER, pending)
        with serving(url, folder, ETT_EMBEDDED_WORKER="false") as server:
            yield Found(server, *ids)


@pytest.fixture(autouse=True)
def _server_in_the_environment(served: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETT_URL", served.server.url)
    monkeypatch.setenv("ETT_API_KEY", served.server.key)


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["regressions", *arguments]) == code
    return capsys.readouterr().out


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(said(capsys, *arguments, "--json"))


def test_findings_are_listed_in_words_and_as_json(
    served: Found, capsys: pytest.CaptureFixture[str]
) -> None:
    table = said(capsys, "list", "--state", "firing", "--verdict", "regression")
    (row,) = [line for line in table.splitlines() if line.startswith(served.compiles)]
    assert re.search(
        r"regression +firing +high +pt2_compile +cluster:a model:llm-70b +8m 06s -> 13m 24s"
        r" +x 1.65 +212 +2026-02-21 12:00:00", row
    )  # fmt: skip
    (row,) = [line for line in table.splitlines() if line.startswith(served.failures)]
    assert "failures_per_gpu_hour  cluster:b" in row
    found = told(capsys, "list", "--where", "cluster:b", "--sort", "onset_at", "--limit", "10")
    assert {one["state"] for one in found} == {"firing", "pending"}
    assert "ett regressions power" in said(capsys, "list", "--phase", "shutdown")


def test_a_list_is_a_gate_of_what_fires_and_is_not_muted(
    served: Found, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = ("list", "--limit", "1", "--fail-on")
    said(capsys, *gate, "firing", code=3)
    said(capsys, *gate, "firing", "--phase", "pt2_compile", "--where", "model:rare")
    said(capsys, *gate, "pending", "--where", "model:rare", code=3)
    only_failures = ("--metric", "failures_per_gpu_hour")
    said(capsys, *gate, "firing", *only_failures, code=3)
    made = told(capsys, "mute", served.failures, "--for", "6h", "--why", "a drill")
    assert (made["cohort"], made["phase"]) == ({"cluster": "b"}, None)
    said(capsys, *gate, "firing", *only_failures)
    said(capsys, "unmute", made["id"])
    said(capsys, *gate, "firing", *only_failures, code=3)


def test_one_is_explained_on_a_screen(served: Found, capsys: pytest.CaptureFixture[str]) -> None:
    screen = said(capsys, "explain", served.compiles)
    for line in (
        r"pt2_compile in cluster:a model:llm-70b: 8m 06s -> 13m 24s \(x 1.65\)",
        r"regression, firing, since about 2026-02-21 12:00:00 \(UTC\).*, severity high",
        r"costs 212 GPU-hours a week, USD 742 a week, -0.6 pt of the cohort's ETT%",
        r"before +140 +28 +8m 06s +11m 42s",
        r"95% interval x 1.48 to x 1.84; p 3.1e-09, q 4.5e-07 among all series",
        r"effect +1.65 +1.15 +yes",
        r"any_day +- +0.05 +no",
        r"The last search could detect a change x 1.22 here, with 68 recent and 140 earlier ",
        r"by phase: pt2_compile 88.0%, launcher_init 12.0%",
        r"image:trainer:2.14 +97.0% +45 +2026-02-21 12:10:00",
        r"Trainer 2.14 +deploy +2026-02-21 11:00:00",
        r"example attempts: run-42 \(3\), run 57 \(1\)",
        r"to detect +8d 00h +4d 00h +late",
        r"2026-03-01 12:00:00 +firing +detector",
    ):
        assert re.search(f"(?m)^{line}", screen), line
    assert len(screen.splitlines()) <= 50
    better = said(capsys, "explain", served.better)
    assert "improvement, " in better
    assert "to detect" not in better
    assert told(capsys, "explain", served.compiles)["id"] == served.compiles


def test_what_people_say_is_kept(served: Found, capsys: pytest.CaptureFixture[str]) -> None:
    line = said(capsys, "acknowledge", served.failures, "--why", "mine")
    assert line == f"{served.failures} is acknowledged by test.\n"
    line = said(capsys, "triage", served.failures, "real", "--why", "bad cables")
    assert line == f"{served.failures} is real.\n"
    screen = said(capsys, "explain", served.failures)
    assert "acknowledged by test, triaged as real by test" in screen
    assert re.search(r"triaged_real +test +bad cables", screen)
    accepted = told(capsys, "accept", served.better, "--why", "larger batches")
    assert accepted["state"] == "resolved"


def test_parts_of_a_project_are_muted_by_name(
    served: Found, capsys: pytest.CaptureFixture[str]
) -> None:
    until = ("--for", "3d", "--why", "the cache moves")
    line = said(capsys, "mute", "--where", "cluster:a", "--phase", "pt2_compile", *until)
    mute = line.split()[0]
    assert "mutes cluster:a, pt2_compile until" in line
    assert mute in said(capsys, "mutes")
    assert f"muted by test, {mute} until" in said(capsys, "explain", served.compiles)
    assert said(capsys, "unmute", mute) == f"{mute} has ended.\n"
    assert "No mutes." in said(capsys, "mutes")
    assert told(capsys, "mutes", "--over")[0]["id"] == mute
    said(capsys, "mute", *until, code=1)
    said(capsys, "mute", served.compiles, "--all", *until, code=1)


def test_what_could_have_been_seen_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    table = said(capsys, "power")
    assert table.startswith("research: searched up to 2026-03-02 12:00:00 (UTC), 9 series in 2.0s")
    rows = table.splitlines()[3:]
    assert re.match(r"\(all\) +ett_ratio +14 +28 +x 0.98", rows[0])
    assert re.match(r"cluster:a model:rare +pt2_compile +3 +9 +none", rows[2])
    assert rows[3] == "In 1 of 3 series no change can be detected."
    assert len(told(capsys, "power", "--where", "model:llm-70b")["power"]) == 1


def test_what_is_refused_says_so(served: Found, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "explain", "nothing", code=1)
    said(capsys, "list", "--where", "colour:red", code=1)
    said(capsys, "triage", served.compiles, "real", "--why", "so", "--key", "ett_x", code=5)
    said(capsys, "list", "--url", "http://127.0.0.1:1", code=4)
    with pytest.raises(SystemExit, match="2"):
        main(["regressions", "triage", served.compiles, "perhaps", "--why", "so"])


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (("stage_seconds", "launcher_init", "pre_train", ""), "launcher_init / pre_train"),
        (
            ("checkpoint_blocking_seconds", "checkpoint_blocking", "", ""),
            "checkpoint_blocking_seconds",
        ),
        (("failures_per_gpu_hour", "", "", "infra/gpu"), "failures_per_gpu_hour infra/gpu"),
    ],
)
def test_what_is_watched_is_named_once(found: tuple[str, ...], words: str) -> None:
    named = dict(zip(("metric", "phase", "stage", "cause"), found, strict=True))
    assert units.subject(named) == words


def test_rates_of_failures_are_told_for_a_thousand_gpu_hours() -> None:
    assert units.value("failures_per_gpu_hour", 0.0025) == "2.50 per 1,000 GPU-h"
