"""The detectors that are compared, by name, grain and threshold."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.detectors.alert import Alert
from benchmarks.detectors.daily import Grain, daily
from benchmarks.detectors.fleet import SimulatedFleet
from benchmarks.detectors.otava import DEFAULT_P, Otava
from benchmarks.detectors.ours import ours
from benchmarks.detectors.peers import (
    CUSUM_DECISION,
    THRESHOLD,
    by_change_points,
    by_cusum,
    by_threshold,
    pelt,
)
from benchmarks.detectors.scenario import DAYS
from ett_service.detection.options import Options

OURS = "ours"  #: told of every change, however little it costs, as the peers are
OURS_COSTLY = "ours-costly"  #: with the floor under the cost that the service comes with
PEERS = ("otava", "pelt", "cusum", "threshold")
FAMILIES = (OURS, OURS_COSTLY, *PEERS)

_Q = (0.001, 0.01, 0.05, 0.1, 0.2)
FRONTIER: Mapping[str, tuple[float, ...]] = {
    OURS: _Q,
    OURS_COSTLY: _Q,
    "otava": (1e-6, 1e-5, 1e-4, 1e-3, 1e-2),
    "pelt": (6.0, 12.0, 25.0, 50.0, 100.0),
    "cusum": (4.0, 5.0, 8.0, 12.0, 20.0),
    "threshold": (1.1, 1.2, 1.3, 1.5, 2.0),
}
"""Five thresholds of each: of ours the expected part of false findings, of Otava p, of PELT the
penalty, of CUSUM how many standard deviations add up, of weeks their ratio."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A detector, what it looks at, and how sure it has to be."""

    family: str
    grain: Grain | None = None  #: None: whatever it takes
    threshold: float | None = None  #: None: the one that it comes with

    def counts(self, impact: float) -> bool:
        """Tell whether it is asked to find what costs so much of the GPU-hours; 0: nothing."""
        return self.family != OURS_COSTLY or not impact or abs(impact) >= Options().impact_floor

    @property
    def name(self) -> str:
        """A word that tells it from others: ``otava/cell``, and with a threshold ``ours 0.01``."""
        grain = f"/{self.grain}" if self.grain else ""
        return self.family + grain + ("" if self.threshold is None else f" {self.threshold:g}")


def engines(families: Sequence[str]) -> list[Engine]:
    """Return what each family comes with: peers at every grain."""
    return [
        Engine(family, grain)
        for family in families
        for grain in (tuple(Grain) if family in PEERS else (None,))
    ]


def frontier(families: Sequence[str]) -> list[Engine]:
    """Return each family at each of its thresholds, peers where they find most: by cell."""
    return [
        Engine(family, Grain.CELL if family in PEERS else None, threshold)
        for family in families
        for threshold in FRONTIER[family]
    ]


def alerts(
    engine: Engine, fleet: SimulatedFleet, otava: Otava | None, days: int = DAYS
) -> Iterator[Alert]:
    """Run a detector over a fleet's first *days*; *otava* is needed by its own family only."""
    if engine.grain is None:
        options = Options()
        if engine.family == OURS:
            options = replace(options, impact_floor=0.0)
        if engine.threshold is not None:
            options = replace(options, q=engine.threshold)
        return ours(fleet, options, days)
    of = daily(fleet, engine.grain, days)
    threshold = engine.threshold
    if engine.family == "otava":
        assert otava is not None
        p = DEFAULT_P if threshold is None else threshold
        return by_change_points(of, partial(otava.change_points, p=p))
    peers: Mapping[str, Callable[[], Iterator[Alert]]] = {
        "pelt": lambda: by_change_points(of, pelt(threshold)),
        "cusum": lambda: by_cusum(of, threshold or CUSUM_DECISION),
        "threshold": lambda: by_threshold(of, threshold or THRESHOLD),
    }
    return peers[engine.family]()
