"""The page of metrics, from told events to parsed samples."""

import shutil
import subprocess
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from ett_service.core.vocabulary import Category
from ett_service.exposition.collector import LedgerCollector
from ett_service.storage.engine import Store
from tests.builders import MINUTE, NOON
from tests.exposition.conftest import Page, Tell, labelled
from tests.stories import failing_job, spent, told

COHORT = {"cluster": "a", "cohort": "llm-70b"}


def _by(page: Page, name: str, label: str) -> dict[str, float]:
    samples = page.get(name, {})
    return {dict(labels)[label]: value for labels, value in samples.items() if value}


def test_phases_are_gross_and_sum_to_e2e(tell: Tell, scrape: Callable[[], Page]) -> None:
    tell(failing_job())
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


def test_deductions_turn_phases_into_categories(tell: Tell, scrape: Callable[[], Page]) -> None:
    tell([*failing_job(), spent("pt2_compile", 50, 51, attempt=1)])
    page = scrape()
    samples = page["ett_deducted_seconds_total"]
    assert samples == {
        labelled(**COHORT, phase="train_loop", category="repeated_training"): 600.0,
        labelled(**COHORT, phase="train_loop", category="stalled"): 0.0,
        labelled(**COHORT, phase="pt2_compile", category="recompile"): 60.0,
    }
    phases = _by(page, "ett_phase_seconds_total", "phase")
    assert phases["train_loop"] - 600 == (34 - 1) * 60


def test_a_reported_stall_is_a_phase_and_a_silent_tail_a_deduction(
    tell: Tell, scrape: Callable[[], Page]
) -> None:
    tell(
        [
            told("attempt_started", 0),
            told("phase_started", 0, phase="train_loop"),
            *(told("progress", minute, step=minute) for minute in range(6)),
            spent("stalled", 3, 4),
            told("attempt_ended", 20, outcome="failed"),
        ]
    )
    page = scrape()
    assert _by(page, "ett_phase_seconds_total", "phase")["stalled"] == 60.0
    assert _by(page, "ett_deducted_seconds_total", "category") == {"stalled": (20 - 7) * 60.0}


def test_the_silent_tail_of_a_running_attempt_is_not_booked(
    tell: Tell, scrape: Callable[[], Page]
) -> None:
    silent = [
        told("attempt_started", 0),
        told("phase_started", 0, phase="train_loop"),
        *(told("progress", minute, step=minute) for minute in range(6)),
    ]
    tell(silent, now_us=NOON + 15 * MINUTE)
    page = scrape()
    assert _by(page, "ett_attempts_running", "cohort") == {"unknown": 1}
    assert _by(page, "ett_phase_seconds_total", "phase") == {"train_loop": 900.0}
    assert _by(page, "ett_deducted_seconds_total", "category") == {}


def test_queued_time_after_the_first_instant_is_restart_wait(
    tell: Tell, scrape: Callable[[], Page]
) -> None:
    tell(
        [
            told("attempt_started", 0),
            told("attempt_ended", 1, outcome="preempted"),
            spent("queued", 2, 5, attempt=1),
            told("attempt_started", 5, attempt=1),
            told("attempt_ended", 6, outcome="completed", attempt=1),
        ]
    )
    phases = _by(scrape(), "ett_phase_seconds_total", "phase")
    assert phases == {"unattributed": 120.0, "restart_wait": 240.0}


def test_failures_are_counted_by_origin_and_cause(tell: Tell, scrape: Callable[[], Page]) -> None:
    tell(
        [
            *failing_job(),
            told("job", 0, "other", cluster="a"),
            told("attempt_ended", 1, "other", outcome="preempted"),
        ]
    )
    failures = scrape()["ett_failures_total"]
    preempted = labelled(cluster="a", origin="preemption", cause="preemption")
    assert failures[preempted] == 1
    assert sum(failures.values()) == 2


@pytest.mark.parametrize(
    ("name", "seconds"),
    [("ett_time_to_start_seconds", 540), ("ett_time_to_recover_seconds", 300)],
)
def test_times_to_start_and_to_recover_fall_into_buckets(
    tell: Tell, scrape: Callable[[], Page], name: str, seconds: int
) -> None:
    tell(failing_job())
    page = scrape()
    counts = page[f"{name}_bucket"]
    inside = {dict(labels)["le"]: count for labels, count in counts.items()}
    assert inside["+Inf"] == page[f"{name}_count"][labelled(**COHORT)] == 1
    assert page[f"{name}_sum"][labelled(**COHORT)] == seconds
    assert inside == {bound: float(float(bound) >= seconds) for bound in inside}
    assert "300.0" in inside


def test_history_moves_no_counter(tell: Tell, scrape: Callable[[], Page]) -> None:
    tell(failing_job(), history=True)
    page = scrape()
    for name in ("phase_seconds_total", "deducted_seconds_total", "failures_total"):
        assert not any(page.get(f"ett_{name}", {}).values())
    assert not any(page.get("ett_time_to_start_seconds_count", {}).values())


def test_a_job_that_history_touched_later_moves_none_any_more(
    tell: Tell, scrape: Callable[[], Page]
) -> None:
    tell(failing_job())
    tell([told("heartbeat", 1)], history=True)
    assert not any(scrape().get("ett_phase_seconds_total", {}).values())


def test_jobs_of_a_cohort_add_up_and_no_series_names_a_job(
    tell: Tell, scrape: Callable[[], Page]
) -> None:
    tell([*failing_job("first"), *failing_job("second")])
    page = scrape()
    assert sum(page["ett_phase_seconds_total"].values()) == 2 * 62 * 60
    assert "first" not in str(page)


@pytest.mark.parametrize(
    "name", ['quo"te', "back\\slash", "{brace}", "a,b=c", "Größe", "# HELP x", " ", "x" * 256]
)
def test_no_name_that_a_user_makes_up_breaks_the_page(
    tell: Tell, scrape: Callable[[], Page], name: str
) -> None:
    tell(failing_job(model=name, cluster=name))
    page = scrape()
    (labels, *_) = page["ett_attempts_running"]
    assert dict(labels) == {"cluster": name[:128], "cohort": name[:128]}


def test_a_cohort_without_names_or_time_is_shown_at_0(
    tell: Tell, scrape: Callable[[], Page]
) -> None:
    tell([told("attempt_ended", 1, outcome="failed")])
    page = scrape()
    assert page["ett_attempts_running"] == {labelled(cluster="unknown", cohort="unknown"): 0}
    assert len(page["ett_phase_seconds_total"]) == 11
    assert not any(page["ett_phase_seconds_total"].values())
    (failed,) = page["ett_failures_total"]
    assert dict(failed)["cluster"] == "unknown"


def test_a_scrape_of_an_empty_store_is_a_good_page(scrape: Callable[[], Page]) -> None:
    assert scrape()["ett_build_info"] == {labelled(version="1.2.3"): 1}


def test_seconds_of_every_category_can_be_worked_out_from_the_page(
    tell: Tell, scrape: Callable[[], Page]
) -> None:
    tell(failing_job())
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

    assert seconds(Category.EFFECTIVE_TRAINING, "train_loop") == 34 * 60
    assert seconds(Category.REPEATED_TRAINING, "") == 600
    assert seconds(Category.PT2_COMPILE, "pt2_compile") == 120


def test_bucket_bounds_read_the_same_in_both_formats(tell: Tell, store: Store) -> None:
    tell(failing_job())
    registry = CollectorRegistry()
    registry.register(LedgerCollector(store.reading, "1"))
    plain = generate_latest(registry)
    open_metrics: bytes = generate_openmetrics(registry)  # type: ignore[no-untyped-call]
    for page in (plain, open_metrics):
        assert b'le="60.0"' in page
        assert b'le="60"' not in page


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_the_page(tell: Tell, store: Store) -> None:
    tell(failing_job(model='quo"te'))
    registry = CollectorRegistry()
    registry.register(LedgerCollector(store.reading, "1"))
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=generate_latest(registry), check=False
    )
    assert checked.returncode == 0
