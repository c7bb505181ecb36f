"""What a run has to know of those before it."""

from dataclasses import replace

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Finding, State, Verdict
from ett_service.core.regressions.state import FindingState, StateRules, step
from ett_service.detection.options import FrozenBaseline, Memory
from ett_service.detection.run import memory_of
from tests.builders.regressions.findings import AT_US, finding


def _standing(finding: Finding, *, runs: int = 2) -> FindingState:
    standing: FindingState | None = None
    for run in range(runs):
        standing = step(standing, finding, AT_US + run * DAY_US, StateRules())
    assert standing is not None
    return standing


def test_what_fires_keeps_its_baseline() -> None:
    result = finding()
    for verdict, improvement in ((Verdict.REGRESSION, False), (Verdict.IMPROVEMENT, True)):
        memory = memory_of([_standing(replace(result, verdict=verdict))])
        assert memory == Memory(
            open={
                result.series: FrozenBaseline(
                    result.before.from_us, result.before.to_us, result.onset_us, improvement
                )
            }
        )


def test_what_is_pending_is_followed_with_its_baseline() -> None:
    result = finding()
    frozen = FrozenBaseline(
        result.before.from_us, result.before.to_us, result.onset_us, improvement=False
    )
    for verdict in (Verdict.REGRESSION, Verdict.SMALL):
        memory = memory_of([_standing(replace(result, verdict=verdict), runs=1)])
        assert memory == Memory(pending={result.series: frozen})


def test_what_only_moved_keeps_nothing() -> None:
    for verdict in (Verdict.MIX, Verdict.RELABELLING):
        assert memory_of([_standing(finding(verdict))]) == Memory()


def test_bad_days_are_no_part_of_a_later_baseline() -> None:
    incident = finding(Verdict.INCIDENT)
    fired = _standing(finding(subject=incident.series.subject._replace(phase="shutdown")))
    cured = replace(fired, state=State.RESOLVED, resolved_us=AT_US + 9 * DAY_US)

    memory = memory_of([_standing(incident), cured])
    assert memory.open == {}
    assert memory.incidents == {
        incident.series: ((incident.after.from_us, incident.after.to_us),),
        cured.finding.series: ((cured.onset_us, AT_US + 9 * DAY_US),),
    }
    assert memory.outages == {
        incident.series.cohort: ((incident.after.from_us, incident.after.to_us),)
    }


def test_what_was_accepted_is_normal_and_no_bad_day() -> None:
    fired = _standing(finding())
    accepted = replace(fired, state=State.RESOLVED, resolved_us=AT_US + DAY_US)
    since = {accepted.finding.series: AT_US}

    assert memory_of([accepted], since) == Memory(accepted=since)


def test_noise_is_followed_and_explains_nothing_and_its_days_were_as_usual() -> None:
    fired = replace(_standing(finding()), is_noise=True)
    memory = memory_of([fired])
    assert memory.noise == {fired.finding.series}
    assert set(memory.open) == memory.noise
    assert memory.explaining == {}

    over = replace(fired, state=State.RESOLVED, resolved_us=AT_US + 9 * DAY_US)
    assert memory_of([over]) == Memory()
