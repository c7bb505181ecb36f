"""The answers that the fleet's panels are made of, and what a second counts as in them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ett_service.charts.units import duration, gpu_hours
from ett_service.pages.ask import Answer, Question
from ett_service.pages.window import View
from ett_service.report.inputs import share


@dataclass(frozen=True, slots=True)
class Weight:
    """How often a second counts: once for each accelerator of its job, or once."""

    name: str
    prefix: str  #: of members of a total: ``slowed_weighted_seconds``, ``slowed_seconds``
    whole: str  #: the member that categories sum to
    ratio: str
    categories: str
    data_wait: str
    amount: str  #: what a column of such time is called
    share: str  #: and one of its parts
    shown: Callable[[float | None], str]

    def ett_ratio(self, total: Answer) -> float | None:
        """Return ETT%; None where no time counts."""
        ratio: float | None = total[self.ratio] if total[self.whole] else None
        return ratio

    def seconds(self, total: Answer, part: str) -> float:
        """Return the seconds of a part, such as ``slowed``."""
        seconds: float = total[f"{part}_{self.prefix}seconds"]
        return seconds

    def spent(self, total: Answer, category: str) -> float:
        """Return the seconds of a category."""
        seconds: float = total[self.categories].get(category, 0.0)
        return seconds

    def share_of(self, total: Answer, category: str) -> float | None:
        """Return the share of a category; None where no time counts."""
        return share(self.spent(total, category), total[self.whole])


BY_ACCELERATORS = Weight(
    "by accelerators",
    "weighted_",
    "weighted_seconds",
    "ett_ratio",
    "weighted_categories",
    "data_wait_ratio",
    "hours times accelerators",
    "share",
    gpu_hours,
)
BY_WALL_TIME = Weight(
    "by wall time",
    "",
    "e2e_seconds",
    "ett_ratio_wall",
    "categories",
    "data_wait_ratio_wall",
    "wall time",
    "share of wall time",
    duration,
)


def weight_of(total: Answer) -> Weight:
    """Return the headline's weight, or wall time where no job reports its accelerators."""
    return BY_ACCELERATORS if total["weighted_seconds"] else BY_WALL_TIME


def change(new: float | None, old: float | None) -> float | None:
    """Return by how much a ratio changed; None where one of both is missing."""
    return None if new is None or old is None else new - old


@dataclass(frozen=True, slots=True)
class FleetAnswers:
    """The answers that panels are made of."""

    view: View
    now: Answer
    before: Answer
    change: Answer
    jobs: Answer
    regressions: Sequence[Answer]
    question: Question  #: what ``now`` answers

    @property
    def weight(self) -> Weight:
        """What a second counts as in this window."""
        return weight_of(self.now["total"])

    @property
    def lost_to(self) -> Callable[[Any], str]:
        """Where the jobs stand that lost most to a category; nowhere without accelerators."""
        return self.view.lost_to if self.weight is BY_ACCELERATORS else lambda _: ""
