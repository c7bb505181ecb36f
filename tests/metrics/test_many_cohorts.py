"""Very many cohorts: the page stays small, valid and exact, and says what it folded."""

from functools import partial
from time import process_time

import pytest
from sqlalchemy import Connection

from ett_service.metrics.families import TextFormat
from ett_service.metrics.page import FleetPart
from ett_service.storage.engine.store import Store
from ett_service.storage.metrics.labels import LabelLimits
from ett_service.storage.schema import counted, job
from ett_service.worker.metrics import MetricsOptions, MetricsThread
from tests.builders.clock import RECEIVED_AT
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.metrics import labelled, lint, parsed

CLUSTERS, AT_ONCE = 1_000, 10_000
SHOWN = LabelLimits(clusters=4, cohorts=50)
MOST_SERIES = 40_000
SCRAPE_S = 1.0  #: of a processor: others may keep it busy, too


def _add_jobs(conn: Connection, project_id: int, numbers: range) -> None:
    """Add a job of one second in each cohort, as if its ledger had just been written."""
    keys = [{"project_id": project_id, "job": f"job-{number}"} for number in numbers]
    conn.execute(job.insert(), [{**key, "received_us": RECEIVED_AT} for key in keys])
    sums = {"said": '{"attempts_started:first":1,"phase_seconds:train_loop":1000000}',
            "seen": "{}", "open_since": "{}", "heard": "[]", "heard_us": None, "running": 0,
            "kept_out": False, "counted": "{}", "fresh": 1}  # fmt: skip
    rows = (
        {**key, **sums, "ident": f"{number:016x}", "cluster": f"cluster-{number % CLUSTERS}",
         "cohort": f"cohort-{number}"}
        for number, key in zip(numbers, keys, strict=True)
    )  # fmt: skip
    conn.execute(counted.insert(), list(rows))


@pytest.mark.slow
@ON_ONE_ENGINE
@pytest.mark.parametrize("many", [10_000, pytest.param(1_000_000, marks=pytest.mark.long)])
@pytest.mark.timeout(3_600)
def test_very_many_cohorts_are_folded_and_none_is_lost(
    store: Store, project_id: int, many: int
) -> None:
    for start in range(0, many, AT_ONCE):
        numbers = range(start, start + AT_ONCE)
        store.write(partial(_add_jobs, project_id=project_id, numbers=numbers))
    MetricsThread(store, lambda: RECEIVED_AT, MetricsOptions(limits=SHOWN)).publish()
    part = FleetPart(store.reading)
    for form in TextFormat:
        began = process_time()
        _, text, left_out = part.read(form)
        assert process_time() - began < SCRAPE_S
        page = parsed(text.decode(), form)
        assert left_out == 0
        assert sum(map(len, page.values())) < MOST_SERIES
        assert sum(page["ett_phase_seconds_total"].values()) == many
        cohorts = {dict(labels)["cohort"] for labels in page["ett_phase_seconds_total"]}
        assert len(cohorts) == SHOWN.cohorts + 1
        assert "other" in cohorts
        assert page["ett_label_values_folded"] == {
            labelled(label="cluster"): CLUSTERS - SHOWN.clusters,
            labelled(label="cohort"): many - SHOWN.cohorts,
        }
    assert lint(part.read(TextFormat.PLAIN).text) == ""
