"""What is published: counters that equal the ledgers and never go down, and gauges beside them."""

import json
import math
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, select

from ett_service.core.events import Exclusion
from ett_service.core.fleet.totals import DURATION_BOUNDS_US
from ett_service.storage import retention
from ett_service.storage.metrics import counters as stored_counters
from ett_service.storage.metrics import labels as counter_labels
from ett_service.storage.metrics.counters import Labels, PublishedMetrics, ident
from ett_service.storage.metrics.labels import COHORT, LabelLimits
from ett_service.storage.record import corrections
from ett_service.storage.record.dirty_marks import JobBatch, JobKey
from ett_service.storage.schema import job as jobs
from ett_service.worker.metrics import MetricsOptions, MetricsThread
from tests.builders.clock import HOUR, MINUTE, NOON
from tests.builders.databases.statements import FEWEST_STATEMENTS, before_statement
from tests.builders.jobs import failing_job, wire_event, wire_span
from tests.builders.servers.application import Service

T = TypeVar("T")

LLM = ("a", "llm-70b")


def publish(service: Service, most: LabelLimits | None = None) -> PublishedMetrics:
    """Publish, and read what a scrape would."""
    publication = MetricsOptions(limits=most or LabelLimits())
    MetricsThread(service.store, service.clock, publication).publish()
    with service.store.reading() as conn:
        return stored_counters.read(conn)


def counters(service: Service) -> PublishedMetrics:
    """Move the counters on alone, which is quick, and read them."""
    now_us = service.clock()
    service.store.write(partial(stored_counters.begin, now_us=now_us))
    service.store.write(partial(stored_counters.advance, now_us=now_us, limits=LabelLimits()))
    with service.store.reading() as conn:
        return stored_counters.read(conn)


def key_of(service: Service, job: str) -> JobKey:
    with service.store.reading() as conn:
        return JobKey(conn.execute(select(jobs.c.project_id)).scalars().first() or 0, job)


def minutes(metrics: PublishedMetrics, labels: Labels, family: str) -> dict[str, float]:
    """Return the counters of one family that are not 0, in minutes."""
    return {
        key.removeprefix(f"{family}:"): us / MINUTE
        for key, us in metrics.marks[labels].items()
        if key.startswith(f"{family}:")
    }


def starting(job: str, model: str, minute: float = 0, **facts: Any) -> list[dict[str, Any]]:
    """Send a job that initialises for ten minutes and then ends."""
    return [
        wire_event("job", minute, job=job, model=model, cluster="a", gpus=8, **facts),
        wire_span("launcher_init", minute, minute + 10, job=job),
        wire_event("attempt_ended", minute + 10, job=job, outcome="completed"),
    ]


def test_counters_say_what_the_ledger_says(service: Service) -> None:
    service.ingest(failing_job())

    metrics = publish(service)

    assert minutes(metrics, LLM, "phase_seconds") == {
        "scheduling": 1, "hardware_setup": 2, "launcher_init": 8, "pt2_compile": 2,
        "train_loop": 44, "checkpoint_blocking": 1, "restart_wait": 2, "shutdown": 2,
    }  # fmt: skip
    assert minutes(metrics, LLM, "deducted_seconds") == {"train_loop/repeated_training": 10}
    assert minutes(metrics, LLM, "deducted_weighted_seconds") == {
        "train_loop/repeated_training": 80
    }
    held = minutes(metrics, LLM, "phase_weighted_seconds")
    assert (held["train_loop/true"], held["scheduling/false"]) == (8 * 44, 8)
    assert sum(held.values()) == 8 * 62
    marks = metrics.marks[LLM]
    assert (marks["attempts_started:first"], marks["attempts_started:restart"]) == (1, 1)
    assert marks["time_to_start_seconds#us"] == 9 * MINUTE
    assert marks[f"time_to_start_seconds#{DURATION_BOUNDS_US.index(10 * MINUTE)}"] == 1
    assert marks["time_to_recover_seconds#us"] == 5 * MINUTE
    assert marks["checkpoint_blocking_seconds#us"] == MINUTE
    of_cluster = metrics.marks["a", ""]
    assert of_cluster["failures:unknown/unknown"] == 1
    assert of_cluster["phase_duration_seconds:launcher_init#us"] == 8 * MINUTE


def test_publishing_again_counts_nothing_twice(service: Service) -> None:
    service.ingest(failing_job())

    assert publish(service).marks == publish(service).marks


def test_what_a_fold_says_while_it_is_counted_is_counted_the_next_time(service: Service) -> None:
    # No row is locked meanwhile: a fold may write between any two statements of the publisher.
    for statement in range(1, 100):
        job = f"counted-{statement}"
        service.ingest(starting(job, job))
        if not fold_while_counting(service, key_of(service, job), statement):
            assert statement >= FEWEST_STATEMENTS
            break
        of_job = minutes(counters(service), ("a", job), "phase_seconds")
        assert of_job["launcher_init"] == 11


def fold_while_counting(service: Service, key: JobKey, statement: int) -> bool:
    """Have a job say a minute more ahead of a statement of the publisher; False if it has fewer."""
    with service.store.reading() as conn:
        batch = JobBatch(key.project_id, [key.job])
        sample = stored_counters.stored(conn, batch)[key.job]
    said = json.loads(sample.said)
    said["phase_seconds:launcher_init"] += MINUTE
    written: list[JobKey] = []

    def advance(conn: Connection) -> None:
        def fold() -> None:
            written.append(key)
            stored_counters.put(conn, [(key, sample._replace(said=json.dumps(said)))])

        with before_statement(conn, statement, fold):
            stored_counters.advance(conn, service.clock(), LabelLimits())

    service.store.write(partial(stored_counters.begin, now_us=service.clock()))
    service.store.write(advance)
    return bool(written)


def test_any_order_of_arrival_ends_at_the_same_counters_or_above(service: Service) -> None:
    described, *events = failing_job()
    for seed in range(3):
        random.Random(seed).shuffle(events)
        job, before = f"shuffled-{seed}", counters(service).marks.get(LLM, {})
        for event in (described, *events):
            service.ingest([event | {"job": job, "id": f"{event['id']}-{seed}"}])
            now = counters(service).marks.get(LLM, {})
            assert all(now[key] >= mark for key, mark in before.items())
            before = now
    metrics = counters(service)
    gross = sum(minutes(metrics, LLM, "phase_seconds").values())
    assert gross == 3 * 62 + metrics.excess_us / MINUTE


def test_a_late_fact_leaves_the_mark_standing_until_it_is_passed(service: Service) -> None:
    service.ingest(failing_job("first"))
    before = publish(service)

    service.ingest([wire_span("evaluation", 50, 55, job="first", attempt=1)])
    late = publish(service)
    assert minutes(late, LLM, "phase_seconds")["train_loop"] == 44
    assert minutes(late, LLM, "phase_seconds")["evaluation"] == 5
    assert (before.excess_us, late.excess_us) == (0, 5 * MINUTE)

    service.ingest(failing_job("second"))
    passed = publish(service)
    assert minutes(passed, LLM, "phase_seconds")["train_loop"] == 39 + 44
    assert passed.excess_us == 0


def test_a_deleted_job_takes_nothing_out(service: Service) -> None:
    service.ingest(failing_job("gone"))
    before = publish(service).marks

    service.store.write(partial(retention.delete_job, key=key_of(service, "gone")))
    assert publish(service).marks == before

    service.ingest(failing_job("next"))
    assert minutes(publish(service), LLM, "phase_seconds")["train_loop"] == 88


def test_an_excluded_job_counts_no_further(service: Service) -> None:
    service.ingest(starting("job", "llm-70b"))
    publish(service)
    key = key_of(service, "job")
    exclude = partial(
        corrections.put_exclusion, key=key, windows=[Exclusion()], why="a test",
        made_by="ett_00000000", now_us=NOON,
    )  # fmt: skip
    service.store.write(exclude)
    service.ingest(starting("job", "llm-70b", 20, attempt=1))
    assert minutes(publish(service), LLM, "phase_seconds") == {"launcher_init": 10}


def test_a_job_that_moves_leaves_its_past_where_it_was(service: Service) -> None:
    service.ingest(starting("job", "before"))
    publish(service)
    service.ingest([wire_event("job", 30, job="job", model="after", cluster="a")])
    service.ingest([wire_span("launcher_init", 40, 45, job="job", attempt=1)])

    metrics = publish(service)

    assert minutes(metrics, ("a", "before"), "phase_seconds") == {"launcher_init": 10}
    assert minutes(metrics, ("a", "after"), "phase_seconds")["launcher_init"] == 5


def test_time_lost_where_nothing_was_counted_is_an_excess_too(service: Service) -> None:
    service.ingest(starting("job", "before"))
    publish(service)
    service.ingest([wire_event("job", 30, job="job", model="after", cluster="a")])
    service.ingest([wire_span("evaluation", 4, 6, job="job")])

    assert publish(service).excess_us == 2 * MINUTE


def test_imported_history_moves_no_counter_but_is_seen_to_run(service: Service) -> None:
    service.ingest(failing_job("past"), history=True)
    opened = [
        wire_event("job", 60, job="now", model="llm-70b", cluster="a"),
        wire_event("phase_started", 60, job="now", phase="launcher_init"),
    ]
    service.clock.now_us = NOON + HOUR + MINUTE
    service.ingest(opened, history=True)

    metrics = publish(service)

    assert metrics.marks == {}
    assert metrics.gauges["ett_attempts_running"] == [(LLM, 1)]
    opened_at = (NOON + HOUR) / 1_000_000
    assert metrics.gauges["ett_oldest_open_phase_start_timestamp_seconds"] == [
        ((*LLM, "launcher_init"), opened_at)
    ]


def test_cohorts_beyond_the_cap_count_under_other_and_are_counted(service: Service) -> None:
    for model in "abcd":
        service.ingest(starting(model, model))
        publish(service, LabelLimits(cohorts=2))

    metrics = publish(service, LabelLimits(cohorts=2))

    assert sorted(cohort for _, cohort in metrics.marks) == ["", "a", "b", "other"]
    assert minutes(metrics, ("a", "other"), "phase_seconds") == {"launcher_init": 20}
    assert dict(metrics.gauges["ett_label_values_folded"]) == {("cluster",): 0, ("cohort",): 2}


def test_a_cohort_that_comes_to_be_shown_begins_at_0(service: Service) -> None:
    for model in "ab":
        service.ingest(starting(model, model))
        publish(service, LabelLimits(cohorts=1))
    choose = partial(counter_labels.choose, kind=COHORT, weights={"a": 1.0, "b": 2.0}, most=1)
    service.store.write(choose)
    service.ingest(starting("b-again", "b", 30))

    metrics = publish(service, LabelLimits(cohorts=1))

    assert sorted(cohort for _, cohort in metrics.marks) == ["", "b", "other"]
    assert minutes(metrics, ("a", "b"), "phase_seconds") == {"launcher_init": 10}
    assert minutes(metrics, ("a", "other"), "phase_seconds") == {"launcher_init": 10}


def test_an_exemplar_names_the_attempt_and_not_the_job(service: Service) -> None:
    service.ingest(failing_job())

    exemplars = publish(service).exemplars[LLM]

    bucket = DURATION_BOUNDS_US.index(5 * MINUTE)
    recovery = exemplars[f"time_to_recover_seconds#{bucket}"]
    assert recovery == (NOON + 35 * MINUTE, 5 * MINUTE, f"{ident(key_of(service, 'llm-70b'))}-1")


class SlowToWrite:
    """A store in which the clock moves on by a minute with each write."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.dialect, self.url = service.store.dialect, service.store.url
        self.reading, self.close = service.store.reading, service.store.close
        self.submit = service.store.submit
        self.require_room = service.store.require_room

    def write(self, work: Callable[[Connection], T]) -> T:
        self._service.clock.now_us += MINUTE
        return self._service.store.write(work)


def test_sums_over_days_do_not_wait_for_what_counters_took(service: Service) -> None:
    publishing = MetricsThread(SlowToWrite(service), service.clock)
    publishing.publish()
    service.ingest(failing_job())
    publishing.publish()

    with service.store.reading() as conn:
        assert stored_counters.read(conn).gauges["ett_window_ratio"]


def test_what_is_published_has_a_revision_that_rises(service: Service) -> None:
    revisions = [publish(service).revision for _ in range(3)]
    assert revisions == sorted(set(revisions))


def test_publishers_beside_writers_count_everything_once(service: Service) -> None:
    publishers = [MetricsThread(service.store, service.clock) for _ in range(3)]
    done = threading.Event()

    def publish_on(thread: MetricsThread) -> None:
        while not done.is_set():
            thread.publish()

    with ThreadPoolExecutor(len(publishers)) as pool:
        running = [pool.submit(publish_on, publisher) for publisher in publishers]
        for number in range(5):
            service.ingest(failing_job(f"job-{number}"))
        done.set()
    for future in running:
        future.result()

    metrics = publish(service)
    assert sum(minutes(metrics, LLM, "phase_seconds").values()) == 5 * 62
    assert metrics.excess_us == 0


def test_a_gauge_that_is_no_number_does_not_end_publishing(service: Service) -> None:
    publish(service)
    broken = {"ett_db_size_bytes": [((), math.nan)], "ett_jobs_waiting": [((), 1.0)]}
    service.store.write(partial(stored_counters.put_gauges, gauges=broken, now_us=NOON))
    with service.store.reading() as conn:
        assert stored_counters.read(conn).gauges == {
            "ett_db_size_bytes": [],
            "ett_jobs_waiting": [((), 1.0)],
        }
