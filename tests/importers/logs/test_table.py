"""Rows of tables as events."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from ett_service.core.intervals import SECOND_US
from ett_service.importers.importer import Report
from ett_service.importers.logs.checked_events import NoEvent
from ett_service.importers.logs.local_times import LocalTimes
from ett_service.importers.logs.mapped_events import BadProfile, Maker, TimeFormat
from ett_service.importers.logs.table import Mapping, read_csv, read_parquet
from tests.builders.imports import Wire, ledgers_of, seconds

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples/import/job-table.yaml"
HEAD = "job_name,job_id,nodes,gpus,start,first_step,end,state\n"
ROWS = (
    'llm,513,2,16,2026-03-01 08:00:00,2026-03-01 08:01:00,2026-03-01 09:00:00,"FAILED"\n',
    "llm,514,2,16,2026-03-01 10:00:00,2026-03-01 10:01:00,2026-03-01 11:00:00,COMPLETED\n",
)


def from_csv(path: Path, content: str | bytes, mapping: Path = EXAMPLE) -> tuple[Wire, Report]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    runs, report = read_csv([path], mapping=Mapping(mapping))
    return [sent for run in runs for sent in run.events], report


def test_the_example_holds_its_own_test() -> None:
    assert list(Mapping(EXAMPLE).failures()) == []


def test_rows_of_one_job_are_its_attempts(tmp_path: Path) -> None:
    events, report = from_csv(tmp_path / "jobs.csv", HEAD + "".join(ROWS))
    (ledger,) = ledgers_of(events).values()

    assert [(each.launch, each.outcome, each.gpus) for each in ledger.attempts] == [
        ("513", "failed", 16),
        ("514", "completed", 16),
    ]
    assert seconds(ledger)["restart_wait"] == 3600
    assert (report.files, report.records) == (1, 2)


def test_a_condition_may_ask_for_an_empty_column(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(
        "name: m\n"
        "rows:\n"
        "  - {name: r, when: {end: null}, becomes: {type: heartbeat, at: $start, job: $job_name}}\n"
        "check: []\n"
    )
    rows = (ROWS[0], ROWS[1].replace("2026-03-01 11:00:00", ""))
    events, _ = from_csv(tmp_path / "jobs.csv", HEAD + "".join(rows), tmp_path / "m.yaml")
    assert [sent["at"][11:13] for sent in events] == ["10"]


def test_a_damaged_row_is_named_by_line_and_gives_nothing(tmp_path: Path) -> None:
    bad = ("llm,515\n", "\n", "llm,516,x,16,2026-03-01 08:00:00,,,RUNNING\n", '"llm,517\n')
    events, report = from_csv(tmp_path / "jobs.csv", HEAD + "".join(bad[:3]) + ROWS[0] + bad[3])

    assert {sent["launch"] for sent in events} == {"513"}
    assert [line.split(":")[1:3] for line in report.first_skipped] == [
        ["2", " it has 2 fields, and the head of the file 8"],
        ["4", " Expected `int | null`, got `str` - at `$.hosts`"],
        ["6", " it has 1 fields, and the head of the file 8"],
    ]


def test_a_table_without_a_column_of_the_mapping_is_named(tmp_path: Path) -> None:
    _, report = from_csv(tmp_path / "jobs.csv", HEAD.replace("end,", "") + ROWS[0])
    (why,) = report.unread
    assert "it has no column 'end'; it has job_name, job_id" in why


def test_junk_is_no_table(tmp_path: Path) -> None:
    events, report = from_csv(tmp_path / "jobs.csv", b"\xff\x00" * 300_000)
    assert events == []
    assert len(report.unread) == 1


def table(path: Path, **columns: list[Any]) -> Path:
    parquet.write_table(pa.table(columns), path)
    return path


def test_parquet_says_the_same_as_csv(tmp_path: Path) -> None:
    def at(hour: int, minute: int = 0) -> datetime:
        return datetime(2026, 3, 1, hour, minute, tzinfo=UTC)

    path = table(
        tmp_path / "jobs.parquet",
        job_name=["llm", "llm"],
        job_id=[513, 514],
        nodes=[2.0, 2.0],
        gpus=[16, 16],
        start=[at(8), at(10)],
        first_step=[at(8, 1), at(10, 1)],
        end=[at(9), at(11)],
        state=["FAILED", "COMPLETED"],
        other=[1, 2],
    )
    runs, report = read_parquet([path], mapping=Mapping(EXAMPLE))
    events = [sent for run in runs for sent in run.events]

    assert report.skipped == 0
    expected, _ = from_csv(tmp_path / "jobs.csv", HEAD + "".join(ROWS))
    assert {sent["id"] for sent in events} == {sent["id"] for sent in expected}


def test_what_is_no_parquet_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1junk")
    paths = [tmp_path / "a.parquet", tmp_path / "none.parquet", Path("/dev/zero")]
    runs, report = read_parquet(paths, mapping=Mapping(EXAMPLE))

    assert list(runs) == []
    assert [("no Parquet file" in why or "is not a file" in why) for why in report.unread] == [
        True
    ] * 3


def test_a_check_that_does_not_hold_says_why(tmp_path: Path) -> None:
    text = EXAMPLE.read_text().replace("outcome: failed, scheduler_state: NODE_FAIL", "cause: oom")
    (tmp_path / "m.yaml").write_text(text)
    (failure,) = Mapping(tmp_path / "m.yaml").failures()
    assert failure.startswith("check 2: it becomes [{'type': 'attempt_started'")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [("rows:", "rows: []\nlines:", "unknown field"), ("zone: UTC", "zone: X", "no time zone")],
)
def test_a_mapping_that_cannot_work_is_refused(
    tmp_path: Path, old: str, new: str, why: str
) -> None:
    (tmp_path / "m.yaml").write_text(EXAMPLE.read_text().replace(old, new, 1))
    with pytest.raises(BadProfile, match=why):
        Mapping(tmp_path / "m.yaml")


CORPUS = Path(os.environ.get("ETT_CORPUS", ROOT / "../shared/corpus")) / "philly_acme_ccby"
PHILLY = """
name: philly
time: {zone: UTC}
common: {job: $jobid, launch: "philly", attempt: $number}
rows:
  - name: first
    when: {number: 0}
    becomes: {type: span, phase: queued, start: $submitted, at: $start}
  - name: attempt
    becomes: {type: attempt_started, at: $start, gpus: $gpus}
  - name: given up
    when: {is_last: 0}
    becomes: {type: attempt_ended, at: $end, outcome: failed}
  - name: passed
    when: {is_last: 1, status: Pass}
    becomes: {type: attempt_ended, at: $end, outcome: completed}
check: []
"""


def test_a_real_job_of_a_public_trace_is_as_its_source_says(tmp_path: Path) -> None:
    if not CORPUS.is_dir():
        pytest.skip(f"the public traces are not at {CORPUS} (set ETT_CORPUS)")
    text = (CORPUS / "philly_README.md").read_text()
    job = json.loads(text[text.index("{\n") : text.index("\n}\n") + 2])
    lives = job["attempts"]
    rows = [
        f"{job['jobid']},{number},{job['submitted_time']},{life['start_time']},{life['end_time']},"
        f"{len(life['detail'][0]['gpus'])},{job['status']},{int(number == len(lives) - 1)}\n"
        for number, life in enumerate(lives)
    ]
    (tmp_path / "philly.yaml").write_text(PHILLY)
    head = "jobid,number,submitted,start,end,gpus,status,is_last\n"
    events, report = from_csv(tmp_path / "a.csv", head + "".join(rows), tmp_path / "philly.yaml")
    (ledger,) = ledgers_of(events).values()
    assert report.skipped == 0
    assert [(each.outcome, each.gpus) for each in ledger.attempts] == [
        ("failed", 8),
        ("completed", 8),
    ]
    assert [each.ended_at - each.started_at for each in ledger.attempts] == [
        74 * SECOND_US,
        193_182 * SECOND_US,
    ]
    assert ledger.queue_wait_us == 30 * SECOND_US
    assert (seconds(ledger)["restart_wait"], ledger.failures) == (7, 1)
    assert ledger.e2e_us == (193_293 - 30) * SECOND_US


def paris_rows() -> list[list[str]]:
    """Rows of the night in which clocks of Paris are put back, a few of them odd."""
    begin = datetime(2026, 10, 24, 12)  # noqa: DTZ001 -- local times of Paris are what is tested
    rows = []
    for number in range(600):
        start, later = (str(begin + timedelta(minutes=2 * each)) for each in (number, number + 1))
        rows.append([f"llm-{number // 8}", str(number), "2", "16", start, later, later, "FAILED"])
    rows[456][4] = "2026-10-25 02:45:00"  # after 03:10, so that it is the second of that name
    for place, (column, odd) in enumerate(
        [(0, "größe"), (0, ""), (1, " 9"), (2, "many"), (3, ""), (4, "noon"), (5, ""), (7, "a b")]
    ):
        rows[270 + 3 * place][column] = rows[271 + 40 * place][column] = odd
    return rows


def test_rows_that_are_read_together_become_what_they_become_one_by_one(tmp_path: Path) -> None:
    rows = paris_rows()
    text = HEAD + "".join(",".join(row) + "\n" for row in rows)
    path, mapping = tmp_path / "jobs.csv", tmp_path / "paris.yaml"
    mapping.write_text(EXAMPLE.read_text().replace("zone: UTC", "zone: Europe/Paris"))
    together, report = from_csv(path, text, mapping)

    expected, alone = Report(), []
    ready = Mapping(mapping)
    maker = Maker(TimeFormat(), LocalTimes(path, ready.zone, expected), None)
    for line, row in enumerate(rows, 2):
        values = [dict(zip(HEAD.strip().split(","), row, strict=True))[c] for c in ready.columns]
        try:
            alone += maker.made(ready.becomes_of(values), values, line)
        except NoEvent as error:
            expected.skip(path, line, str(error))
    key = json.dumps
    assert sorted(key({**each, "id": ""}) for each in together) == sorted(
        {key({**each, "id": ""}) for each in alone}
    )
    assert (report.skipped, report.first_skipped) == (expected.skipped, expected.first_skipped)
    assert report.notes == expected.notes
