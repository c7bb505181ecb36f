"""The weekly report of a fleet, from what the service answers."""

from ett_service.report.advice import advice, first
from ett_service.report.changes import ett_change, followed, markers, quality, regressions
from ett_service.report.document import Report
from ett_service.report.headline import by_job, by_wall_time, course, headline, sentence
from ett_service.report.inputs import Gathered, ett_ratio
from ett_service.report.losses import categories, cohorts, failures, jobs, times

_SECTIONS = (
    headline,
    by_wall_time,
    by_job,
    categories,
    course,
    ett_change,
    regressions,
    first,
    cohorts,
    jobs,
    failures,
    times,
    advice,
    markers,
    followed,
    quality,
)


def weekly(gathered: Gathered) -> Report:
    """Write up a week; one in which no job lived has no more than its first sentence."""
    total = gathered.now["total"]
    lived = bool(total["jobs"])
    return Report(
        week=gathered.week,
        sentence=sentence(gathered),
        sections=tuple(section(gathered) for section in _SECTIONS) if lived else (),
        as_of=gathered.now["as_of"],
        ett_ratio=ett_ratio(total),
    )
