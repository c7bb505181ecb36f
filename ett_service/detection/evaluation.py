"""One run of the detector over a project: what is found, what it costs, what it goes with."""

from dataclasses import dataclass
from enum import StrEnum, auto

from ett_service.core.regression import Attribution, Finding
from ett_service.detection.options import Power


class Severity(StrEnum):
    """How much a finding costs, as a part of the project's GPU-hours a week."""

    LOW = auto()  #: under 1 %, or unknown
    MEDIUM = auto()
    HIGH = auto()  #: 5 % and more


@dataclass(frozen=True, slots=True)
class Found:
    """A finding with its impact, and what it is associated with."""

    finding: Finding
    severity: Severity
    attribution: Attribution


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What one run says of a project."""

    found: tuple[Found, ...]
    power: tuple[Power, ...]
    series: int  #: how many were looked at

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is found, as the states take it."""
        return tuple(one.finding for one in self.found)
