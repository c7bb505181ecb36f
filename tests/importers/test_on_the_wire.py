"""What an importer makes of any log at all, the service takes."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ett_service.ingest.decode import Batch, decode
from ett_service.ingest.wire import Limits
from tests.builders.imports import Wire, imported, ledgers
from tests.builders.mllog import RUN, START_S, line, written

NOW_US = (START_S + 86_400) * 1_000_000

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
keys = st.sampled_from(
    ["submission_org", "submission_benchmark", "submission_platform", "seed", "global_batch_size",
     "init_start", "run_start", "eval_start", "eval_stop", "run_stop", "status", "tracked_stats"]
)  # fmt: skip
counts = st.sampled_from(["samples_count", "step_num", "status"])
odd_lines = st.builds(
    lambda key, second, value, metadata: line(key, second, value, **metadata),
    keys,
    st.integers(-50, 150),
    values,
    st.dictionaries(counts, values, max_size=2),
)
launcher_lines = st.sampled_from(
    [
        "Beginning trial 0 of 3",
        "Beginning trial 2 of 3",
        "SLURM_JOB_ID 99999999999999999999",
        ":::DLPAL image 513 9 node[1-9] 'me' system",
        "srun: error: n1: task 0: Exited with exit code 255",
        "slurmstepd: error: *** STEP 9.1 ON n1 CANCELLED AT 2025-04-21T14 DUE TO PREEMPTION ***",
        f"RUNANDTIME_START {START_S + 40}",
        f"RUNANDTIME_STOP {START_S + 20}",
        "3: RuntimeError: \x00\x1b[31m\udcff" + "x" * 500,
    ]
)


def taken(events: Wire) -> Batch:
    body = json.dumps({"events": events, "history": True}).encode()
    headers = {"content-type": "application/json"}
    return decode(body, headers, now_us=NOW_US, limits=Limits())


def test_a_clean_run_is_taken_whole(tmp_path: Path) -> None:
    events, _ = imported(written(tmp_path, *RUN))
    batch = taken(events)

    assert (len(batch.arrivals), batch.refusals, batch.history) == (len(events), (), True)


@settings(max_examples=80)
@given(
    st.lists(st.sampled_from(RUN) | odd_lines | launcher_lines, min_size=1, max_size=30),
    st.none() | st.just("mine"),
)
def test_nothing_that_a_log_says_makes_an_event_that_is_refused(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], job: str | None
) -> None:
    path = written(tmp_path_factory.getbasetemp(), *lines, name="odd.txt")
    events, report = imported(path, job=job)

    if events:
        assert taken(events).refusals == ()
    else:
        assert report.unread or report.unfinished
    for folded in ledgers(path, job=job).values():
        assert sum(segment.end_at - segment.start_at for segment in folded.segments) == (
            folded.e2e_us
        )
