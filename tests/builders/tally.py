"""What tests of faults did to the service and what became of it, summed over all of them."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

PROPERTY = "tally"
_FAULTS = ("kills", "power_cuts", "others")
_LOSSES = ("lost", "double_counted")


@dataclass
class Tally:
    """The counts of one test, whose draws follow from *seed*."""

    seed: int
    rounds: int  #: of the long form
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def draw(self) -> random.Random:
        """Draws of their own, the same again with the same seed."""
        return random.Random(self.seed)

    def share(self, share: float) -> int:
        """Return a share of the rounds of the long form."""
        return max(1, round(self.rounds * share))

    def add(
        self,
        *,
        acknowledged: int = 0,
        absorbed: int = 0,
        kills: int = 0,
        power_cuts: int = 0,
        others: int = 0,
        permutations: int = 0,
    ) -> None:
        """Count events that were acknowledged, repeats that counted once, and faults by kind."""
        self.counts.update(
            acknowledged=acknowledged,
            absorbed=absorbed,
            kills=kills,
            power_cuts=power_cuts,
            others=others,
            permutations=permutations,
        )

    def require_none(self, *, lost: int, double_counted: int) -> None:
        """Count what was lost and what counted twice, and fail if there is any."""
        self.counts.update(lost=lost, double_counted=double_counted)
        assert (lost, double_counted) == (0, 0), f"lost, double-counted; {self.seed=}"


def sentence(counts: Mapping[str, int], seed: int) -> str:
    """Say what was done and what became of it, in one line."""
    faults = sum(counts.get(name, 0) for name in _FAULTS)
    words = [
        f"acknowledged {counts.get('acknowledged', 0):,}",
        f"faults {faults:,}",
        f"kills {counts.get('kills', 0):,}",
        f"power cuts {counts.get('power_cuts', 0):,}",
        f"permutations {counts.get('permutations', 0):,}",
        f"repeats absorbed {counts.get('absorbed', 0):,}",
        *(f"{name.replace('_', '-')} {counts.get(name, 0):,}" for name in _LOSSES),
        f"seed {seed}",
    ]
    return ", ".join(words)
