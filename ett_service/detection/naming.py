"""What distinct changes are together: one slower phase, an outage, time that was relabelled."""

from collections.abc import Iterable, Mapping

from ett_service.core.interval import DAY_US
from ett_service.core.regression import Finding, Metric, Series, Subject
from ett_service.core.vocabulary import Phase
from ett_service.detection.margins import comparable
from ett_service.detection.pursuit import Candidate
from ett_service.detection.watch import Watch

_NEAR_US = 5 * DAY_US  #: what one change brings about is found to begin within so long
_TOGETHER = 2.0  #: score of a phase that changed together with another
_OUTAGE_PHASES = 2  #: so many more phases of a cohort that change with it are rather an outage
_MOVED = 2.5  #: score of the phase that time went from or to
_BALANCED = 0.4  #: part of the time that moved that the other phase may differ by

_ORDER = (
    Metric.PHASE_SECONDS,
    Metric.CHECKPOINT_BLOCKING_SECONDS,
    Metric.UNSAVED_SECONDS,
    Metric.STAGE_SECONDS,
    Metric.FAILURES_PER_GPU_HOUR,
    Metric.TIME_TO_START_SECONDS,
    Metric.TIME_TO_RECOVER_SECONDS,
    Metric.ETT_RATIO,
)
"""What may explain others comes before them."""

Since = tuple[Series, int]
"""A series, and since when it changed."""


def told_once(
    findings: Iterable[Finding], known: Mapping[Series, int], accepted: Mapping[Series, int]
) -> list[Finding]:
    """Leave out what another finding of the same verdict explains.

    What is *known* since an instant explains what began later, too, and what was *accepted* all
    that began before it was.
    """
    kept: list[Finding] = []
    ordered = sorted(findings, key=_precedence)
    for finding in ordered:
        mine = (finding.series, finding.onset_us)
        same = [(one.series, one.onset_us) for one in kept if one.verdict is finding.verdict]
        old = [(one, max(since, mine[1])) for one, since in known.items()]
        old += [(one, min(since, mine[1])) for one, since in accepted.items()]
        if not any(explains(cause, mine) for cause in (*same, *old)):
            kept.append(finding)
    return kept


def _precedence(finding: Finding) -> tuple[int, bool, float]:
    """Return what comes first: what explains others, and a cause of failures before all of them."""
    subject = finding.series.subject
    return _ORDER.index(subject.metric), not subject.cause, finding.p


def explains(cause: Since, effect: Since) -> bool:
    """Tell whether a change makes another one no news."""
    near = abs(cause[1] - effect[1]) <= _NEAR_US
    one, other = cause[0], effect[0]
    return near and comparable(one.cohort, other.cohort) and _begets(one.subject, other.subject)


def _begets(cause: Subject, effect: Subject) -> bool:
    """Tell whether values of *effect* are made of those of *cause*, or hold the same ones."""
    starts = cause.metric in {Metric.PHASE_SECONDS, Metric.STAGE_SECONDS}
    begins = starts and cause.phase != Phase.SHUTDOWN.value
    return {
        Metric.PHASE_SECONDS: False,
        Metric.UNSAVED_SECONDS: False,
        Metric.CHECKPOINT_BLOCKING_SECONDS: cause.phase == Phase.CHECKPOINT_BLOCKING.value,
        Metric.STAGE_SECONDS: cause.metric is Metric.PHASE_SECONDS and cause.phase == effect.phase,
        Metric.FAILURES_PER_GPU_HOUR: cause.metric is effect.metric and cause != effect,
        Metric.TIME_TO_START_SECONDS: begins,
        Metric.TIME_TO_RECOVER_SECONDS: starts or cause.metric is Metric.TIME_TO_START_SECONDS,
        Metric.ETT_RATIO: cause.metric is not Metric.ETT_RATIO,
    }[effect.metric]


def is_outage_like(candidate: Candidate, phases: Iterable[Watch]) -> bool:
    """Tell whether other *phases* of the same jobs became slower on the same day.

    Code that is slower is slower in one place. What slows everything down is the machine, and
    mostly it is over after some days.
    """
    group, start = candidate.group, candidate.lasting.start
    slower = [
        other.subject
        for other in phases
        if other.subject != candidate.watch.subject
        and candidate.sign * other.since(group, start).score >= _TOGETHER
    ]
    return len(slower) >= _OUTAGE_PHASES


def is_relabelled(candidate: Candidate, others: Iterable[Watch]) -> bool:
    """Tell whether one of *others* lost what the candidate gained, or gained what it lost."""
    group, start = candidate.group, candidate.lasting.start
    moved = _moved(candidate.watch, group, start)
    return any(
        -candidate.sign * other.since(group, start).score >= _MOVED
        and abs(moved + _moved(other, group, start)) <= _BALANCED * abs(moved)
        for other in others
    )


def are_beside(one: Subject, other: Subject) -> bool:
    """Tell whether time of one may be relabelled as the other's: phases, or stages of a phase."""
    if one.metric is not other.metric or one == other:
        return False
    return one.metric is Metric.PHASE_SECONDS or (
        one.metric is Metric.STAGE_SECONDS and one.phase == other.phase
    )


def _moved(watch: Watch, group: int, start: int) -> float:
    change = watch.change(group, start, watch.days)
    return change.before.median * (change.ratio - 1)
