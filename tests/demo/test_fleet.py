"""The ledgers of the fleet have the published figures that it is calibrated on."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from math import sqrt
from statistics import fmean, median

import pytest

from ett_service.core.words import FAILURES, Category, Origin, Outcome
from ett_service.demo import fleet
from ett_service.demo.calendar import SECOND, day_of, is_month_end
from ett_service.demo.fleet import CLUSTERS
from ett_service.fleet.economy import PEAK_RATES
from tests.demo.conftest import Judged, instant, node_days, spans

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("fleet of sixty days")]

LARGE = 128


def weighted(judged: Judged) -> Mapping[Category, int]:
    """Sum accelerator time by category."""
    spent: Counter[Category] = Counter()
    for lived in judged.lived.values():
        for share in lived.ledger.shares:
            spent[share.category] += share.weighted_us or 0
    return spent


def test_the_table_of_interruptions_sums_to_what_it_prints() -> None:
    assert fleet.LLAMA3_INTERRUPTIONS == 419
    assert pytest.approx(3.789, abs=5e-4) == fleet.LLAMA3_RATE
    assert pytest.approx(1825.58) == fleet.PT2_TOTAL_SECONDS


def test_peak_rates_are_those_of_the_utilisation() -> None:
    sheets = {(rate.hardware, rate.precision): rate.teraflops for rate in PEAK_RATES}
    assert {key: rate / 1e12 for key, rate in fleet.PEAK_FLOPS.items()} == {
        key: sheets[key] for key in fleet.PEAK_FLOPS
    }


def test_the_fleet_trains_about_nine_tenths_of_its_time(judged: Judged) -> None:
    spent = weighted(judged)
    low, high = fleet.FLEET_RATIO_BOUNDS
    assert low < spent[Category.EFFECTIVE_TRAINING] / sum(spent.values()) < high


def test_machines_fail_at_the_published_rates(judged: Judged) -> None:
    outage = judged.effect("storage_outage")
    days: dict[str, float] = defaultdict(float)
    failures: Counter[str] = Counter()
    for job, attempt in judged.attempts():
        if job.gpus > LARGE:
            days[job.model.cluster] += node_days(job, attempt)
            in_outage = outage["from"] <= attempt.ended_at < outage["to"]
            failures[job.model.cluster] += attempt.origin is Origin.INFRA and not in_outage
    for cluster in CLUSTERS.values():
        expected = cluster.rate * days[cluster.name] / 1000
        assert abs(failures[cluster.name] - expected) < 3 * sqrt(expected), cluster


def test_what_breaks_is_spread_as_published(judged: Judged) -> None:
    rows = judged.fleet.truth["interruptions"]
    drawn = sum(rows.values())
    assert drawn > 200
    for row, count in fleet.LLAMA3_UNEXPECTED.items():
        expected = drawn * count / fleet.LLAMA3_INTERRUPTIONS
        # An attempt whose node fails may be lost instead, which has no cause.
        assert abs(rows.get(row, 0) - expected) < 3.5 * sqrt(expected) + 1, row


def test_a_cold_compile_is_spread_over_its_stages_as_published(judged: Judged) -> None:
    slow = judged.effect("slow_compile")
    spent: Counter[str] = Counter()
    for story in judged.fleet.stories:
        for event in story.events:
            if (
                event["type"] == "span"
                and event.get("attributes") == {"compile_cache": "cold"}
                and instant(event["at"]) < slow["from"]
            ):
                within = instant(event["start"]), instant(event["at"])
                spent["whole"] += within[1] - within[0]
                for stage in (*fleet.PT2_SECONDS, "async_compile_wait"):
                    spent[stage] += sum(
                        length
                        for begin, length in spans(story, "pt2_compile", stage)
                        if within[0] <= begin < within[1]
                    )
    for stage, seconds in fleet.PT2_SECONDS.items():
        share = seconds / fleet.PT2_TOTAL_SECONDS
        assert spent[stage] / spent["whole"] == pytest.approx(share, rel=0.002), stage
    waited = fleet.PT2_ASYNC_WAIT_SECONDS / fleet.PT2_SECONDS["inductor"]
    assert spent["async_compile_wait"] / spent["inductor"] == pytest.approx(waited, rel=0.002)


def test_a_shared_cache_saves_what_is_published(judged: Judged) -> None:
    lengths: dict[tuple[str, str], list[int]] = defaultdict(list)
    slow = judged.effect("slow_compile")
    for story in judged.fleet.stories:
        for event in story.events:
            cache = event.get("attributes", {}).get("compile_cache")
            if (
                cache
                and event["type"] == "span"
                and story.job.model.name not in slow["where"]["model"]
            ):
                length = instant(event["at"]) - instant(event["start"])
                lengths[story.job.model.name, cache].append(length)
    models = {model for model, _ in lengths}
    saved = [
        1 - median(lengths[model, "warm"]) / median(lengths[model, "cold"]) for model in models
    ]
    assert fmean(saved) == pytest.approx(fleet.MEGACACHE_SAVES, abs=0.03)


def test_attempts_end_about_as_published(judged: Judged) -> None:
    outcomes = Counter(attempt.outcome for _, attempt in judged.attempts())
    shares = {outcome: count / outcomes.total() for outcome, count in outcomes.items()}
    assert shares[Outcome.PREEMPTED] == pytest.approx(fleet.RSC_PREEMPTED, abs=0.03)
    assert shares[Outcome.COMPLETED] == pytest.approx(0.60, abs=0.06)
    assert shares[Outcome.FAILED] == pytest.approx(0.24, abs=0.06)
    assert outcomes[Outcome.LOST] >= 3
    assert outcomes[Outcome.CANCELLED] >= 10


def test_a_save_of_a_large_model_blocks_as_published(judged: Judged) -> None:
    blocked = [
        length
        for lived in judged.lived.values()
        if lived.job.kind == "pretrain"
        and lived.job.gpus >= 512
        and lived.job.model.cluster != "birch"
        for _, length in spans(lived.story, "checkpoint_blocking")
    ]
    expected = fleet.CHECKPOINT_BLOCKING_SECONDS * SECOND
    assert median(blocked) == pytest.approx(expected, rel=0.05)


def test_recoveries_have_a_heavy_tail(judged: Judged) -> None:
    lengths = [
        recovery.us
        for lived in judged.lived.values()
        for recovery in lived.ledger.recoveries
        if recovery.resumed is not None and recovery.outcome in FAILURES
    ]
    assert len(lengths) > 500
    assert fmean(lengths) > 1.4 * median(lengths)


def test_models_reach_the_published_utilisation(judged: Judged) -> None:
    low, high = fleet.MFU_BOUNDS
    reporting = 0
    for lived in judged.lived.values():
        job, last = lived.job, lived.ledger.produced
        peak = fleet.PEAK_FLOPS[job.model.hardware, job.model.precision] * job.gpus / 1e12
        seconds = (
            sum(
                share.us
                for share in lived.ledger.shares
                if share.category is Category.EFFECTIVE_TRAINING
            )
            / SECOND
        )
        if last.teraflops and job.kind == "pretrain" and "flops" in job.model.reports:
            reporting += 1
            assert low * 0.97 < last.teraflops / seconds / peak < high * 1.03, job.name
    assert reporting > 10


def test_jobs_wait_longer_when_more_is_to_do(judged: Judged) -> None:
    waits: dict[str, list[int]] = defaultdict(list)
    for lived in judged.lived.values():
        day = day_of(lived.job.submitted_at)
        kind = "month end" if is_month_end(day) else "weekend" if day.weekday() > 4 else "week"
        waits[kind].append(lived.ledger.queue_wait_us)
    assert median(waits["weekend"]) < 0.6 * median(waits["week"])
    assert median(waits["month end"]) > 1.3 * median(waits["week"])
