"""The same schema over the nodes of Citus, and the whole way of an event there."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import Connection, text

from ett_service.aggregation.recompute import recompute
from ett_service.aggregation.verify import verify, verify_rollups
from ett_service.core.dimensions import Cohort
from ett_service.storage import sizes
from ett_service.storage.engine.citus import EVERYWHERE, is_of_jobs
from ett_service.storage.engine.errors import WrongStore
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.fleet import rollup_deltas
from ett_service.storage.schema import metadata
from ett_service.worker.metrics import MetricsThread
from tests.builders.databases.engines import new_postgresql
from tests.builders.databases.schemas import undo
from tests.builders.jobs import failing_job
from tests.builders.servers.application import Service, running

ON_CITUS = pytest.mark.parametrize("dialect", ["citus"], indirect=True)

ROUTES = (
    "jobs",
    "jobs/llm-70b",
    "jobs/llm-70b/ledger",
    "jobs/llm-70b/attempts",
    "jobs/llm-70b/stages",
    "fleet/summary",
    "fleet/series",
    "fleet/trend",
    "fleet/jobs/top",
    "fleet/compile-advice",
    "fleet/checkpoint-advice",
)


def test_a_file_cannot_be_spread_and_none_is_made(tmp_path: Path) -> None:
    with pytest.raises(WrongStore, match="one machine") as error:
        migrate(f"sqlite:///{tmp_path / 'ett.db'}", citus=True)

    assert "--citus" in error.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_server_without_citus_is_told_what_it_lacks_and_left_alone(postgres_url: str) -> None:
    with new_postgresql(postgres_url) as url:
        with pytest.raises(WrongStore, match="no extension citus") as error:
            migrate(url, citus=True)
        assert "CREATE EXTENSION citus" in error.value.hint

        with pytest.raises(WrongStore, match="older than this version's"):
            open_store(url)


@ON_CITUS
def test_rows_of_jobs_are_spread_by_job_beside_each_other(store: Store) -> None:
    kinds = _kinds(store)

    spread = {table.name for table in metadata.sorted_tables if is_of_jobs(table)}
    assert {name for name, (kind, _) in kinds.items() if kind == "distributed"} == spread
    assert len({group for kind, group in kinds.values() if kind == "distributed"}) == 1
    everywhere = {name for name, (kind, _) in kinds.items() if kind == "reference"}
    assert everywhere == {table.name for table in EVERYWHERE}


@ON_CITUS
def test_what_later_migrations_make_is_spread_unasked(database_url: str) -> None:
    with closing(open_store(database_url)) as store:
        before = _kinds(store)
    undo(database_url, "20261214_loop_waits")

    migrate(database_url)

    with closing(open_store(database_url)) as store:
        assert _kinds(store).keys() == before.keys()
        assert _kinds(store)["launch_cluster"] == before["launch_cluster"]
    migrate(database_url, citus=True)


def _kinds(store: Store) -> dict[str, tuple[str, int]]:
    listed = text("SELECT table_name::text, citus_table_type, colocation_id FROM citus_tables")
    with store.reading() as conn:
        return {name: (kind, group) for name, kind, group in conn.execute(listed)}


@ON_CITUS
def test_a_fleet_has_the_numbers_that_it_has_on_one_machine(store: Store, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ett.db'}"
    migrate(url)
    with closing(open_store(url)) as one_machine, running(one_machine) as service:
        expected = _answers(service)
    with running(store) as service:
        answers = _answers(service)

    assert answers == expected
    assert _differences(store) == []


@ON_CITUS
def test_writers_of_the_same_new_cohorts_wait_for_each_other_in_no_circle(
    store: Store, project_id: int
) -> None:
    for turn in range(20):
        cohorts = [Cohort(team=str(turn), model=str(number)) for number in range(8)]
        ids = _learned_by_all(store, project_id, cohorts)
        assert all(each == ids[0] for each in ids)


def _learned_by_all(
    store: Store, project_id: int, cohorts: list[Cohort]
) -> list[dict[Cohort, int]]:
    """Let four transactions insert the cohorts at once."""
    begun = Barrier(4)

    def learn(conn: Connection) -> dict[Cohort, int]:
        begun.wait()
        return rollup_deltas.ids(conn, project_id, cohorts)

    with ThreadPoolExecutor(begun.parties) as pool:
        return list(pool.map(store.write, [learn] * begun.parties))


@ON_CITUS
def test_mergers_of_other_slots_do_not_wait_for_each_other(store: Store) -> None:
    def merge_beside_another(conn: Connection) -> None:
        rollup_deltas.merge(conn, range(1))
        store.write(partial(rollup_deltas.merge, slots=range(1, 2)))  # gives up if it has to wait

    store.write(merge_beside_another)


@ON_CITUS
def test_the_size_of_a_table_is_that_on_all_nodes(store: Store) -> None:
    with running(store) as service:
        _answers(service)

    with store.reading() as conn:
        bytes_of = sizes.table_sizes(conn)
        on_coordinator = conn.scalar(text("SELECT pg_total_relation_size('event')"))
    assert bytes_of["event"] > 4 * on_coordinator
    assert bytes_of.keys() == metadata.tables.keys()


@ON_CITUS
def test_a_fleet_is_recomputed_without_a_difference(store: Store) -> None:
    with running(store) as service:
        before = _answers(service)

        done = recompute(store.url, service.clock, lambda *_: None, processes=1, from_start=True)

        assert done is not None
        assert done.jobs == len(JOBS)
        assert _differences(store) == []
        assert dict(_read(service)) == before


JOBS = ("llm-70b", "vision", "speech")


def _answers(service: Service) -> dict[str, Any]:
    """Send jobs, one in two batches and two of them twice, and read what is said of them."""
    first, second, third = (failing_job(job, team=job) for job in JOBS)
    service.ingest([*first[:10], *second])
    service.ingest([*first[10:], *third])
    again = service.send([*first, *third]).json()
    assert (again["duplicate"], again["rejected"]) == (len(first) + len(third), 0)
    other = service.send([{**first[-1], "id": first[0]["id"]}, *second[:1]]).json()
    assert (other["duplicate"], other["rejected"]) == (1, 1)
    MetricsThread(service.store, service.clock).publish()
    return dict(_read(service))


def _read(service: Service) -> Iterator[tuple[str, Any]]:
    for route in ROUTES:
        yield route, service.get(f"/v1/{route}")
    page = service.client.get("/metrics").text
    counters = [line for line in page.splitlines() if "_total{" in line and line[:4] == "ett_"]
    assert counters
    yield "metrics", sorted(line for line in counters if "phase=" in line)


def _differences(store: Store) -> list[object]:
    of_jobs = [difference for job in verify(store) for difference in job.differences]
    of_rollups = [difference for day in verify_rollups(store) for difference in day.differences]
    return [*of_jobs, *of_rollups]
