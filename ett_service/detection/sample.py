"""What the detector looks at: values with their day and cohort, in columns.

Whoever has values, the store or a simulation, builds these; the detector asks for nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ett_service.core.interval import DAY_US
from ett_service.core.regression import Cohort, Subject

Ints: TypeAlias = NDArray[np.int64]
SmallInts: TypeAlias = NDArray[np.int32]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Durations:
    """Durations of one subject, one a row.

    ``cohort`` are places in ``Sample.cohorts``. Rows of one ``stratum`` are alike in what is known
    before they begin (hardware, size, kind, first start or restart): only those are compared.
    """

    us: Ints
    day: SmallInts  #: 24 hours each, from ``Sample.first_day_us``; by when the value was known
    cohort: SmallInts
    stratum: SmallInts
    unit: SmallInts  #: the job: values of one are not independent
    gpus: Floats  #: accelerators held meanwhile; NaN while unknown


@dataclass(frozen=True, slots=True)
class Rates:
    """Events of one subject and what they are counted over: a row a cohort and day."""

    events: Ints
    exposure: Floats  #: GPU-hours
    day: SmallInts
    cohort: SmallInts


@dataclass(frozen=True, slots=True)
class Shares:
    """Time by cohort and day: what ETT% is made of, times accelerators (``by_category``: us)."""

    day: SmallInts
    cohort: SmallInts
    by_category: Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class Sample:
    """Everything that one run looks at; days are blocks of 24 hours that end with ``as_of_us``."""

    as_of_us: int
    days: int
    cohorts: Sequence[Cohort]
    durations: Mapping[Subject, Durations]
    rates: Mapping[Subject, Rates]
    shares: Shares | None = None
    left_out: frozenset[tuple[int, int]] = frozenset()
    """Pairs of a day and a cohort (-1: all) in which maintenance or an exclusion lay."""

    @property
    def first_day_us(self) -> int:
        """When the first of its days begins."""
        return self.as_of_us - self.days * DAY_US
