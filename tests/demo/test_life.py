"""The ledger of a job agrees with its generated life."""

from collections import Counter

import pytest

from ett_service.core.words import Category, JobState, Outcome, Phase
from ett_service.demo.calendar import HOUR, MINUTE
from tests.demo.conftest import END_US, Judged, decoded

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("fleet of sixty days")]


def test_every_attempt_and_every_cause_is_found_again(judged: Judged) -> None:
    truth = judged.fleet.truth
    causes = Counter(str(attempt.cause) for _, attempt in judged.attempts() if attempt.cause)
    assert causes == truth["causes"]
    assert len([*judged.attempts()]) == truth["counts"]["attempts"]


def test_no_cause_is_reported_and_all_are_inferred_from_evidence(judged: Judged) -> None:
    for _, attempt in judged.attempts():
        if attempt.outcome is Outcome.FAILED:
            assert attempt.evidence is not None
            assert attempt.evidence.rule not in ("reported", "none")


def test_nothing_in_the_fleet_contradicts_itself(judged: Judged) -> None:
    whole = unattributed = 0
    for lived in judged.lived.values():
        quality = lived.ledger.quality
        assert quality.ends_without_begin == quality.clamped_spans == quality.clock_flags == 0
        whole += lived.ledger.e2e_us
        unattributed += quality.unattributed_us
    assert unattributed / whole < 0.001


def test_few_jobs_report_no_accelerators(judged: Judged) -> None:
    unknown = [lived for lived in judged.lived.values() if lived.ledger.quality.gpus_unknown]
    assert 0.005 < len(unknown) / len(judged.lived) < 0.03
    assert all(not lived.job.reports_gpus for lived in unknown)


def test_every_category_but_unattributed_time_has_its_share(judged: Judged) -> None:
    spent: Counter[Category] = Counter()
    for lived in judged.lived.values():
        for share in lived.ledger.shares:
            spent[share.category] += share.us
    for category in set(Category) - {Category.UNATTRIBUTED}:
        assert spent[category] / spent.total() > 0.0002, category


def test_jobs_that_go_first_take_the_place_of_others(judged: Judged) -> None:
    by = Counter[str]()
    for job, attempt in judged.attempts():
        if attempt.outcome is Outcome.PREEMPTED:
            assert attempt.preempted_by is not None
            taker = judged.lived[attempt.preempted_by]
            assert taker.job.goes_first
            assert not job.goes_first
            assert taker.job.model.cluster == job.model.cluster
            assert attempt.ended_at - attempt.started_at >= 2 * HOUR
            (begun,) = [
                later for later in taker.ledger.attempts if later.started_at == attempt.ended_at
            ]
            by["second" if begun.number and taker.job.kind == "pretrain" else "first"] += 1
    assert by["first"] > 20
    assert by["second"] > 100


def test_a_job_goes_on_after_its_last_durable_checkpoint(judged: Judged) -> None:
    resumed = 0
    for lived in judged.lived.values():
        saved = {0} | {checkpoint.step for checkpoint in lived.ledger.checkpoints}
        for event in decoded(lived.story.events) if len(lived.ledger.attempts) > 1 else []:
            if event.type == "checkpoint_restored":
                assert event.step in saved
                resumed += 1
    assert resumed > 300


def test_what_runs_at_the_end_goes_on_while_the_fleet_is_served(judged: Judged) -> None:
    alive = [lived for lived in judged.lived.values() if lived.ledger.state is JobState.RUNNING]
    assert len(alive) == judged.fleet.truth["counts"]["running"]
    for lived in alive:
        running = lived.story.running
        assert running is not None
        sign = running.sign(END_US + 10 * MINUTE)
        assert sign["type"] == ("heartbeat" if running.step is None else "progress")
        if running.step is not None:
            assert sign["step"] > running.step
            assert lived.ledger.attempts[-1].last_step in (running.step, None)
        decoded([sign])


def test_a_hang_is_separated_from_the_training_before_it(judged: Judged) -> None:
    hung = [
        (job, attempt)
        for job, attempt in judged.attempts()
        if attempt.evidence is not None and "collective" in attempt.evidence.rule
    ]
    assert hung
    for job, attempt in hung:
        events = judged.lived[job.name].story.events
        stalled = [e for e in events if e.get("phase") == Phase.STALLED.value]
        assert stalled, attempt
