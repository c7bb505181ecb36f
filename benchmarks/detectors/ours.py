"""The detector as the service runs it: a scan a day, then the step of every regression's state."""

from collections.abc import Iterator

from benchmarks.detectors.alert import Alert
from benchmarks.detectors.fleet import SimulatedFleet
from benchmarks.detectors.peers import FIRST_DAY
from benchmarks.detectors.scenario import DAYS
from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.state import (
    FindingKey,
    FindingState,
    StateRules,
    advance,
    transition,
)
from ett_service.detection.options import Options
from ett_service.detection.run import memory_of
from ett_service.detection.scan import scan

RULES = StateRules()


def ours(
    fleet: SimulatedFleet, options: Options, days: int = DAYS, rules: StateRules = RULES
) -> Iterator[Alert]:
    """Tell what begins to fire, or does so again, within the first *days*.

    Of other verdicts than regressions it is what is recorded.

    What comes first in a scan comes first here.
    """
    standings: dict[FindingKey, FindingState] = {}
    for day in range(FIRST_DAY, days):
        sample = fleet.sample(day)
        findings = scan(sample, options, memory_of(standings.values())).findings
        after = advance(standings, findings, sample.as_of_us, rules)
        for found in findings:
            thread = FindingKey(found.fingerprint, found.verdict)
            change = transition(standings.get(thread), after.get(thread))
            if change is not None and change.told and found.holds:
                onset = (found.onset_us - fleet.first_us) // DAY_US
                yield Alert(day, found.series, found.verdict, onset)
        standings = after
