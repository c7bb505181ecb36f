"""What a finding costs: points of its cohort's ETT%, money by hardware and day, severity."""

from fractions import Fraction

import pytest

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Impact, Severity
from ett_service.detection.run import Impacts
from ett_service.fleet.economy import Economy, Price
from tests.builders.regressions.findings import finding
from tests.detection.observations import TO_US, observed_project

COHORTS = ((("cluster", "a"), ("model", "m")), (("cluster", "b"), ("model", "n")))
#: 6 attempts a day of 2 hours on 8 accelerators
A_WEEK = 7 * 6 * 2 * 8.0


def _impacts(*prices: Price) -> Impacts:
    observed = observed_project({}, cohorts=COHORTS, hardware=("A100", "H100"))
    return Impacts(observed, TO_US, 14, Economy(prices, currency="EUR"))


def _price(hardware: str, per_hour: int, from_us: int = 0) -> Price:
    return Price(hardware, from_us, Fraction(per_hour))


def test_points_are_hours_lost_of_those_that_the_cohort_held() -> None:
    impacts = _impacts()

    whole = impacts.impact(finding(hours=A_WEEK / 10))
    assert whole.ett_points == pytest.approx(-10)
    half = impacts.impact(finding(hours=A_WEEK / 10, cohort=(("cluster", "a"),)))
    assert half.ett_points == pytest.approx(-20)
    gained = impacts.impact(finding(hours=-A_WEEK / 10))
    assert gained.ett_points == pytest.approx(10)


def test_money_is_by_the_price_of_each_hardware_and_day() -> None:
    steady = _impacts(_price("a100", 2), _price("H100", 4)).impact(finding(hours=10))
    assert steady.cost_per_week == pytest.approx(30)
    assert steady.currency == "EUR"
    dearer = _price("H100", 8, TO_US - 8 * DAY_US)
    risen = _impacts(_price("A100", 2), _price("H100", 4), dearer).impact(finding(hours=10))
    assert risen.cost_per_week == pytest.approx(10 * (2 + (6 * 4 + 8 * 8) / 14) / 2)


def test_without_a_price_for_all_of_it_there_is_no_cost() -> None:
    for prices in (
        (),
        (_price("A100", 2),),
        (_price("A100", 2), _price("H100", 4, TO_US - DAY_US)),
    ):
        impact = _impacts(*prices).impact(finding(hours=10))
        assert (impact.cost_per_week, impact.currency) == (None, "")
        assert impact.gpu_hours_per_week == 10


def test_what_is_unknown_stays_unknown() -> None:
    impacts = _impacts(_price("A100", 2), _price("H100", 4))
    assert impacts.impact(finding(hours=None)) == Impact(None)
    nobody = impacts.impact(finding(hours=5, cohort=(("cluster", "gone"),)))
    assert nobody == Impact(5)


@pytest.mark.parametrize(
    ("part", "severity"),
    [
        (0.0049, Severity.LOW),
        (0.0051, Severity.MEDIUM),
        (-0.0051, Severity.MEDIUM),
        (0.0199, Severity.MEDIUM),
        (0.0201, Severity.HIGH),
        (None, Severity.LOW),
    ],
)
def test_severity_is_by_the_part_of_the_project_s_hours(
    part: float | None, severity: Severity
) -> None:
    hours = None if part is None else part * A_WEEK
    assert _impacts().severity(Impact(hours)) is severity
