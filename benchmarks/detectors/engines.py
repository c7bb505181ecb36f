"""The detectors that are compared, by name, grain and threshold."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.detectors.fleets.fleet import SimulatedFleet
from benchmarks.detectors.fleets.parameters import DAYS
from benchmarks.detectors.otava import DEFAULT_P, Otava
from benchmarks.detectors.peers import (
    CUSUM_DECISION,
    FIRST_DAY,
    THRESHOLD,
    Grain,
    by_change_points,
    by_cusum,
    by_threshold,
    daily,
    pelt,
)
from benchmarks.detectors.trials import DetectorAlert
from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Finding, FindingKey, Series
from ett_service.core.regressions.state import (
    FindingState,
    StateRules,
    advance,
    resolved,
    transition,
)
from ett_service.detection.run import memory_of
from ett_service.detection.sample import Options, Sample
from ett_service.detection.scan import Scan, scan

OURS = "ours"  #: without a floor under the cost of a change, as the peers have none
OURS_COSTLY = "ours-costly"  #: with the service's default floor
PEERS = ("otava", "pelt", "cusum", "threshold")
FAMILIES = (OURS, OURS_COSTLY, *PEERS)

Q_THRESHOLDS = (0.001, 0.01, 0.05, 0.1, 0.2)
FRONTIER: Mapping[str, tuple[float, ...]] = {
    OURS: Q_THRESHOLDS,
    OURS_COSTLY: Q_THRESHOLDS,
    "otava": (1e-6, 1e-5, 1e-4, 1e-3, 1e-2),
    "pelt": (6.0, 12.0, 25.0, 50.0, 100.0),
    "cusum": (4.0, 5.0, 8.0, 12.0, 20.0),
    "threshold": (1.1, 1.2, 1.3, 1.5, 2.0),
}
"""Five thresholds of each: the expected share of false findings of ours, Otava's p, PELT's penalty,
CUSUM's sum of standard deviations, and the ratio of two weeks."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A detector, the series that it sees, and its threshold."""

    family: str
    grain: Grain | None = None  #: None for ours, which sees everything
    threshold: float | None = None  #: None for its default

    def counts(self, impact: float) -> bool:
        """Whether it has to find a change that costs this share of the GPU-hours; 0: no change."""
        return self.family != OURS_COSTLY or not impact or abs(impact) >= Options().impact_floor

    @property
    def name(self) -> str:
        """Its name in the table: ``otava/cell``, and with a threshold ``ours 0.01``."""
        grain = f"/{self.grain}" if self.grain else ""
        return self.family + grain + ("" if self.threshold is None else f" {self.threshold:g}")


def engines(families: Sequence[str]) -> list[Engine]:
    """Return each family with its default threshold, peers at every grain."""
    return [
        Engine(family, grain)
        for family in families
        for grain in (tuple(Grain) if family in PEERS else (None,))
    ]


def frontier(families: Sequence[str]) -> list[Engine]:
    """Return each family at each of its thresholds, peers by cell, where they find most."""
    return [
        Engine(family, Grain.CELL if family in PEERS else None, threshold)
        for family in families
        for threshold in FRONTIER[family]
    ]


class DailySearch:
    """The search as the service runs it: a scan a day, then the next state of every finding."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._rules = StateRules()
        self._standings: dict[FindingKey, FindingState] = {}
        self._accepted: dict[Series, int] = {}

    def run(self, sample: Sample) -> list[Finding]:
        """Search as of the end of *sample*; return what begins to fire, the strongest first."""
        memory = memory_of(self._standings.values(), self._accepted)
        return self.step(scan(sample, self._options, memory), sample.as_of_us)

    def step(self, scanned: Scan, at_us: int) -> list[Finding]:
        """Take the next state of every finding; return what begins to fire, in their order."""
        before, rules = self._standings, self._rules
        after = advance(before, scanned.findings, at_us, rules, scanned.gone, scanned.standing)
        firing = [each for each in scanned.findings if self._begins_to_fire(each, after)]
        self._standings = after
        return firing

    def accept(self, finding: Finding, at_us: int) -> None:
        """Take a firing finding for the new normal, as somebody can do in the service."""
        thread = FindingKey(finding.fingerprint, finding.verdict)
        self._standings[thread] = resolved(self._standings[thread], at_us)
        self._accepted[finding.series] = finding.onset_us

    def _begins_to_fire(self, finding: Finding, after: Mapping[FindingKey, FindingState]) -> bool:
        thread = FindingKey(finding.fingerprint, finding.verdict)
        change = transition(self._standings.get(thread), after.get(thread))
        return change is not None and change.begins_to_fire


def alerts(
    engine: Engine, fleet: SimulatedFleet, otava: Otava | None, days: int = DAYS
) -> Iterator[DetectorAlert]:
    """Run a detector over a fleet's first *days*; only its own family needs *otava*."""
    threshold = engine.threshold
    if engine.grain is None:
        floor = 0.0 if engine.family == OURS else Options().impact_floor
        q = Options().q if threshold is None else threshold
        return by_search(fleet, replace(Options(), impact_floor=floor, q=q), days)
    daily_series = daily(fleet, engine.grain, days)
    if engine.family == "otava":
        assert otava is not None
        p = DEFAULT_P if threshold is None else threshold
        return by_change_points(daily_series, partial(otava.change_points, p=p))
    peers: Mapping[str, Callable[[], Iterator[DetectorAlert]]] = {
        "pelt": lambda: by_change_points(daily_series, pelt(threshold)),
        "cusum": lambda: by_cusum(daily_series, threshold or CUSUM_DECISION),
        "threshold": lambda: by_threshold(daily_series, threshold or THRESHOLD),
    }
    return peers[engine.family]()


def by_search(fleet: SimulatedFleet, options: Options, days: int = DAYS) -> Iterator[DetectorAlert]:
    """Run the search every day; other verdicts than regressions are recorded, not alerted."""
    search = DailySearch(options)
    for day in range(FIRST_DAY, days):
        for finding in search.run(fleet.sample(day)):
            onset = (finding.onset_us - fleet.first_us) // DAY_US
            yield DetectorAlert(day, finding.series, finding.verdict, onset)
