"""Draws that depend on a seed and a name only, so that no draw moves another's."""

import math
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draws:
    """A stream of draws of its own for whatever *name* names."""

    def __init__(self, seed: int, name: str) -> None:
        self._random = random.Random(f"{seed}/{name}")  # text: the same in every process

    def about(self, median_us: float, spread: float) -> int:
        """Draw a log-normal duration, in microseconds; *spread* is that of its logarithm."""
        return max(1, round(median_us * math.exp(self._random.gauss(0.0, spread))))

    def wait(self, mean_us: float) -> int:
        """Draw an exponential duration, in microseconds."""
        return max(1, round(self._random.expovariate(1.0) * mean_us))

    def chance(self, probability: float) -> bool:
        """Tell whether something of this probability happens."""
        return self._random.random() < probability

    def misses(self, probability: float) -> int:
        """Draw how often something of this probability does not happen before it does."""
        return int(math.log(1.0 - self._random.random()) / math.log(1.0 - probability))

    def share(self) -> float:
        """Draw a number from 0 to 1."""
        return self._random.random()

    def pick(self, things: Sequence[T], weights: Sequence[float] | None = None) -> T:
        """Draw one of *things*, each as likely as its weight says."""
        return self._random.choices(things, weights)[0]

    def count(self, mean: float) -> int:
        """Draw how many of many independent things happen, where *mean* do (Poisson)."""
        number, left = 0, self._random.expovariate(1.0)
        while left < mean:
            number += 1
            left += self._random.expovariate(1.0)
        return number
