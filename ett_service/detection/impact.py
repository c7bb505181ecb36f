"""What a finding costs beside accelerators' hours: points of ETT%, money, and how severe it is."""

from dataclasses import replace
from enum import StrEnum, auto

import numpy as np

from ett_service.analysis.economy import Economy
from ett_service.core.interval import DAY_US, WEEK_US
from ett_service.core.regression import Cohort, Finding, Impact
from ett_service.detection.observed import Observed
from ett_service.detection.sample import Floats

MEDIUM, HIGH = 0.005, 0.02
"""Parts of the project's GPU-hours from which on a finding is so severe."""


class Severity(StrEnum):
    """How much a finding costs, as a part of the project's GPU-hours a week."""

    LOW = auto()  #: under 0.5 %, or unknown
    MEDIUM = auto()  #: under 2 %
    HIGH = auto()


class Weighing:
    """Weighs the findings of one run by what was held in its recent days."""

    def __init__(
        self, observed: Observed, as_of_us: int, recent_days: int, economy: Economy
    ) -> None:
        self._observed = observed
        self._economy = economy
        self._from_us = as_of_us - recent_days * DAY_US
        self._weeks = recent_days * DAY_US / WEEK_US
        self._hours = observed.gpu_hours(self._from_us, recent_days)

    def impact(self, finding: Finding) -> Impact:
        """Return the finding's impact with what follows from its accelerators' hours.

        Points are of the ETT% of its cohort: the hours that are lost by all that it held. Money
        is by the price of each hardware and day, and None where any of it has none.
        """
        lost = finding.impact.gpu_hours_per_week
        hours = self._hours_of(finding.series.cohort)
        held = float(hours.sum()) / self._weeks
        if lost is None or not held:
            return finding.impact
        price = self._price(hours)
        return replace(
            finding.impact,
            ett_points=-100 * lost / held,
            cost_per_week=None if price is None else lost * price,
            currency="" if price is None else self._economy.currency,
        )

    def severity(self, impact: Impact) -> Severity:
        """Return how severe it is among all that the project does."""
        whole = float(self._hours.sum()) / self._weeks
        if impact.gpu_hours_per_week is None or not whole:
            return Severity.LOW
        part = abs(impact.gpu_hours_per_week) / whole
        if part >= HIGH:
            return Severity.HIGH
        return Severity.MEDIUM if part >= MEDIUM else Severity.LOW

    def _hours_of(self, wanted: Cohort) -> Floats:
        """Return hours by day and hardware of what a cohort holds."""
        inside = [set(wanted) <= set(one) for one in self._observed.cohorts]
        summed: Floats = self._hours[np.array(inside, dtype=np.bool_)].sum(axis=0)
        return summed

    def _price(self, hours: Floats) -> float | None:
        """Return what an hour costs in the mean."""
        total = 0.0
        for day, place in np.argwhere(hours > 0).tolist():
            at_us = self._from_us + day * DAY_US
            price = self._economy.price(self._observed.hardware[place], at_us)
            if price is None:
                return None
            total += float(price) * float(hours[day, place])
        return total / float(hours.sum())
