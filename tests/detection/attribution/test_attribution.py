"""What findings in a store are associated with, on both databases."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Connection

from ett_service.core.events import (
    AttemptEnded,
    AttemptStarted,
    Event,
    JobFacts,
    Marker,
    MarkerKind,
    SpanOver,
)
from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import (
    Attribution,
    Finding,
    Metric,
    Series,
    SeriesCohort,
    Side,
    Subject,
    Suspect,
    Verdict,
)
from ett_service.core.words import Outcome, Phase
from ett_service.detection.attribution.attribute import attribute, side_by_side
from ett_service.detection.observed.inputs import observe
from ett_service.detection.sample import Plan
from ett_service.storage.engine.store import Store
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.markers import add_marker
from tests.builders.clock import HOUR, MINUTE, NOON, SECOND
from tests.builders.fleet import LATER
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import event

DAYS, ONSET, A_DAY = 14, 7, 4
START = NOON - NOON % DAY_US
COMPILE = Subject(Metric.PHASE_SECONDS, "pt2_compile")
LLM: SeriesCohort = (("model", "llm"),)


def job(day: int, place: int, model: str, **facts: Any) -> tuple[str, list[Event]]:
    """Return a job of one attempt on 8 accelerators; version 2 compiles three times as long."""
    at = START + day * DAY_US + place * 5 * HOUR + MINUTE
    wobble = (7 * day + 3 * place) % 11 * SECOND
    version = facts.pop("version", "1")
    ready = at + 4 * MINUTE + wobble
    begins = ready + (15 if version == "2" else 5) * MINUTE + 2 * wobble
    ends = begins + 30 * MINUTE
    fails = facts.pop("fails", False)
    host = facts.pop("host", "node-0")
    name = f"{model}-{day:02}-{place}"
    return name, [
        event(JobFacts, at, model=model, cluster="a", hardware="H100", **facts),
        event(AttemptStarted, at, gpus=8, code_version=version, host=host),
        event(SpanOver, ready, start=at, phase=Phase.LAUNCHER_INIT),
        event(SpanOver, begins, start=ready, phase=Phase.PT2_COMPILE),
        event(SpanOver, ends, start=begins, phase=Phase.TRAIN_LOOP),
        event(AttemptEnded, ends, cycle=0, outcome=Outcome.FAILED if fails else Outcome.COMPLETED),
    ]


def fleet(store: Store, project_id: int) -> None:
    """Keep 14 days of two models, of which "llm" partly runs version 2 from the onset on."""
    for day in range(DAYS):
        for place in range(A_DAY):
            is_new = day >= ONSET and place != 1
            on_bad_host = place == 2
            jobs = [
                job(
                    day,
                    place,
                    "llm",
                    version="2" if is_new else "1",
                    labels={"run": f"{day}-{place}"},
                    host="node-1" if on_bad_host else f"node-{2 + place}",
                    fails=on_bad_host and day >= ONSET,
                ),
                job(day, place, "vit"),
            ]
            for name, events in jobs:
                key = JobKey(project_id, name)
                deliver(store, key, events)
                refreshed(store, key, LATER)


def finding(subject: Subject, cohort: SeriesCohort) -> Finding:
    onset, end = START + ONSET * DAY_US, START + DAYS * DAY_US
    return Finding(
        series=Series(subject, cohort),
        verdict=Verdict.REGRESSION,
        ratio=2.0,
        low=1.8,
        high=2.2,
        p=1e-6,
        q=1e-5,
        onset_us=onset,
        before=Side(28, 7, 1.0, 1.0, START, onset),
        after=Side(28, 7, 2.0, 2.0, onset, end),
        gates=(),
    )


def mark(store: Store, project_id: int, name: str, hours: int, **labels: str) -> None:
    at = START + ONSET * DAY_US + hours * HOUR
    added = Marker(id=name, at=at, kind=MarkerKind.DEPLOY, title=name, labels=labels)
    store.write(partial(_add, project_id=project_id, added=added))


def _add(conn: Connection, project_id: int, added: Marker) -> None:
    add_marker(conn, project_id, added, made_by="k", now_us=NOON)


def attributed(
    store: Store, project_id: int, series: Sequence[tuple[Subject, SeriesCohort]]
) -> list[Attribution]:
    with store.reading() as conn:
        observed = observe(conn, project_id, START + DAYS * DAY_US, DAYS, Plan())
        return [attribute(conn, project_id, finding(*each), observed) for each in series]


@pytest.fixture
def attributions(store: Store, project_id: int) -> list[Attribution]:
    fleet(store, project_id)
    mark(store, project_id, "other", 1, code_version="1.9")
    mark(store, project_id, "release", -10, code_version="2")
    return attributed(
        store,
        project_id,
        [
            (COMPILE, LLM),
            (COMPILE, ()),
            (Subject(Metric.TIME_TO_START_SECONDS), LLM),
            (Subject(Metric.FAILURES_PER_GPU_HOUR), LLM),
            (Subject(Metric.ETT_RATIO), ()),
            (Subject(Metric.STAGE_SECONDS, "launcher_init", "no_such"), LLM),
        ],
    )


def test_findings_in_a_store_are_reported_with_what_goes_with_them(
    attributions: list[Attribution],
) -> None:
    compiles, everywhere, starts, failures, ett, nothing = attributions

    first = compiles.suspects[0]
    assert (first.dimension, first.value, first.attempts) == ("code_version", "2", 21)
    assert first.explains == pytest.approx(1.0, abs=0.05)
    assert first.first_seen_us == START + ONSET * DAY_US + MINUTE
    assert "run" not in {each.dimension for each in compiles.suspects}
    assert everywhere.suspects[0].value == "2"

    assert [marker.id for marker in compiles.markers] == ["release", "other"]
    assert len(compiles.examples) == 3
    assert len({name for name, _ in compiles.examples}) == 3
    assert all(name.startswith("llm-") and number == 0 for name, number in compiles.examples)
    assert {int(name.split("-")[1]) >= ONSET for name, _ in compiles.examples} == {True}

    beside = compiles.side_by_side
    assert beside is not None
    assert (beside.value, beside.against, beside.n, beside.against_n) == ("2", "1", 21, 7)
    assert beside.low > 2 < beside.ratio < 3.2
    assert beside.p < 0.001

    assert list(compiles.phase_shares) == ["pt2_compile", "launcher_init"]
    assert sum(compiles.phase_shares.values()) == pytest.approx(1.0, abs=1e-12)
    assert compiles.phase_shares["pt2_compile"] == pytest.approx(1.0, abs=0.02)
    assert next(iter(starts.phase_shares)) == "pt2_compile"
    assert compiles.cohort_shares["cluster=a,model=llm"] == pytest.approx(1.0, abs=0.05)
    assert sum(compiles.cohort_shares.values()) == pytest.approx(1.0, abs=1e-12)
    assert compiles.within_points is not None
    assert compiles.within_points < -5

    assert (failures.suspects[0].dimension, failures.suspects[0].value) == ("host", "node-1")
    assert failures.side_by_side is None
    assert next(iter(ett.phase_shares)) == "pt2_compile"
    assert sum(ett.phase_shares.values()) == pytest.approx(1.0, abs=1e-12)
    assert (nothing.suspects, nothing.examples) == ((), ())


def test_a_change_of_ett_has_the_suspects_of_its_largest_part(
    attributions: list[Attribution],
) -> None:
    ett = attributions[4]
    first = ett.suspects[0]
    assert (first.dimension, first.value) == ("code_version", "2")
    assert 0.5 < first.explains <= 1
    assert ett.examples


def test_what_came_only_after_the_onset_is_compared_with_nothing() -> None:
    after = np.arange(40) >= 20
    cells = ["1"] * 20 + ["2", "2", "3", "3", "3"] * 4
    log_us = np.where(after, 1.0, 0.0)
    suspect = Suspect("code_version", "2", 1.0, 8)

    assert side_by_side(suspect, cells, log_us, after) is None
    cells[20:30:5] = ["1", "1"]
    cells[24] = "1"
    beside = side_by_side(suspect, cells, log_us, after)
    assert beside is not None
    assert (beside.against, beside.against_n) == ("1", 3)
