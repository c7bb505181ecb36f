"""The weekly report of a fleet, from what the service answers."""

from ett_service.report.advice import advice, first
from ett_service.report.change import change
from ett_service.report.followed import followed
from ett_service.report.gather import Gathered
from ett_service.report.groups import ett_ratio
from ett_service.report.headline import course, headline, sentence
from ett_service.report.page import Report
from ett_service.report.regressions import regressions
from ett_service.report.remarks import markers, quality
from ett_service.report.spending import categories, cohorts, jobs
from ett_service.report.troubles import failures, times

_SECTIONS = (
    headline,
    categories,
    course,
    change,
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
