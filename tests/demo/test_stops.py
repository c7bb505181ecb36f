"""What stops an attempt comes at its rate, and whoever goes first gives way to nobody."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import pytest

from ett_service.core.words import Cause, Outcome
from ett_service.demo.calendar import DAY, HOUR, MINUTE, Draws
from ett_service.demo.fleet import CLUSTERS, LLAMA3_INFRA_SHARE
from ett_service.demo.stops import Stop, Taking, Then, next_stop
from ett_service.demo.training import Job
from tests.demo.test_training import ALMANAC, BEGIN, job

MANY = 3_000
ABLATION = replace(job(), kind="ablation", goes_first=False, gpus=8)


def stops(of: Job, takings: Sequence[Taking] = (), many: int = MANY) -> list[Stop]:
    """Draw what stops attempts of a job that begin at the fleet's begin."""
    return [
        next_stop(Draws(7, f"{of.kind} {number}"), ALMANAC, takings, of, BEGIN, 0)
        for number in range(many)
    ]


def test_a_large_job_breaks_at_its_clusters_rate() -> None:
    huge = replace(job(), gpus=65_536)
    between = CLUSTERS["birch"].between_failures_us(huge.gpus) * LLAMA3_INFRA_SHARE
    waited = [stop.at - BEGIN for stop in stops(huge)]
    assert fmean(waited) == pytest.approx(between, rel=0.07)


def test_a_small_job_gives_way_after_two_hours_to_what_goes_first() -> None:
    early, late = Taking(BEGIN + HOUR, "early"), Taking(BEGIN + 3 * HOUR, "late")
    taken = [stop for stop in stops(ABLATION, [early, late]) if stop.cause is Cause.PREEMPTION]
    assert {stop.members["preempted_by"] for stop in taken} == {"late"}
    assert {(stop.at, stop.outcome, stop.then) for stop in taken} == {
        (late.at, Outcome.PREEMPTED, Then.REQUEUE)
    }
    assert 0.2 < len(taken) / MANY < 0.4
    urgent = replace(ABLATION, goes_first=True)
    assert not [s for s in stops(urgent, [early, late]) if s.cause is Cause.PREEMPTION]


def test_takings_yet_to_come_change_nothing_of_what_came_before() -> None:
    takings = [Taking(BEGIN + 3 * HOUR, "known")]
    more = [*takings, Taking(BEGIN + 8 * HOUR, "later")]
    for before, after in zip(stops(ABLATION, takings), stops(ABLATION, more), strict=True):
        assert before == after or after.at == BEGIN + 8 * HOUR


def test_nothing_outlives_its_time_limit() -> None:
    assert max(stop.at for stop in stops(ABLATION)) <= BEGIN + DAY
    assert max(stop.at for stop in stops(job())) <= BEGIN + 7 * DAY


def test_maintenance_drains_a_cluster_and_an_outage_fails_it() -> None:
    window = ALMANAC.maintenance["birch"][0]
    drained = next_stop(Draws(7, "a"), ALMANAC, [], ABLATION, window.from_us - MINUTE, 9)
    assert (drained.at, drained.outcome) == (window.from_us, Outcome.CANCELLED)
    cedar = replace(ABLATION, model=replace(ABLATION.model, cluster="cedar"))
    failed = next_stop(Draws(7, "a"), ALMANAC, [], cedar, ALMANAC.outage.from_us - MINUTE, 9)
    assert (failed.cause, failed.then) == (Cause.STORAGE, Then.REQUEUE)
    assert 0 < failed.at - ALMANAC.outage.from_us < 10 * MINUTE
