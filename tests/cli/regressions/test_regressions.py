"""``ett regressions`` against a real server, whose database holds the findings of a search."""

import json
import os
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
from ett_service.cli.regressions.explain import _differ, _when_fired
from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Metric, SeriesCohort, Subject, Verdict
from ett_service.storage.engine.store import open_store
from ett_service.storage.record.keys import create_project
from tests.builders import terminal
from tests.builders.clock import NOON
from tests.builders.databases.engines import DIALECTS, new_database
from tests.builders.regressions.stored import ONSET, finding, fires, searched
from tests.builders.servers.ett import Server, serving
from tests.builders.servers.processes import ETT

pytestmark = pytest.mark.xdist_group("regressions")

OF_B: SeriesCohort = (("cluster", "b"),)
FAILURES = finding(Subject(Metric.FAILURES_PER_GPU_HOUR), OF_B, gpu_hours=None)
BETTER = finding(Subject(Metric.ETT_RATIO), (), verdict=Verdict.IMPROVEMENT)


@dataclass(frozen=True)
class Regressed:
    """A server, and the ids of what fires there: a slow compile, failures, an improvement."""

    server: Server
    compiles: str
    failures: str
    better: str


@pytest.fixture(scope="module", params=DIALECTS)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Regressed]:
    """Serve the findings of three runs, on each engine in turn."""
    folder: Path = tmp_path_factory.mktemp("regressions")
    with new_database(request, folder) as url:
        with closing(open_store(url)) as store:
            project_id = store.write(partial(create_project, name="research", now_us=NOON))
            searched(store, project_id, ONSET)
            ids = fires(store, project_id, finding(), FAILURES, BETTER)
            pending = finding(cohort=(*OF_B, ("model", "rare")), onset_us=ONSET - DAY_US)
            searched(store, project_id, NOON + DAY_US, finding(), FAILURES, BETTER, pending)
        with serving(url, folder, ETT_EMBEDDED_WORKER="false") as server:
            yield Regressed(server, *ids)


@pytest.fixture(autouse=True)
def _server_in_the_environment(served: Regressed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETT_URL", served.server.url)
    monkeypatch.setenv("ETT_API_KEY", served.server.key)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["regressions", *arguments]) == code
    return capsys.readouterr().out


def printed_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(printed(capsys, *arguments, "--json"))


def test_a_narrow_terminal_says_what_changed_by_how_much_and_how_severe_it_is() -> None:
    command = [ETT, "regressions", "list", "--phase", "pt2_compile", "--state", "firing"]
    shown = terminal.shown(command, 80, {**os.environ, "NO_COLOR": "1"})
    table, _, left_out = re.sub(r"\x1b\[[0-9;]*m", "", shown).partition("(too narrow for:")
    assert max(map(len, table.splitlines())) <= 80
    for said in ("pt2_compile", "firing", "13m", "high"):
        assert said in table
    assert "verdict" in left_out


def test_findings_are_listed_in_words_and_as_json(
    served: Regressed, capsys: pytest.CaptureFixture[str]
) -> None:
    table = printed(capsys, "list", "--state", "firing", "--verdict", "regression")
    (row,) = [line for line in table.splitlines() if line.startswith(served.compiles)]
    assert re.search(
        r"firing +pt2_compile +cluster:a model:llm-70b +8m 06s -> 13m 24s +high +x 1.65 +212"
        r" +2026-02-21 12:00:00 +regression", row
    )  # fmt: skip
    (row,) = [line for line in table.splitlines() if line.startswith(served.failures)]
    assert "failures_per_gpu_hour  cluster:b" in row
    rows = printed_json(
        capsys, "list", "--where", "cluster:b", "--sort", "onset_at", "--limit", "10"
    )
    assert {row["state"] for row in rows} == {"firing", "pending"}
    assert "ett regressions power" in printed(capsys, "list", "--phase", "shutdown")


def test_a_list_is_a_gate_of_what_fires_and_is_not_muted(
    served: Regressed, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = ("list", "--limit", "1", "--fail-on")
    printed(capsys, *gate, "firing", code=3)
    printed(capsys, *gate, "firing", "--phase", "pt2_compile", "--where", "model:rare")
    printed(capsys, *gate, "pending", "--where", "model:rare", code=3)
    only_failures = ("--metric", "failures_per_gpu_hour")
    printed(capsys, *gate, "firing", *only_failures, code=3)
    mute = printed_json(capsys, "mute", served.failures, "--for", "6h", "--why", "a drill")
    assert (mute["cohort"], mute["phase"]) == ({"cluster": "b"}, None)
    printed(capsys, *gate, "firing", *only_failures)
    printed(capsys, "unmute", mute["id"])
    printed(capsys, *gate, "firing", *only_failures, code=3)


def test_noise_fails_no_gate(served: Regressed, capsys: pytest.CaptureFixture[str]) -> None:
    gate = ("list", "--fail-on", "firing", "--metric", "failures_per_gpu_hour")
    printed(capsys, *gate, code=3)
    printed(capsys, "triage", served.failures, "noise", "--why", "a drill")
    printed(capsys, *gate)
    printed(capsys, "triage", served.failures, "real", "--why", "no drill")
    printed(capsys, *gate, code=3)


def test_causes_have_one_total_cost(served: Regressed, capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(capsys, "causes")
    assert re.search(r"^image:trainer:2\.14 .* 212 ", shown, re.MULTILINE)
    assert "All together cost 212 GPU-hours a week" in shown
    (cause,) = printed_json(capsys, "causes")["causes"]
    assert sorted(cause["findings"]) == sorted([served.compiles, served.failures])


def test_one_is_explained_on_a_screen(
    served: Regressed, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = printed(capsys, "explain", served.compiles)
    for line in (
        r"pt2_compile in cluster:a model:llm-70b: 8m 06s -> 13m 24s \(x 1.65; the mean x 1.71\)",
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
    better = printed(capsys, "explain", served.better)
    assert "improvement, " in better
    assert "to detect" not in better
    assert printed_json(capsys, "explain", served.compiles)["id"] == served.compiles


def test_what_began_before_the_first_search_was_not_detected_late(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (pending,) = printed_json(capsys, "list", "--state", "pending")
    screen = printed(capsys, "explain", pending["id"])
    assert "to detect: it does not count. The change began before this project was first" in screen


def test_what_people_say_is_kept(served: Regressed, capsys: pytest.CaptureFixture[str]) -> None:
    line = printed(capsys, "acknowledge", served.failures, "--why", "mine")
    assert line == f"{served.failures} is acknowledged by test.\n"
    line = printed(capsys, "triage", served.failures, "real", "--why", "bad cables")
    assert line == f"{served.failures} is real.\n"
    screen = printed(capsys, "explain", served.failures)
    assert "acknowledged by test, triaged as real by test" in screen
    assert re.search(r"triaged_real +test +bad cables", screen)
    accepted = printed_json(capsys, "accept", served.better, "--why", "larger batches")
    assert accepted["state"] == "resolved"


def test_parts_of_a_project_are_muted_by_name(
    served: Regressed, capsys: pytest.CaptureFixture[str]
) -> None:
    until = ("--for", "3d", "--why", "the cache moves")
    line = printed(capsys, "mute", "--where", "cluster:a", "--phase", "pt2_compile", *until)
    mute = line.split()[0]
    assert "mutes cluster:a, pt2_compile until" in line
    assert mute in printed(capsys, "mutes")
    assert f"muted by test, {mute} until" in printed(capsys, "explain", served.compiles)
    assert printed(capsys, "unmute", mute) == f"{mute} has ended.\n"
    assert "No mutes." in printed(capsys, "mutes")
    assert printed_json(capsys, "mutes", "--over")[0]["id"] == mute
    printed(capsys, "mute", *until, code=1)
    printed(capsys, "mute", served.compiles, "--all", *until, code=1)


def test_the_smallest_detectable_changes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    table = printed(capsys, "power")
    assert table.startswith("research: searched up to 2026-03-02 12:00:00 (UTC), 9 series in 2.0s")
    rows = table.splitlines()[3:]
    assert re.match(r"\(all\) +ett_ratio +14 +28 +x 0.98", rows[0])
    assert re.match(r"cluster:a model:rare +pt2_compile +3 +9 +none", rows[2])
    assert rows[3] == "In 1 of 3 series no change can be detected."
    assert len(printed_json(capsys, "power", "--where", "model:llm-70b")["power"]) == 1


def test_refusals_are_printed(served: Regressed, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "explain", "nothing", code=1)
    printed(capsys, "list", "--where", "colour:red", code=1)
    printed(capsys, "triage", served.compiles, "real", "--why", "so", "--key", "ett_x", code=5)
    printed(capsys, "list", "--url", "http://127.0.0.1:1", code=4)
    with pytest.raises(SystemExit, match="2"):
        main(["regressions", "triage", served.compiles, "perhaps", "--why", "so"])


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        (("stage_seconds", "launcher_init", "pre_train", ""), "launcher_init / pre_train"),
        (
            ("checkpoint_blocking_seconds", "checkpoint_blocking", "", ""),
            "checkpoint_blocking_seconds",
        ),
        (("cache_miss_ratio", "pt2_compile", "", ""), "cache_miss_ratio pt2_compile"),
        (("failures_per_gpu_hour", "", "", "infra/gpu"), "failures_per_gpu_hour infra/gpu"),
    ],
)
def test_what_is_watched_is_named_once(subject: tuple[str, ...], words: str) -> None:
    named = dict(zip(("metric", "phase", "stage", "cause"), subject, strict=True))
    assert units.subject(named) == words


def test_failure_rates_are_shown_for_a_thousand_gpu_hours() -> None:
    assert units.value("failures_per_gpu_hour", 0.0025) == "2.50 per 1,000 GPU-h"


@pytest.mark.parametrize(
    ("ratio", "after", "differ"), [(0.99, 0.903, True), (1.01, 0.903, False), (None, 0.9, False)]
)
def test_a_factor_that_points_elsewhere_than_the_medians_is_explained(
    ratio: float | None, after: float, differ: bool
) -> None:
    sides = {"before": {"median": 0.901}, "after": {"median": after}}
    assert _differ({**sides, "ratio": ratio}) is differ


def test_what_was_moved_says_in_which_cohort_it_fired() -> None:
    here, there = {"cluster": "a"}, {"cluster": "b"}
    assert _when_fired({"cohort": here, "fired": {"cohort": here}}) == "when it fired"
    moved = {"cohort": there, "fired": {"cohort": here}}
    assert _when_fired(moved) == "when it fired in cluster:a"


def test_verdicts_tune_and_a_reset_takes_that_back(
    served: Regressed, capsys: pytest.CaptureFixture[str]
) -> None:
    printed(capsys, "triage", served.compiles, "noise", "--why", "a drill")
    (row,) = [row for row in printed_json(capsys, "tuning") if row["metric"] == "phase_seconds"]
    assert row["factor"] > 1
    assert "is multiplied by the factor" in printed(capsys, "tuning")
    printed(capsys, "tuning", "--reset", "phase_seconds", code=1)
    reset = ("tuning", "--reset", "phase_seconds", "--why", "a drill")
    assert "x 1.00" in printed(capsys, *reset)
    printed(capsys, "triage", served.compiles, "real", "--why", "no drill")


def test_a_finding_without_durations_has_no_experiment(
    served: Regressed, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["regressions", "confirm", served.compiles]) != 0
    assert "too few durations" in capsys.readouterr().err
    assert main(["regressions", "confirm", served.compiles, "--jobs", "a", "b"]) != 0
