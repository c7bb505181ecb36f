"""How people's verdicts move the smallest change that counts: by metric, and within bounds."""

import math
from typing import NamedTuple

from ett_service.core.intervals import DAY_US

LEAST, MOST = 0.75, 2.0
"""The bounds of a factor."""

SINCE_US = 180 * DAY_US
"""Older verdicts do not count."""

_PRIOR = 4  #: verdicts that an equal number of real and noise is worth


class Verdicts(NamedTuple):
    """What people called the findings of one metric."""

    real: int
    noise: int

    @property
    def factor(self) -> float:
        """The factor of what the smallest change exceeds 1 by: over 1 after much noise.

        1 without verdicts, and where there is as much noise as not.
        """
        balance = (self.noise - self.real) / (self.noise + self.real + _PRIOR)
        return min(MOST, max(LEAST, math.exp2(balance)))
