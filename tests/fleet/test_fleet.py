"""Money, targets and productivity of groups, which depend on more than they are grouped by."""

from fractions import Fraction
from typing import Any

import pytest

from ett_service.core.intervals import DAY_US
from ett_service.core.words import Category
from ett_service.fleet.economy import Economy, PeakRate, Price, Target
from ett_service.fleet.scope import Scope, Window
from ett_service.fleet.summary import Group, groups, summary
from tests.builders.clock import HOUR, MINUTE, NOON
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import wire_event, wire_span
from tests.builders.servers.application import Service

MIDNIGHT = NOON + DAY_US // 2
WINDOW = Window(NOON, NOON + DAY_US)
ECONOMY = Economy(
    prices=(
        Price("H100", 0, Fraction(2)),
        Price("h100", MIDNIGHT, Fraction(3)),
        Price("A100", 0, Fraction(1)),
    ),
    peak_rates=(PeakRate("H100", "bf16", 100.0), PeakRate("A100", "bf16", 50.0)),
    targets=(Target({"team": "red"}, 0.8), Target({}, 0.9)),
)


def _job(job: str, start: float, hours: float, **facts: Any) -> list[dict[str, Any]]:
    """Train from a minute after noon for so many hours, saying so at either end."""
    end = start + 60 * hours
    members = {"gpus": 2, "precision": "bf16", **facts}
    rate = members.pop("teraflops_per_second", None)
    amount = {} if rate is None else {"flops": round(rate * hours * 3600e12)}
    return [
        wire_event("job", start, job=job, **members),
        wire_event("phase_started", start, job=job, phase="train_loop"),
        wire_event("progress", start, job=job, step=0, **dict.fromkeys(amount, 0)),
        wire_event("progress", end, job=job, step=1, **amount),
        wire_event("phase_ended", end, job=job, phase="train_loop"),
        wire_event("attempt_ended", end, job=job, outcome="completed"),
    ]


@pytest.fixture
def fleet(service: Service) -> Service:
    """Three teams: across a midnight, on two kinds of accelerators, and on an unpriced one."""
    service.clock.now_us = WINDOW.to_us
    service.ingest(_job("r", 600, 4, team="red", hardware="H100", teraflops_per_second=80))
    service.ingest(_job("b1", 60, 1, team="blue", hardware="H100", teraflops_per_second=40))
    service.ingest(_job("b2", 60, 3, team="blue", hardware="A100", teraflops_per_second=40))
    service.ingest(_job("g", 60, 1, team="green", hardware="H100"))
    service.ingest(
        [
            wire_span("evaluation", 120, 180, job="g2"),
            wire_event("job", 120, job="g2", gpus=1, team="green", hardware="B999"),
        ]
    )
    return service


def _groups(
    fleet: Service, window: Window = WINDOW, economy: Economy = ECONOMY
) -> dict[str, Group]:
    with fleet.store.reading() as conn:
        answer = summary(conn, Scope(group_by=("team",)), window, economy)
    return {group.labels["team"]: group for group in answer.groups}


def test_each_hour_costs_what_its_hardware_did_on_the_day(fleet: Service) -> None:
    teams = _groups(fleet)
    # Two hours at 2 and two hours at 3, on two accelerators.
    assert teams["red"].cost.total == 2 * (2 * 2 + 2 * 3)
    assert teams["blue"].cost.total == 2 * (1 * 2 + 3 * 1)
    assert teams["blue"].cost.by_category[Category.EFFECTIVE_TRAINING] == 10.0


@ON_ONE_ENGINE
def test_a_group_with_any_unpriced_time_has_no_cost_but_says_how_much_time(fleet: Service) -> None:
    green = _groups(fleet)["green"]
    assert green.cost.total is None
    assert green.cost.unpriced_gpu_us == HOUR
    assert green.cost.by_category[Category.EVALUATION] is None
    assert green.cost.by_category[Category.EFFECTIVE_TRAINING] == 4.0
    with fleet.store.reading() as conn:
        assert summary(conn, Scope(), WINDOW, ECONOMY).total.cost.total is None


def test_cost_adds_up_over_steps_whatever_the_step(fleet: Service) -> None:
    scope = Scope(where={"team": frozenset({"red", "blue"})})
    with fleet.store.reading() as conn:
        for step in (HOUR, DAY_US, 7 * DAY_US):
            per_step = groups(conn, scope, WINDOW, ECONOMY, step=step).values()
            assert sum(group.cost.total or 0.0 for group in per_step) == pytest.approx(30.0)


def test_mfu_divides_by_what_each_kind_of_accelerator_could_have_done(fleet: Service) -> None:
    teams = _groups(fleet)
    assert teams["red"].productivity.mfu_ratio == pytest.approx(80 / (2 * 100))
    attainable = 2 * 1 * 100 + 2 * 3 * 50
    assert teams["blue"].productivity.mfu_ratio == pytest.approx((40 + 120) / attainable)
    assert teams["green"].productivity.mfu_ratio is None


@ON_ONE_ENGINE
def test_a_group_aims_at_the_closest_target(fleet: Service) -> None:
    teams = _groups(fleet)
    assert (teams["red"].target, teams["blue"].target) == (0.8, 0.9)
    with fleet.store.reading() as conn:
        red = summary(conn, Scope(where={"team": frozenset({"red"})}), WINDOW, ECONOMY)
        both = Scope(where={"team": frozenset({"red", "blue"})})
        assert red.total.target == 0.8
        assert summary(conn, both, WINDOW, ECONOMY).total.target == 0.9
    assert _groups(fleet, economy=Economy())["red"].target is None


@ON_ONE_ENGINE
def test_the_distance_to_a_target_is_reported_where_there_is_time(fleet: Service) -> None:
    assert fleet.get("/v1/fleet/summary")["total"]["target"] is None
    red = _groups(fleet)["red"]
    assert red.target is not None
    assert red.totals.ett_ratio - red.target == pytest.approx(0.2)


@ON_ONE_ENGINE
def test_time_between_failures_counts_time_in_which_a_job_runs(fleet: Service) -> None:
    fleet.ingest(
        [
            wire_event("job", 0, job="f", gpus=1, team="black"),
            wire_span("scheduling", 0, 10, job="f"),
            wire_span("train_loop", 10, 30, job="f"),
            wire_event("attempt_ended", 30, job="f", outcome="failed"),
            wire_span("train_loop", 50, 60, job="f", attempt=1),
            wire_event("attempt_ended", 60, job="f", attempt=1, outcome="completed"),
        ]
    )
    between = _groups(fleet)["black"].between_failures
    assert (between.failures, between.us) == (1, 30 * MINUTE)
