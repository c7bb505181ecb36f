"""The fleet's part of the page, from sent events to parsed samples."""

import pytest

from ett_service.core.words import Category
from ett_service.metrics.families import TextFormat
from ett_service.metrics.page import FleetPart
from ett_service.storage.engine.store import Store
from ett_service.storage.schema import counter, published
from tests.builders.clock import MINUTE, NOON
from tests.builders.jobs import failing_job, wire_event, wire_span
from tests.builders.metrics import Page, labelled, parsed
from tests.metrics.conftest import Ingest, Scrape

COHORT = {"cluster": "a", "cohort": "llm-70b"}


def _by(page: Page, name: str, label: str) -> dict[str, float]:
    samples = page.get(name, {})
    return {dict(labels)[label]: value for labels, value in samples.items() if value}


def test_phases_are_gross_and_sum_to_e2e(ingest: Ingest, scrape: Scrape) -> None:
    ingest(failing_job())
    phases = _by(scrape(), "ett_phase_seconds_total", "phase")
    assert phases == {
        "scheduling": 60.0,
        "hardware_setup": 120.0,
        "launcher_init": 480.0,
        "pt2_compile": 120.0,
        "train_loop": 2640.0,
        "checkpoint_blocking": 60.0,
        "shutdown": 120.0,
        "restart_wait": 120.0,
    }
    assert sum(phases.values()) == 62 * 60


def test_seconds_of_every_category_can_be_worked_out_from_the_page(
    ingest: Ingest, scrape: Scrape
) -> None:
    ingest([*failing_job(), wire_span("pt2_compile", 50, 51, attempt=1)])
    page = scrape()
    phases = _by(page, "ett_phase_seconds_total", "phase")
    moved = {
        (dict(labels)["phase"], dict(labels)["category"]): value
        for labels, value in page["ett_deducted_seconds_total"].items()
    }

    def seconds(category: str, phase: str) -> float:
        out = sum(value for (source, _), value in moved.items() if source == phase)
        into = sum(value for (_, target), value in moved.items() if target == category)
        return phases.get(phase, 0.0) - out + into

    assert seconds(Category.EFFECTIVE_TRAINING, "train_loop") == (34 - 1) * 60
    assert seconds(Category.REPEATED_TRAINING, "") == 600
    assert seconds(Category.RECOMPILE, "") == 60
    assert seconds(Category.PT2_COMPILE, "pt2_compile") == 120


@pytest.mark.parametrize(
    ("name", "seconds"),
    [("ett_time_to_start_seconds", 540), ("ett_time_to_recover_seconds", 300)],
)
def test_times_to_start_and_to_recover_fall_into_buckets(
    ingest: Ingest, scrape: Scrape, name: str, seconds: int
) -> None:
    ingest(failing_job())
    page = scrape()
    counts = page[f"{name}_bucket"]
    inside = {dict(labels)["le"]: count for labels, count in counts.items()}
    assert inside["+Inf"] == page[f"{name}_count"][labelled(**COHORT)] == 1
    assert page[f"{name}_sum"][labelled(**COHORT)] == seconds
    assert inside == {bound: float(float(bound) >= seconds) for bound in inside}
    assert "300.0" in inside


def test_a_running_attempt_is_a_gauge_and_its_silent_tail_no_deduction(
    ingest: Ingest, scrape: Scrape
) -> None:
    silent = [
        wire_event("attempt_started", 0),
        wire_event("phase_started", 0, phase="train_loop"),
        *(wire_event("progress", minute, step=minute) for minute in range(6)),
    ]
    ingest(silent, now_us=NOON + 15 * MINUTE)
    page = scrape()
    assert _by(page, "ett_attempts_running", "cohort") == {"unknown": 1}
    assert _by(page, "ett_phase_seconds_total", "phase") == {"train_loop": 900.0}
    assert _by(page, "ett_deducted_seconds_total", "category") == {}


def test_history_moves_no_counter(ingest: Ingest, scrape: Scrape) -> None:
    ingest(failing_job(), history=True)
    page = scrape()
    for name in ("phase_seconds_total", "deducted_seconds_total", "failures_total"):
        assert not any(page.get(f"ett_{name}", {}).values())
    assert not any(page.get("ett_time_to_start_seconds_count", {}).values())


def test_jobs_of_a_cohort_add_up_and_no_series_names_a_job(ingest: Ingest, scrape: Scrape) -> None:
    ingest([*failing_job("one-job"), *failing_job("another-job")])
    page = scrape()
    assert sum(page["ett_phase_seconds_total"].values()) == 2 * 62 * 60
    assert "-job" not in str(page)


def test_a_cluster_without_a_failure_says_so(ingest: Ingest, scrape: Scrape) -> None:
    ingest(
        [wire_event("job", 0, cluster="b"), wire_event("attempt_started", 0)], now_us=NOON + MINUTE
    )
    failures = scrape()["ett_failures_total"]
    assert {dict(labels)["cluster"] for labels in failures} == {"b"}
    assert set(failures.values()) == {0}


def test_nothing_was_published_and_the_page_is_good(scrape: Scrape) -> None:
    assert scrape() == {}


def test_the_page_is_read_again_only_when_something_was_published(
    ingest: Ingest, store: Store
) -> None:
    ingest(failing_job())
    part = FleetPart(store.reading)
    first = {form: part.read(form).text for form in TextFormat}
    store.write(lambda conn: conn.execute(counter.delete()))
    for form in TextFormat:
        assert part.read(form).text is first[form]
    store.write(lambda conn: conn.execute(published.update().values(revision=1000)))
    for form in TextFormat:
        assert "ett_phase_seconds_total" not in parsed(part.read(form).text.decode(), form)
