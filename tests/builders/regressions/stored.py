"""A regression as the detector and the attribution leave it: a phase of one cohort got slower."""

from collections.abc import Sequence

from sqlalchemy import Connection

from ett_service.core.intervals import DAY_US, SECOND_US
from ett_service.core.regressions.finding import (
    Attribution,
    Finding,
    FindingKey,
    Gate,
    Impact,
    Metric,
    NearMarker,
    RunFinding,
    Series,
    SeriesCohort,
    Severity,
    Side,
    Subject,
    Suspect,
    Verdict,
)
from ett_service.core.regressions.state import StateRules
from ett_service.detection.scan import Power
from ett_service.storage.engine.store import Store
from ett_service.storage.regressions import detection_runs, findings
from ett_service.storage.regressions.detection_runs import DetectionRun
from ett_service.storage.regressions.findings import new_id, to_json
from tests.builders.clock import NOON

COMPILE = Subject(Metric.PHASE_SECONDS, "pt2_compile")
COHORT: SeriesCohort = (("cluster", "a"), ("model", "llm-70b"))
ONSET = NOON - 8 * DAY_US


def finding(
    subject: Subject = COMPILE,
    cohort: SeriesCohort = COHORT,
    *,
    verdict: Verdict = Verdict.REGRESSION,
    onset_us: int = ONSET,
    gpu_hours: float | None = 212.0,
) -> Finding:
    """Return the finding of one run: 486 s became 804 s."""
    return Finding(
        series=Series(subject, cohort),
        verdict=verdict,
        ratio=1.65,
        low=1.48,
        high=1.84,
        p=3.1e-9,
        q=4.5e-7,
        onset_us=onset_us,
        before=Side(140, 28, 486.0 * SECOND_US, 702.0 * SECOND_US, NOON - 42 * DAY_US, onset_us),
        after=Side(68, 8, 804.0 * SECOND_US, 1010.0 * SECOND_US, onset_us, NOON),
        gates=(
            Gate("effect", 1.65, 1.15, passed=True),
            Gate("impact", 0.004, 0.0025, passed=True),
            Gate("any_day", None, 0.05, passed=False),
        ),
        mean_ratio=1.71,
        impact=Impact(gpu_hours, -0.6, None if gpu_hours is None else 742.0, "USD"),
    )


POWER = (
    Power(COMPILE, COHORT, 68, 140, 1.22),
    Power(COMPILE, (("cluster", "a"), ("model", "rare")), 3, 9, None),
    Power(Subject(Metric.ETT_RATIO), (), 14, 28, 0.98),
)
ATTRIBUTION = Attribution(
    phase_shares={"pt2_compile": 0.88, "launcher_init": 0.12},
    cohort_shares={"cluster=a,model=llm-70b": 1.0},
    suspects=(Suspect("image", "trainer:2.14", 0.97, 45, ONSET + 600 * SECOND_US),),
    markers=(NearMarker("racks-5-9", "deploy", "Trainer 2.14", ONSET - 3600 * SECOND_US, 0.9),),
    examples=(("run-42", 3), ("run 57", 1)),
    within_points=-0.58,
    mix_points=-0.02,
    onset_us=ONSET,
)


def searched(
    store: Store,
    project_id: int,
    at_us: int,
    *detected: Finding,
    attribution: Attribution = ATTRIBUTION,
    power: Sequence[Power] = POWER,
) -> None:
    """Store the findings and the power of one run of the search as of *at_us*."""
    run_findings = [RunFinding(finding, Severity.HIGH, attribution) for finding in detected]
    run = DetectionRun(project_id, at_us, 2 * SECOND_US, 0, 9, to_json({"power": power}))

    def write(conn: Connection) -> None:
        findings.record(conn, project_id, at_us, run_findings, StateRules())
        detection_runs.add(conn, run, at_us)

    store.write(write)


def fires(store: Store, project_id: int, *findings: Finding, at_us: int = NOON) -> list[str]:
    """Store the same findings of two runs, the second at *at_us*; return the ids in their order."""
    for day in (1, 0):
        searched(store, project_id, at_us - day * DAY_US, *findings)
    threads = [FindingKey(finding.fingerprint, finding.verdict) for finding in findings]
    return [new_id(project_id, thread, at_us - DAY_US) for thread in threads]
