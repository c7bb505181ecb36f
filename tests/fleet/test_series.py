"""Which jobs come first, by what."""

from fractions import Fraction
from typing import Any

import pytest

from ett_service.core.intervals import DAY_US
from ett_service.core.words import Category
from ett_service.fleet.economy import Economy, Price
from ett_service.fleet.scope import BadQuestion, Scope, Window
from ett_service.fleet.series import top_jobs
from tests.builders.clock import HOUR, NOON
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import wire_event, wire_span
from tests.builders.servers.application import Service

WINDOW = Window(NOON, NOON + 5 * HOUR)
ECONOMY = Economy(prices=(Price("H100", 0, Fraction(10)), Price("A100", 0, Fraction(1))))


def _job(job: str, gpus: int, compiling: float, training: float, **facts: Any) -> list[Any]:
    """Compile and train, in minutes after noon."""
    return [
        wire_event("job", 0, job=job, gpus=gpus, **facts),
        wire_span("pt2_compile", 0, compiling, job=job),
        wire_span("train_loop", compiling, compiling + training, job=job),
        wire_event("attempt_ended", compiling + training, job=job, outcome="completed"),
    ]


@pytest.fixture
def fleet(service: Service) -> Service:
    service.clock.now_us += 5 * HOUR
    service.ingest(_job("small", 1, 90, 10, hardware="H100"))
    service.ingest(_job("large", 64, 5, 60, hardware="A100"))
    service.ingest(_job("costly", 16, 4, 60, hardware="h100", team="red"))
    service.ingest(_job("free", 2, 1, 60, hardware="X1"))
    return service


def _names(fleet: Service, by: str, limit: int = 10, **scope: Any) -> list[str]:
    with fleet.store.reading() as conn:
        jobs = top_jobs(conn, Scope(**scope), WINDOW, ECONOMY, by, limit)
    return [job.facts.job for job in jobs]


def test_jobs_are_sorted_by_what_was_asked_for(fleet: Service) -> None:
    assert _names(fleet, "lost") == ["large", "small", "costly", "free"]
    assert _names(fleet, "category:pt2_compile") == ["large", "small", "costly", "free"]
    assert _names(fleet, "category:effective_training") == ["large", "costly", "free", "small"]
    assert _names(fleet, "category:evaluation") == []
    assert _names(fleet, "lost", limit=2) == ["large", "small"]
    assert _names(fleet, "lost", where={"team": frozenset({"red"})}) == ["costly"]


def test_jobs_are_sorted_by_what_they_cost_and_unpriced_ones_are_left_out(fleet: Service) -> None:
    assert _names(fleet, "cost") == ["costly", "large", "small"]
    with fleet.store.reading() as conn:
        first, *_ = top_jobs(conn, Scope(), WINDOW, ECONOMY, "cost", 1)
    assert first.cost.total == pytest.approx(10 * 16 * 64 / 60)


def test_the_price_of_the_day_decides_which_job_costs_more(fleet: Service) -> None:
    midnight = NOON - DAY_US // 2
    prices = (
        Price("H100", midnight, Fraction(10)),
        Price("A100", midnight, Fraction(1)),
        Price("A100", midnight + DAY_US, Fraction(1000)),
    )
    fleet.clock.now_us += DAY_US
    next_day = [
        wire_event("job", 1440, job="late", gpus=1, hardware="A100"),
        wire_span("train_loop", 1440, 1500, job="late"),
        wire_event("attempt_ended", 1500, job="late", outcome="completed"),
    ]
    fleet.ingest(next_day)
    window = Window(midnight - DAY_US, midnight + 3 * DAY_US)
    with fleet.store.reading() as conn:
        jobs = top_jobs(conn, Scope(), window, Economy(prices=prices), "cost", 3)
    assert [job.facts.job for job in jobs] == ["late", "costly", "large"]
    costs = [job.cost.total for job in jobs]
    assert costs == pytest.approx([1000.0, 10 * 16 * 64 / 60, 64 * 65 / 60])


@ON_ONE_ENGINE
@pytest.mark.parametrize("by", ["size", "category:", "category:sleep", "Lost", ""])
def test_what_jobs_cannot_be_sorted_by_is_refused(service: Service, by: str) -> None:
    with pytest.raises(BadQuestion) as refused:
        _names(service, by)
    assert refused.value.parameter == "by"
    assert f"category:{Category.EVALUATION}" in refused.value.allowed
