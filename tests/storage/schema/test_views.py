"""The public views say what the tables hold, as documented, and a reader sees nothing else."""

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import URL, inspect, make_url, text
from sqlalchemy.exc import ProgrammingError

from ett_service.core.dimensions import DIMENSIONS, JOB_DIMENSIONS
from ett_service.core.events import (
    AttemptEnded,
    Event,
    Exclusion,
    PhaseStarted,
)
from ett_service.core.fleet.contribution import contribution
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Outcome, Owner, Period, Phase
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import Store
from ett_service.storage.record.corrections import put_exclusion, take_back_exclusion
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema.views import READER, VIEWS
from tests.builders.clock import HOUR, MINUTE, NOON, SECOND
from tests.builders.drawn.story import drawn_story
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import event
from tests.storage.viewed import all_of, instant, read, trained_twice

PAGE = Path(__file__).parents[3] / "docs" / "views.md"


def of_unknown_size() -> list[Event]:
    """A job that never says how many accelerators it has."""
    return [
        event(PhaseStarted, phase=Phase.TRAIN_LOOP),
        event(AttemptEnded, NOON + HOUR, outcome=Outcome.COMPLETED),
    ]


@pytest.fixture
def ledgers(store: Store, project_id: int) -> dict[str, JobLedger]:
    """Return the ledgers of the jobs that are stored."""
    folded = {}
    for name, events in (("twice", trained_twice()), ("unknown", of_unknown_size())):
        deliver(store, JobKey(project_id, name), events)
        refreshed(store, JobKey(project_id, name), NOON + 2 * HOUR)
        folded[name] = fold(events, {}, NOON + 2 * HOUR)
    return folded


def described() -> dict[str, set[str]]:
    """Return the columns that the page has, by view; one view has what another has."""
    sections = re.split(r"^## (?=ett_v_)", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]
    columns = {}
    for section in sections:
        name, _, body = section.partition("\n")
        cells = [line.split("|")[1] for line in body.splitlines() if line.startswith("| `")]
        columns[name] = set(_spelled_out(re.findall(r"`([^`]+)`", " ".join(cells))))
    columns["ett_v_rollup_daily"] = columns["ett_v_rollup_hourly"]
    return columns


def _spelled_out(names: list[str]) -> Iterator[str]:
    for name in names:
        words: tuple[str, ...] = ("",)
        if "<category>" in name:
            words = tuple(Category)
        elif "<dimension>" in name:
            words = JOB_DIMENSIONS
        elif "<cohort>" in name:
            words = DIMENSIONS
        elif "<period>" in name:
            words = tuple(Period)
        elif "<owner>" in name:
            words = tuple(Owner)
        for word in words:
            yield re.sub("<[a-z]+>", word, name)


def test_every_view_has_the_columns_that_its_page_describes(store: Store) -> None:
    with store.reading() as conn:
        names = [name for name in inspect(conn).get_view_names() if name.startswith("ett_")]
        built = {
            name: {column["name"] for column in inspect(conn).get_columns(name)} for name in names
        }

    assert built == described()
    assert built.keys() == VIEWS.keys()


def test_the_queries_of_the_page_run(store: Store, ledgers: dict[str, JobLedger]) -> None:
    queries = re.findall(
        r"^```sql\n(SELECT.*?)```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    # Those with macros are Grafana's: each is tried where its view is.
    plain = [query.replace("1772323200000000", "0") for query in queries if "$__" not in query]
    trend, costly = (read(store, query) for query in plain)

    assert [row["ett_ratio"] for row in trend] == [pytest.approx(ratio_of(ledgers["twice"]))]
    assert [(row["job"], row["lost"]) for row in costly] == [("twice", 20 * 60 * 64.0)]


def ratio_of(ledger: JobLedger) -> float:
    """Return the weighted ETT% of one job."""
    effective = sum(
        share.weighted_us or 0
        for share in ledger.shares
        if share.category is Category.EFFECTIVE_TRAINING
    )
    return effective / sum(share.weighted_us or 0 for share in ledger.shares)


def test_a_job_in_its_view_is_the_job_of_the_ledger(
    store: Store, dialect: str, ledgers: dict[str, JobLedger]
) -> None:
    rows = {row["job"]: row for row in read(store, "SELECT * FROM ett_v_jobs")}

    for name, ledger in ledgers.items():
        row = rows[name]
        assert (row["project"], row["state"]) == ("research", ledger.state.value)
        assert bool(row["provisional"]) == ledger.provisional
        assert row["started_us"] == ledger.started_at
        assert row["started_at"] == instant(ledger.started_at or 0, dialect)
        assert row["as_of"] == instant(ledger.as_of, dialect)
        for category in Category:
            us = sum(share.us for share in ledger.shares if share.category is category)
            assert row[f"{category}_seconds"] == us / SECOND
        assert sum(row[f"{period}_period_seconds"] for period in Period) == row["e2e_seconds"]
        assert row["unsaved_training_seconds"] == ledger.unsaved_us / SECOND
    assert rows["twice"]["name"] == "the long one"
    assert rows["twice"]["effective_weighted_seconds"] / rows["twice"][
        "weighted_seconds"
    ] == pytest.approx(ratio_of(ledgers["twice"]), abs=1e-9)
    assert rows["unknown"]["weighted_seconds"] is None
    assert rows["unknown"]["gpu_seconds"] is None
    assert rows["unknown"]["ett_ratio"] == 1.0


def test_rollups_in_their_views_are_what_jobs_contribute(
    store: Store, dialect: str, ledgers: dict[str, JobLedger]
) -> None:
    expected: dict[tuple[int, str], int] = {}
    for ledger in ledgers.values():
        for (hour_at, cohort), cell in contribution(ledger).items():
            key = (hour_at, cohort.size)
            us = cell.sums.get("effective_training_weighted_us", 0)
            expected[key] = expected.get(key, 0) + us
    hourly = read(store, "SELECT * FROM ett_v_rollup_hourly")
    daily = read(store, "SELECT * FROM ett_v_rollup_daily")

    assert {
        (row["start_us"], row["size"]): row["effective_training_weighted_seconds"] for row in hourly
    } == {key: us / SECOND for key, us in expected.items()}
    assert {row["start_at"] for row in daily} == {instant(NOON - 12 * HOUR, dialect)}
    assert not any(row["excluded"] or row["other"] for row in daily)
    for rows in (hourly, daily):
        held = sum(row["gpu_seconds"] for row in rows)
        assert held == sum(share.gpu_us or 0 for share in ledgers["twice"].shares) / SECOND


def test_a_failure_stands_with_its_cause_and_what_was_lost(
    store: Store, dialect: str, ledgers: dict[str, JobLedger]
) -> None:
    (row,) = read(store, "SELECT * FROM ett_v_failures")
    failed = ledgers["twice"].attempts[0]

    assert (row["job"], row["team"], row["number"], row["gpus"]) == ("twice", "nlp", 0, 64)
    assert (row["outcome"], row["origin"], row["cause"]) == ("failed", failed.origin, failed.cause)
    assert (row["evidence"], bool(row["corrected"])) == ("signal=9", False)
    assert row["failed_at"] == instant(NOON + 52 * MINUTE, dialect)
    assert row["unsaved_training_seconds"] == 20 * 60


def test_attempts_segments_and_recoveries_are_those_of_the_ledger(
    store: Store, ledgers: dict[str, JobLedger]
) -> None:
    ledger = ledgers["twice"]
    attempts = read(store, "SELECT * FROM ett_v_attempts WHERE job = 'twice' ORDER BY number")
    segments = read(store, "SELECT * FROM ett_v_phases WHERE job = 'twice' ORDER BY started_us")
    (recovery,) = read(store, "SELECT * FROM ett_v_recoveries")

    assert [(row["outcome"], row["last_step"]) for row in attempts] == [
        ("failed", 46),
        ("running", 60),
    ]
    assert [(row["category"], row["number"], row["seconds"]) for row in segments] == [
        (segment.category, segment.number, (segment.end_at - segment.start_at) / SECOND)
        for segment in ledger.segments
    ]
    assert recovery["seconds"] == ledger.recoveries[0].us / SECOND
    assert recovery["repeated_seconds"] == ledger.recoveries[0].repeated_us / SECOND
    assert (recovery["interrupted"], recovery["resumed"]) == (0, 1)


def test_recoveries_count_that_resumed_after_a_failure(store: Store, project_id: int) -> None:
    for outcome in (Outcome.FAILED, Outcome.CANCELLED):
        ended = event(AttemptEnded, NOON + 52 * MINUTE, outcome=outcome)
        others = [each for each in trained_twice() if each.type != ended.type]
        deliver(store, JobKey(project_id, outcome), [*others, ended])
        refreshed(store, JobKey(project_id, outcome), NOON + 2 * HOUR)
    rows = read(store, "SELECT outcome, counted FROM ett_v_recoveries WHERE resumed = 1")
    assert {row["outcome"]: bool(row["counted"]) for row in rows} == {
        "failed": True,
        "cancelled": False,
    }


def test_an_attempt_stands_with_its_time_to_the_loop_its_evidence_and_its_stages(
    store: Store, ledgers: dict[str, JobLedger]
) -> None:
    attempts = read(store, "SELECT * FROM ett_v_attempts WHERE job = 'twice' ORDER BY number")
    stages = read(store, "SELECT * FROM ett_v_stages")

    assert ledgers
    assert [row["time_to_loop_seconds"] for row in attempts] == [300.0, 180.000001]
    assert [row["evidence"] for row in attempts] == ["signal=9", None]
    assert {(row["team"], row["hardware"]) for row in attempts} == {("nlp", "h100")}
    assert [
        (row["job"], row["number"], row["phase"], row["stage"], row["inclusive_seconds"])
        for row in stages
    ] == [("twice", 0, "launcher_init", "pre_train", 180.0)]


def test_waits_stand_by_owner_and_sum_to_their_part(
    store: Store, ledgers: dict[str, JobLedger]
) -> None:
    waits = read(store, "SELECT * FROM ett_v_waits WHERE job = 'twice'")

    assert {
        (row["part"], row["owner"], row["seconds"], row["weighted_seconds"]) for row in waits
    } == {
        (
            share.part,
            share.owner,
            share.us / SECOND,
            None if share.weighted_us is None else share.weighted_us / SECOND,
        )
        for share in ledgers["twice"].wait_shares
    }
    [job] = read(store, "SELECT * FROM ett_v_jobs WHERE job = 'twice'")
    for part in ("scheduling", "starting", "recovering"):
        seconds = sum(row["seconds"] for row in waits if row["part"] == part)
        assert seconds == pytest.approx(job[f"{part}_period_seconds"])


def test_the_loop_in_the_view_is_the_loop_of_the_ledger(store: Store, project_id: int) -> None:
    expected = {}
    for seed in range(10):
        key, events = JobKey(project_id, f"story-{seed}"), drawn_story(NOON, Random(seed))
        deliver(store, key, events)
        refreshed(store, key, NOON + 100 * HOUR)
        for attempt in fold(events, {}, NOON + 100 * HOUR).attempts:
            began = attempt.loop_started_at
            took = None if began is None else (began - attempt.started_at) / SECOND
            expected[key.job, attempt.number] = took

    rows = read(store, "SELECT job, number, time_to_loop_seconds FROM ett_v_attempts")

    assert {(row["job"], row["number"]): row["time_to_loop_seconds"] for row in rows} == expected
    assert len(set(expected.values()) - {None}) > 5


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Exclusion(), {"jobs": [1], "attempts": [1, 1], "failures": [1], "recoveries": [1]}),
        (
            Exclusion(NOON + 52 * MINUTE, NOON + HOUR),
            {"jobs": [0], "attempts": [0, 0], "failures": [1], "recoveries": [1]},
        ),
        (
            Exclusion(NOON + HOUR, None),
            {"jobs": [0], "attempts": [0, 1], "failures": [0], "recoveries": [0]},
        ),
        (
            Exclusion(None, NOON),
            {"jobs": [0], "attempts": [0, 0], "failures": [0], "recoveries": [0]},
        ),
    ],
)
def test_what_was_taken_out_of_the_numbers_says_so(
    store: Store,
    project_id: int,
    ledgers: dict[str, JobLedger],
    window: Exclusion,
    expected: dict[str, list[int]],
) -> None:
    key = JobKey(project_id, "twice")
    store.write(
        lambda conn: put_exclusion(conn, key, [window], why="burnt in", made_by="k", now_us=NOON)
    )

    first = {"jobs": "job", "attempts": "number", "failures": "number", "recoveries": "interrupted"}

    def excluded(view: str) -> list[int]:
        rows = read(store, all_of(f"ett_v_{view} WHERE job = 'twice' ORDER BY {first[view]}"))
        return [int(row["excluded"]) for row in rows]

    assert ledgers
    assert {view: excluded(view) for view in expected} == expected
    store.write(lambda conn: take_back_exclusion(conn, key, made_by="k", now_us=NOON))
    assert not any(flag for view in expected for flag in excluded(view))


def test_a_checkpoint_stands_with_the_time_for_which_it_blocked(
    store: Store, dialect: str, ledgers: dict[str, JobLedger]
) -> None:
    (row,) = read(store, "SELECT * FROM ett_v_checkpoints")

    assert ledgers
    assert (row["job"], row["number"], row["id"], row["step"]) == ("twice", 0, "saved", 24)
    assert row["saved_at"] == instant(NOON + 32 * MINUTE, dialect)
    assert (row["bytes"], row["duration_seconds"], row["blocking_seconds"]) == (7, 61.5, 60.0)


@pytest.mark.parametrize("dialect", ["postgresql"])
def test_a_reader_may_read_the_views_and_nothing_else(
    store: Store, ledgers: dict[str, JobLedger]
) -> None:
    assert ledgers
    with store.reading() as conn:
        tables = inspect(conn).get_table_names()
    refused = [*(all_of(table) for table in tables), "CREATE TABLE mine (a int)"]

    def reads(query: str) -> None:
        def work(conn: Any) -> None:
            conn.execute(text(f"SET LOCAL ROLE {READER}"))
            conn.execute(text(query))

        store.write(work)

    for view in VIEWS:
        reads(all_of(view))
    for query in refused:
        with pytest.raises(ProgrammingError, match="permission denied"):
            reads(query)


@pytest.mark.parametrize("dialect", ["postgresql"])
def test_who_may_make_no_roles_can_migrate_all_the_same(bare_database_url: str) -> None:
    owner = make_url(bare_database_url)
    plain = owner.set(username="ett_test_plain", password="plain")  # noqa: S106 - of a test
    with psycopg.connect(_libpq(owner), autocommit=True) as conn:
        name = sql.Identifier(str(owner.database))
        conn.execute("CREATE ROLE ett_test_plain LOGIN PASSWORD 'plain'")
        try:
            conn.execute(sql.SQL("ALTER DATABASE {} OWNER TO ett_test_plain").format(name))
            migrate(plain.render_as_string(hide_password=False))
            conn.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(READER)))
            assert conn.execute("SELECT count(*) FROM ett_v_jobs").fetchall() == [(0,)]
        finally:
            conn.execute("RESET ROLE")
            conn.execute(sql.SQL("ALTER DATABASE {} OWNER TO CURRENT_USER").format(name))
            conn.execute("DROP OWNED BY ett_test_plain CASCADE")
            conn.execute("DROP ROLE ett_test_plain")


def _libpq(url: URL) -> str:
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


def test_a_story_of_any_kind_can_be_read(store: Store, project_id: int) -> None:
    for seed in range(10):
        key = JobKey(project_id, f"story-{seed}")
        deliver(store, key, drawn_story(NOON, Random(seed)))
        refreshed(store, key, NOON + 100 * HOUR)

    not_told = {"ett_v_markers", "ett_v_stages", "ett_v_regressions"}
    assert all(read(store, all_of(view)) for view in VIEWS.keys() - not_told)
