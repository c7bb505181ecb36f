"""What the importer makes of any table at all, the service takes."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ett_service.importers.instants import zone
from ett_service.importers.slurm.sacct import read
from ett_service.ingest.decode import decode
from ett_service.ingest.wire import Limits
from tests.builders.imports import ledgers_of
from tests.builders.sacct import COLUMNS, row, table

NOW_US = 1_780_000_000_000_000
TIMES = ("Submit", "Eligible", "Start", "End")

instants = st.sampled_from(
    ["Unknown", "None", "2026-03-01T10:00:00", "2026-03-01T12:00:00", "2026-03-29T02:30:00",
     "2025-10-26T02:30:00", "2026-03-02T00:00:00", "1772366400"]
)  # fmt: skip
ids = st.sampled_from(["7", "7_1", "7_[2-3]", "7+0", "7+1", "7.batch", "8", "99999999999999999999"])
states = st.sampled_from(
    ["PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED by 1000", "PREEMPTED", "REQUEUED",
     "RESIZING", "NODE_FAIL", "", "?"]
)  # fmt: skip
texts = st.text(st.characters(exclude_characters="|\n\r", codec="utf-8"), max_size=12)
odd = st.sampled_from(
    ["None assigned", "0:0", "9:9", "300:65", "1:999999", "12", "-3", "x" * 400, "gres/gpu=8",
     "gres/gpu=99999999999999999999", "gres/gpu:a\u202eb=2"]
)  # fmt: skip
rows = st.fixed_dictionaries(
    dict.fromkeys(TIMES, instants) | {"JobID": ids, "State": states},
    optional={
        name: texts | odd for name in COLUMNS if name not in (*TIMES, "JobID", "JobIDRaw", "State")
    },
)


@settings(max_examples=80, deadline=None)
@given(st.lists(rows, min_size=1, max_size=6), st.sampled_from(["UTC", "Europe/Berlin"]))
def test_nothing_that_sacct_prints_makes_an_event_that_is_refused(
    tmp_path_factory: pytest.TempPathFactory, printed: list[dict[str, str]], named: str
) -> None:
    path = Path(tmp_path_factory.getbasetemp(), "odd-sacct.txt")
    path.write_text(table(*(row(**{"JobIDRaw": "", **each}) for each in printed)), "utf-8")
    runs, _ = read([path], zone=zone(named))
    events = [event for run in runs for event in run.events]

    body = json.dumps({"events": events, "history": True}).encode()
    headers = {"content-type": "application/json"}
    batch = decode(body, headers, now_us=NOW_US, limits=Limits())
    assert batch.refusals == ()
    by_id: dict[str, object] = {}
    for event in events:
        assert by_id.setdefault(event["id"], event) == event
    for folded in ledgers_of(events).values():
        assert sum(segment.end_at - segment.start_at for segment in folded.segments) == (
            folded.e2e_us
        )
