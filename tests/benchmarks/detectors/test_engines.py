"""The bench alerts where the service notifies that something begins to fire, and nowhere else."""

from benchmarks.detectors.engines import DailySearch
from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Finding, Metric, Subject
from ett_service.detection.sample import Options
from ett_service.detection.scan import Scan
from tests.builders.regressions.stored import finding

ETT = finding(Subject(Metric.ETT_RATIO))
PHASE = finding()


def _alerts(*days: list[Finding]) -> list[list[Finding]]:
    search = DailySearch(Options())
    return [
        search.step(Scan(tuple(findings), (), 1), 20_500 * DAY_US + day * DAY_US)
        for day, findings in enumerate(days)
    ]


def test_what_another_finding_absorbs_alerts_once() -> None:
    both = [ETT, PHASE]
    assert _alerts([ETT], [ETT], both, both, both) == [[], [ETT], [], [PHASE], []]


def test_what_is_resolved_as_gone_alerts_no_more() -> None:
    search = DailySearch(Options())
    scans = [Scan((PHASE,), (), 1)] * 2 + [Scan((), (), 1, (PHASE.series,)), Scan((PHASE,), (), 1)]
    alerts = [search.step(scan, (20_500 + day) * DAY_US) for day, scan in enumerate(scans)]
    assert alerts == [[], [PHASE], [], []]
