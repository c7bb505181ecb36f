"""A regression as the detector and the attribution leave it: a phase of one cohort got slower."""

import msgspec
from sqlalchemy import insert

from ett_service.core.interval import DAY_US, SECOND_US
from ett_service.core.regression import (
    Attribution,
    Cohort,
    Finding,
    Gate,
    Impact,
    Metric,
    NearMarker,
    Series,
    Side,
    State,
    Subject,
    Suspect,
    Verdict,
)
from ett_service.storage.engine import Store
from ett_service.storage.tables import regression
from tests.builders import NOON

COMPILE = Subject(Metric.PHASE_SECONDS, "pt2_compile")
COHORT: Cohort = (("cluster", "a"), ("model", "llm-70b"))
ONSET = NOON - 8 * DAY_US


def finding(
    subject: Subject = COMPILE,
    cohort: Cohort = COHORT,
    *,
    verdict: Verdict = Verdict.REGRESSION,
    onset_us: int = ONSET,
    gpu_hours: float | None = 212.0,
) -> Finding:
    """Return what one run says: 486 s became 804 s."""
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
        impact=Impact(gpu_hours, -0.6, None if gpu_hours is None else 742.0, "USD"),
    )


ATTRIBUTION = Attribution(
    phase_shares={"pt2_compile": 0.88, "launcher_init": 0.12},
    cohort_shares={"cluster=a,model=llm-70b": 1.0},
    suspects=(Suspect("image", "trainer:2.14", 0.97, 45, ONSET + 600 * SECOND_US),),
    markers=(NearMarker("racks-5-9", "deploy", "Trainer 2.14", ONSET - 3600 * SECOND_US, 0.9),),
    examples=(("run-42", 3), ("run 57", 1)),
    within_points=-0.58,
    mix_points=-0.02,
)


def keep(
    store: Store,
    project_id: int,
    name: str,
    found: Finding,
    *,
    attributed: bool = True,
    **columns: int | str | None,
) -> None:
    """Store *found* as the regression *name*; *columns* say what became of it."""
    attribution = ATTRIBUTION if attributed else Attribution({}, {})
    subject, cohort = found.series
    state = State.RESOLVED if columns.get("resolved_us") else State.FIRING
    row = {
        "project_id": project_id,
        "id": name,
        "fingerprint": found.fingerprint,
        **subject._asdict(),
        "cohort": msgspec.json.encode(dict(cohort)).decode(),
        "verdict": found.verdict,
        "state": state if columns.get("firing_us") else State.PENDING,
        "severity": "high",
        "version": 1,
        "told": 1,
        "runs": 2,
        "quiet_runs": 0,
        "onset_us": found.onset_us,
        "pending_us": found.onset_us + DAY_US,
        "reopened": 0,
        "last_run_us": NOON,
        "baseline_from_us": found.before.from_us,
        "baseline_to_us": found.before.to_us,
        "finding": msgspec.json.encode(found).decode(),
        "attribution": msgspec.json.encode(attribution).decode(),
        **columns,
    }
    store.write(lambda conn: conn.execute(insert(regression), row))
