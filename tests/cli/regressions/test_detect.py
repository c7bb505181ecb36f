"""``ett detect`` as its users meet it: a backtest, offline and in any order of days."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ett_service.app import detection_plan
from ett_service.cli.main import main
from ett_service.cli.regressions.detect import write_project
from ett_service.cli.regressions.detect_answer import answer_of
from ett_service.cli.verb import Exit
from ett_service.core.events import AttemptStarted, Event, Heartbeat, JobFacts, PhaseStarted
from ett_service.core.regressions.finding import Attribution, Finding, RunFinding, Severity, Verdict
from ett_service.core.regressions.state import StateRules, Transition, step
from ett_service.core.words import Phase
from ett_service.detection.run import Backtest, Course, RunResult
from ett_service.setting_tables import DetectionTable, PriceRow
from ett_service.settings import Settings
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.keys import create_project
from tests.builders.clock import HOUR, MINUTE, RECEIVED_AT
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import event
from tests.builders.regressions.findings import finding
from tests.builders.slowed_fleet import END, NEW, slowed
from tests.cli.conftest import Ett

pytestmark = pytest.mark.xdist_group("detect")

LAST = "2026-03-02"
_PRICE = {"hardware": "H100", "from": "2026-01-01", "per_gpu_hour": 3}
SLOW = {"cluster": "a", "model": "m"}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database with a fleet that became slow, and a project with nothing in it."""
    path = tmp_path_factory.mktemp("slowed") / "ett.db"
    migrate(f"sqlite:///{path}")
    store = open_store(f"sqlite:///{path}")
    store.write(lambda conn: create_project(conn, "empty", RECEIVED_AT))
    slowed(store, store.write(lambda conn: create_project(conn, "research", RECEIVED_AT)))
    _hang(store, store.write(lambda conn: create_project(conn, "hanging", RECEIVED_AT)))
    store.close()
    return path


def _hang(store: Store, project_id: int) -> None:
    """Keep a job that stalls since an hour before the end, and gives signs."""
    began = END - 2 * HOUR
    events: list[Event] = [
        event(JobFacts, began, cluster="a", model="m"),
        event(AttemptStarted, began, gpus=8),
        event(PhaseStarted, began, phase=Phase.TRAIN_LOOP),
        event(PhaseStarted, END - HOUR, phase=Phase.STALLED),
        event(Heartbeat, END - MINUTE),
    ]
    key = JobKey(project_id, "hangs")
    deliver(store, key, events)
    refreshed(store, key, END)


@pytest.fixture
def detect(
    filled: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """Return a function that runs the command here and returns its answer by project."""
    monkeypatch.setenv("ETT_DATABASE_URL", f"sqlite:///{filled}")

    def run(*arguments: str) -> Mapping[str, Any]:
        assert main(["detect", *arguments, "--json"]) == Exit.DONE
        return {
            project["project"]: project
            for project in json.loads(capsys.readouterr().out)["projects"]
        }

    return run


def test_a_backtest_lists_what_would_have_been_pending_and_firing_when(detect: Any) -> None:
    answer = detect("--at", LAST, "--from", "2026-02-24T00:00:00Z", "--project", "research")
    assert answer.keys() == {"research"}
    project = answer["research"]
    assert (project["from"][:10], project["at"][:10], project["runs"]) == ("2026-02-24", LAST, 7)
    [regression] = [row for row in project["found"] if row["phase"] == "launcher_init"]
    assert (regression["verdict"], regression["state"], regression["cohort"]) == (
        "regression",
        "firing",
        SLOW,
    )
    assert (regression["unit"], regression["metric"]) == ("seconds", "phase_seconds")
    assert regression["before"]["median"] == pytest.approx(100, rel=0.1)
    assert regression["interval"]["low"] < regression["ratio"] < regression["interval"]["high"]
    assert [step["what"] for step in regression["steps"]] == ["pending", "firing"]
    assert [step["at"] for step in regression["steps"]] == [
        regression["pending_at"],
        regression["firing_at"],
    ]
    assert regression["onset_at"] < regression["pending_at"] < regression["firing_at"]
    assert regression["resolved_at"] is None
    assert regression["attribution"]["suspects"][0]["value"] == NEW
    assert all(gate["passed"] for gate in regression["gates"])
    assert {tuple(row["cohort"].items()) for row in project["found"]} == {tuple(SLOW.items())}


def test_one_day_alone_is_one_run_over_every_project(detect: Any) -> None:
    answer = detect("--at", LAST)
    assert list(answer) == ["empty", "hanging", "research"]
    assert answer["empty"]["found"] == []
    assert {row["state"] for row in answer["research"]["found"]} == {"pending"}
    assert all(project["runs"] == 1 for project in answer.values())
    before = detect("--at", "2026-02-19")
    assert before["research"]["found"] == []


def test_a_hanging_job_is_listed_with_the_age_of_its_phase(detect: Any) -> None:
    [open_phase] = detect("--at", LAST, "--project", "hanging")["hanging"]["open_phases"]
    assert (open_phase["job"], open_phase["phase"], open_phase["stuck"]) == (
        "hangs",
        "stalled",
        True,
    )
    assert open_phase["seconds"] == 3600


def test_tables_name_what_alerts_its_cause_and_what_cannot_be_seen(ett: Ett, filled: Path) -> None:
    begin = "2026-02-26T00:00:00Z"
    url = f"sqlite:///{filled}"
    done = ett("detect", "--at", LAST, "--from", begin, "--power", ETT_DATABASE_URL=url)
    assert done.returncode == Exit.DONE, done.stderr
    research = done.stdout.partition("Project research")[2]
    alerts = research.partition("Regressions")[2].splitlines()
    assert alerts[2].startswith("firing  ")
    assert "launcher_init" in alerts[2]
    assert "cluster:a model:m" in alerts[2]
    assert f"associated with code_version {NEW}" in research
    assert f"near the deploy 'Release {NEW}'" in research
    hanging = done.stdout.partition("Project hanging")[2].partition("Project")[0]
    assert "No findings." in hanging
    assert "stalled" in hanging
    assert "yes" in hanging


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--project", "nobody"), "no project 'nobody'"),
        (("--at", LAST, "--from", "2026-03-03"), "0 runs"),
        (("--at", LAST, "--from", "2024-03-03"), "730 runs"),
        (("--at", "yesterday"), "'yesterday' is not a day"),
        (("--at", "2026-02-30"), "'2026-02-30' is no day"),
    ],
)
def test_what_cannot_be_replayed_is_refused(
    detect: Any, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    with pytest.raises((AssertionError, SystemExit)):
        detect(*arguments)
    assert message in capsys.readouterr().err


def test_the_plan_is_that_of_the_settings() -> None:
    settings = Settings(
        detection=DetectionTable(
            cohort=("team", "project"), strata=(), recent_days=7, baseline_days=21, q=0.01,
            effect_floor=1.3, impact_floor=0.1,
        ),
        prices=(PriceRow.model_validate(_PRICE),),
    )  # fmt: skip
    plan = detection_plan(settings)
    assert (plan.cohort, plan.strata) == (("team",), ())
    options = plan.options
    assert (options.recent_days, options.baseline_days, options.q) == (7, 21, 0.01)
    assert (options.effect_floor, options.impact_floor) == (1.3, 0.1)
    assert plan.economy.price("h100", END) == 3


def _found(found: Finding) -> Any:
    """Return the answer of one run that found one thing."""
    standing = step(None, found, END, StateRules())
    assert standing is not None
    course = Course(standing, RunFinding(found, Severity.LOW, Attribution({}, {})), END)
    course.steps.append((END, Transition.PENDING))
    return answer_of("research", [END], Backtest([course], [RunResult((), (), 1)]), [])


@pytest.mark.parametrize("verdict", Verdict)
def test_findings_of_every_verdict_are_listed(
    verdict: Verdict, capsys: pytest.CaptureFixture[str]
) -> None:
    write_project(_found(finding(verdict)), with_power=False)
    text = capsys.readouterr().out
    assert "pending" in text
    assert "No findings." not in text


def test_what_began_with_nothing_has_no_factor(capsys: pytest.CaptureFixture[str]) -> None:
    answer = _found(finding(ratio=math.inf, low=math.inf, high=math.inf))

    assert answer["found"][0]["ratio"] is answer["found"][0]["interval"] is None
    assert "Infinity" not in json.dumps(answer)
    write_project(answer, with_power=False)
    assert "pending" in capsys.readouterr().out
