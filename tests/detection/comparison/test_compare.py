"""Two sets of jobs compared directly, on both databases, and on real logs of two rounds."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from sqlalchemy import select

from ett_service.core.events import AttemptEnded, AttemptStarted, Event, JobFacts, SpanOver
from ett_service.core.words import Outcome as Ended
from ett_service.core.words import Phase
from ett_service.detection.comparison.compare import (
    Compared,
    Comparison,
    Difference,
    Unlike,
    compare,
    compare_figures,
)
from ett_service.detection.comparison.job_sets import JobSet
from ett_service.detection.comparison.set_figures import SetFigures
from ett_service.storage.engine.store import Store
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import job_ledger
from tests.builders.clock import HOUR, MINUTE, NOON, SECOND
from tests.builders.fleet import LATER, store_job
from tests.builders.imports import imported
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import event
from tests.builders.timelines import event as read_event

ROOT = Path(__file__).parents[3]
RUNS = Path(os.environ.get("ETT_CORPUS", ROOT / "../shared/corpus")) / "mlperf" / "runs"


def run(place: int, version: str, compiling: int, *, fails: bool = False) -> list[Event]:
    """Return a job on 8 accelerators that initialises, compiles, saves twice and trains."""
    at = NOON + place * HOUR
    ready = at + 5 * MINUTE + place * 7 % 5 * SECOND
    begins = ready + compiling * MINUTE + place % 3 * SECOND
    saves = [(begins + 10 * MINUTE, 20), (begins + 20 * MINUTE, 40)]
    ends = begins + 30 * MINUTE
    return [
        event(JobFacts, at, model="llm", hardware="H100" if version == "1" else "B200"),
        event(AttemptStarted, at, gpus=8, code_version=version),
        event(SpanOver, ready, start=at, phase=Phase.LAUNCHER_INIT),
        event(SpanOver, ready, start=at + MINUTE, phase=Phase.LAUNCHER_INIT, stage="pre_train"),
        event(SpanOver, begins, start=ready, phase=Phase.PT2_COMPILE),
        event(SpanOver, ends, start=begins, phase=Phase.TRAIN_LOOP),
        *(
            event(SpanOver, start + s * SECOND, start=start, phase=Phase.CHECKPOINT_BLOCKING)
            for start, s in saves
        ),
        event(AttemptEnded, ends, cycle=0, outcome=Ended.FAILED if fails else Ended.COMPLETED),
    ]


def version(name: str, **more: Any) -> JobSet:
    return JobSet(where={"code_version": frozenset({name})}, **more)


def compared(store: Store, project_id: int, base: JobSet, other: JobSet) -> Comparison:
    with store.reading() as conn:
        return compare(conn, project_id, base, other, LATER)


def by_name(comparison: Comparison) -> dict[str, Compared]:
    return {each.figure: each for each in comparison.compared}


def test_what_differs_is_distinguished_from_what_does_not(store: Store, project_id: int) -> None:
    for place in range(10):
        store_job(store, project_id, f"old-{place}", run(place, "1", 5))
        store_job(store, project_id, f"new-{place}", run(place, "2", 10, fails=place < 4))

    comparison = compared(store, project_id, version("1"), version("2"))
    figures = by_name(comparison)

    compiles = figures["pt2_compile"]
    assert compiles.outcome is Difference.WORSE
    assert compiles.ranked is not None
    assert compiles.ranked.low < 2 < compiles.ranked.high + 0.01
    assert compiles.worse_by == pytest.approx(2, abs=0.02)
    assert (compiles.base.n, compiles.base.value) == (10, 301 * SECOND)
    assert figures["attempt_start"].outcome is figures["time_to_start"].outcome is Difference.WORSE
    assert figures["ett_ratio"].outcome is Difference.WORSE
    assert (
        figures["launcher_init"].outcome
        is figures["launcher_init/pre_train"].outcome
        is Difference.ALIKE
    )
    assert figures["checkpoint_blocking"].base.value == 30 * SECOND
    assert figures["checkpoint_blocking"].base.n == 10
    assert figures["failures_per_gpu_hour"].other.n == 4
    assert figures["failures_per_gpu_hour"].outcome is Difference.UNCLEAR
    assert comparison.start_shares == pytest.approx({"pt2_compile": 1.0})
    assert comparison.unlike == (
        Unlike("code_version", "1", "2", 1.0),
        Unlike("hardware", "H100", "B200", 1.0),
    )
    assert (comparison.base.jobs, comparison.base.attempts) == (10, 10)
    assert [each.figure for each in comparison.compared][:4] == [
        "time_to_start", "attempt_start", "ett_ratio", "failures_per_gpu_hour",
    ]  # fmt: skip


def test_sets_are_cut_down_by_name_and_time_and_the_second_takes_what_is_in_both(
    store: Store, project_id: int
) -> None:
    for place in range(4):
        store_job(store, project_id, f"old-{place}", run(place, "1", 5))
        store_job(store, project_id, f"new-{place}", run(place, "2", 10))

    rest = compared(store, project_id, JobSet(), version("2", from_us=NOON + HOUR))
    assert (rest.base.attempts, rest.other.attempts) == (5, 3)
    named = compared(
        store, project_id, JobSet(jobs=("old-*",), to_us=NOON + HOUR), JobSet(jobs=("new-[01]",))
    )
    assert (named.base.attempts, named.other.attempts) == (1, 2)
    assert {each.outcome for each in named.compared} == {Difference.TOO_FEW}
    nothing = compared(store, project_id, JobSet(jobs=("no",)), JobSet(jobs=("none",)))
    assert {each.ranked for each in nothing.compared} == {None}
    assert (nothing.start_shares, nothing.unlike) == ({}, ())


def restarted(place: int) -> list[Event]:
    """Return a job of two attempts, with two minutes between them and three hours of training."""
    at = NOON + place * 10 * HOUR
    again = at + 2 * HOUR + 2 * MINUTE
    return [
        event(JobFacts, at),
        event(SpanOver, at + 2 * HOUR, start=at, phase=Phase.TRAIN_LOOP),
        event(AttemptEnded, at + 2 * HOUR, cycle=0, outcome=Ended.FAILED),
        event(SpanOver, again + HOUR, start=again, phase=Phase.TRAIN_LOOP, attempt=1),
        event(AttemptEnded, again + HOUR, cycle=0, attempt=1, outcome=Ended.COMPLETED),
    ]


def test_the_ratio_of_a_job_is_that_of_its_ledger_waits_included(
    store: Store, project_id: int
) -> None:
    (key, _) = (store_job(store, project_id, f"restarted-{place}", restarted(place))
                for place in range(2))  # fmt: skip
    with store.reading() as conn:
        ratio = conn.execute(
            select(job_ledger.c.e2e_us, job_ledger.c.effective_us).where(
                job_ledger.c.job == key.job
            )
        ).one()

    whole = by_name(compared(store, project_id, JobSet(jobs=("none",)), JobSet()))["ett_ratio"]
    later = JobSet(from_us=NOON + 2 * HOUR, to_us=NOON + 3 * HOUR)
    second = by_name(compared(store, project_id, JobSet(jobs=("none",)), later))["ett_ratio"]

    assert whole.other.value == pytest.approx(ratio.effective_us / ratio.e2e_us, abs=1e-12)
    assert whole.other.value == pytest.approx(180 / 182, abs=1e-12)
    assert second.other.value == pytest.approx(60 / 62, abs=1e-12)


def test_labels_that_differ_are_named_but_for_those_of_one_job_each(
    store: Store, project_id: int
) -> None:
    for place in range(3):
        for of in ("1", "2"):
            labels = {"driver": f"55{of}", "run": f"{of}-{place}", "site": "north"}
            job = [*run(place, of, 5), event(JobFacts, NOON, labels={**labels, "model": "x"})]
            store_job(store, project_id, f"{of}-{place}", job)

    unlike = compared(store, project_id, version("1"), version("2")).unlike

    assert Unlike("driver", "551", "552", 1.0) in unlike
    assert {each.dimension for each in unlike} == {"code_version", "hardware", "driver"}


def test_few_values_show_nothing_and_say_so(store: Store, project_id: int) -> None:
    for place in range(3):
        store_job(store, project_id, f"old-{place}", run(place, "1", 5))
        store_job(store, project_id, f"new-{place}", run(place, "2", 50))

    compiling = by_name(compared(store, project_id, version("1"), version("2")))["pt2_compile"]

    assert (compiling.outcome, compiling.smallest) == (Difference.TOO_FEW, None)
    assert compiling.worse_by == pytest.approx(10, abs=0.1)


def test_a_slower_launcher_between_two_rounds_of_mlperf_is_shown(
    store: Store, project_id: int
) -> None:
    systems = [RUNS / f"{round_}__Dell__XE9680x8H200-SXM-141GB__stable_diffusion"
               for round_ in ("v4.1", "v5.0")]  # fmt: skip
    if not all(path.is_dir() for path in systems):
        pytest.skip(f"the MLPerf logs are not there: {RUNS} (set ETT_CORPUS)")
    for folder in systems:
        jobs: dict[str, list[Event]] = {}
        for wire_event in imported(folder)[0]:
            jobs.setdefault(wire_event["job"], []).append(read_event(wire_event))
        for name, events in jobs.items():
            deliver(store, JobKey(project_id, name), events)
            refreshed(store, JobKey(project_id, name), LATER)

    comparison = compared(
        store,
        project_id,
        JobSet(jobs=("stable_diffusion-1x*",)),
        JobSet(jobs=("stable_diffusion-XE*",)),
    )
    figures = by_name(comparison)

    launcher, start = figures["launcher_init"], figures["attempt_start"]
    assert (launcher.outcome, start.outcome) == (Difference.WORSE, Difference.WORSE)
    assert launcher.base.value == pytest.approx(105.8e6, abs=5e4)
    assert launcher.other.value == pytest.approx(191.3e6, abs=5e4)
    assert (launcher.base.n, launcher.other.n) == (10, 10)
    assert next(iter(comparison.start_shares)) == "launcher_init"
    assert comparison.start_shares["launcher_init"] > 1
    assert figures["time_to_start"].other.n == 2
    assert figures["hardware_setup"].outcome is Difference.TOO_FEW


@pytest.mark.parametrize(("failed", "hours"), [((3, 12), (100.0, 90.0)), ((0, 5), (50.0, 400.0))])
def test_failure_rates_are_compared_as_poisson_rates(
    failed: tuple[int, int], hours: tuple[float, float]
) -> None:
    figures = [SetFigures(failures=n, gpu_hours=h) for n, h in zip(failed, hours, strict=True)]
    ranked = by_name(compare_figures(*figures))["failures_per_gpu_hour"].ranked
    exact = binomtest(failed[1], sum(failed), hours[1] / sum(hours))
    interval = exact.proportion_ci(0.95, "exact")

    assert ranked is not None
    scale = hours[0] / hours[1]
    assert ranked.low == pytest.approx(scale * interval.low / (1 - interval.low))
    if failed[0]:
        assert ranked.high == pytest.approx(scale * interval.high / (1 - interval.high))
        assert ranked.ratio == pytest.approx(failed[1] / hours[1] / (failed[0] / hours[0]))
    assert exact.pvalue <= ranked.p <= min(1, 2.5 * exact.pvalue)


US = st.lists(st.integers(1, 10**10), max_size=12)


@settings(max_examples=50, deadline=None)
@given(US, US)
def test_the_other_way_round_says_the_opposite(ours: list[int], theirs: list[int]) -> None:
    base, other = SetFigures(durations_us={"x": ours}), SetFigures(durations_us={"x": theirs})
    there, back = (by_name(compare_figures(*pair)) for pair in ((base, other), (other, base)))
    opposite = {Difference.WORSE: Difference.BETTER, Difference.BETTER: Difference.WORSE}

    outcome = there["x"].outcome
    assert back["x"].outcome is opposite.get(outcome, outcome)
    assert there["x"].p == pytest.approx(back["x"].p)
