"""One run over a stored project: from its attempts to findings with cause and cost."""

from fractions import Fraction

import pytest

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Metric, Series, Subject, Verdict
from ett_service.detection.run import MOST_DAYS, RunResult, days_to_read, evaluate
from ett_service.detection.sample import FrozenBaseline, Memory, Options, Plan
from ett_service.fleet.economy import Economy, Price
from ett_service.storage.engine.store import Store
from tests.builders.slowed_fleet import END, NEW, ONSET, slowed, slower_steps

PLAN = Plan(economy=Economy((Price("H100", 0, Fraction(3)),)))
INIT = Subject(Metric.PHASE_SECONDS, "launcher_init")
STEP = Subject(Metric.STEP_SECONDS)
SLOW = (("cluster", "a"), ("model", "m"))


def _evaluated(store: Store, project_id: int, memory: Memory, at_us: int = END) -> RunResult:
    with store.reading() as conn:
        return evaluate(conn, project_id, at_us, PLAN, memory)


def test_a_slower_launcher_is_found_with_its_release_and_its_cost(
    store: Store, project_id: int
) -> None:
    slowed(store, project_id)
    evaluated = _evaluated(store, project_id, Memory())

    [run_finding] = [
        each for each in evaluated.run_findings if each.finding.series == Series(INIT, SLOW)
    ]
    finding = run_finding.finding
    assert finding.verdict is Verdict.REGRESSION
    assert finding.ratio == pytest.approx(2, rel=0.2)
    assert abs(finding.onset_us - ONSET) <= DAY_US
    assert finding.after.n == 10
    impact = finding.impact
    assert impact.gpu_hours_per_week is not None
    # A job a day loses 100 s on eight accelerators.
    assert impact.gpu_hours_per_week == pytest.approx(7 * 8 * 100 / 3600, rel=0.35)
    assert impact.cost_per_week == pytest.approx(3 * impact.gpu_hours_per_week)
    assert run_finding.attribution.suspects[0].dimension == "code_version"
    assert run_finding.attribution.suspects[0].value == NEW
    assert [marker.title for marker in run_finding.attribution.markers] == [f"Release {NEW}"]
    assert {each.series.cohort for each in evaluated.findings} == {SLOW}

    frozen = FrozenBaseline(
        finding.before.from_us, finding.before.to_us, finding.onset_us, verdict=Verdict.REGRESSION
    )
    again = _evaluated(store, project_id, Memory(open={finding.series: frozen}))
    [still] = [each for each in again.findings if each.series == finding.series]
    assert still.holds
    assert _evaluated(store, project_id + 1, Memory()).findings == ()


def test_slower_steps_are_found_with_their_release_and_cost_no_ett(
    store: Store, project_id: int
) -> None:
    slower_steps(store, project_id)

    [run_finding] = _evaluated(store, project_id, Memory()).run_findings
    finding = run_finding.finding
    assert finding.series == Series(STEP, SLOW)
    assert finding.ratio == pytest.approx(1.25, rel=0.04)
    assert abs(finding.onset_us - ONSET) <= DAY_US
    # A job a day takes a quarter of 600 steps of 40 ms longer, on eight accelerators.
    assert finding.impact.gpu_hours_per_week == pytest.approx(7 * 8 * 6 / 3600, rel=0.1)
    assert finding.impact.ett_points is None
    suspect = run_finding.attribution.suspects[0]
    assert (suspect.dimension, suspect.value) == ("code_version", NEW)
    assert {job for job, _ in run_finding.attribution.examples} <= {
        f"job-{index:03}" for index in range(69, 88, 2)
    }


def test_both_windows_are_read_and_what_open_findings_were_compared_with() -> None:
    options = Options(recent_days=14, baseline_days=28)
    assert days_to_read(END, options, Memory()) == 42
    for days, expected in ((40, 42), (60, 60), (1000, MOST_DAYS)):
        from_us = END - days * DAY_US + 1
        frozen = FrozenBaseline(from_us, from_us + DAY_US, END, verdict=Verdict.REGRESSION)
        memory = Memory(open={Series(INIT, ()): frozen})
        assert days_to_read(END, options, memory) == expected
