"""Real runs of two rounds of MLPerf, half a year apart: too few for a search day by day."""

import os
from collections import defaultdict
from pathlib import Path

import pytest

from ett_service.core.events import Event
from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Metric, Subject
from ett_service.detection.run import evaluate
from ett_service.detection.sample import Memory, Plan
from ett_service.storage.engine.store import Store
from tests.builders.fleet import store_job
from tests.builders.imports import imported
from tests.builders.timelines import event

ROOT = Path(__file__).parents[2]
RUNS = Path(os.environ.get("ETT_CORPUS", ROOT / "../shared/corpus")) / "mlperf" / "runs"
SYSTEM = "Dell__XE9680x8H200-SXM-141GB__stable_diffusion"
START = Subject(Metric.TIME_TO_START_SECONDS)
INIT = Subject(Metric.PHASE_SECONDS, "launcher_init")


def _store_rounds(store: Store, project_id: int, *rounds: str) -> int:
    """Keep the runs of some rounds, and return the midnight after the last of them."""
    latest = 0
    for name in rounds:
        jobs: defaultdict[str, list[Event]] = defaultdict(list)
        for wire_event in imported(RUNS / f"{name}__{SYSTEM}")[0]:
            jobs[wire_event["job"]].append(event(wire_event))
        for job, events in jobs.items():
            store_job(store, project_id, f"{name} {job}", events)
            latest = max(latest, *(each.at for each in events))
    return latest // DAY_US * DAY_US + DAY_US


def test_where_values_are_wanting_the_search_says_what_it_cannot_see(
    store: Store, project_id: int
) -> None:
    if not RUNS.is_dir():
        pytest.skip(f"the MLPerf logs are not there: {RUNS} (set ETT_CORPUS)")
    at_us = _store_rounds(store, project_id, "v4.1", "v5.0")

    with store.reading() as conn:
        evaluated = evaluate(conn, project_id, at_us, Plan(), Memory())
    assert evaluated.findings == ()
    assert {each.subject for each in evaluated.power} >= {START, INIT}
    assert {(each.baseline, each.smallest) for each in evaluated.power} == {(0, None)}
