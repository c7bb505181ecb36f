"""What a search for regressions goes by: made from the settings once, by entry points."""

from dataclasses import dataclass, field

from ett_service.analysis.economy import Economy
from ett_service.detection.options import Options

MOST_COHORTS = 1_000
"""So many, those with most attempts, are looked at one by one; the others are put together."""

MOST_STAGES = 40
"""Stages are words of users: only so many, those of most attempts, are looked at."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is told apart, how sure to be, and what an accelerator's hour costs.

    *cohort* and *strata* are dimensions of ``core.cohort.DIMENSIONS``. Whether a start is the first
    or a restart is always told apart.
    """

    cohort: tuple[str, ...] = ("cluster", "model")
    strata: tuple[str, ...] = ("hardware", "kind", "size")
    options: Options = field(default_factory=Options)
    economy: Economy = field(default_factory=Economy)
