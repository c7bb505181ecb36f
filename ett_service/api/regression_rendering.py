"""Turns regressions as they are kept into answers, in seconds and RFC 3339."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from ett_service.api.answers import IntervalAnswer
from ett_service.api.regression_answers import (
    ImpactAnswer,
    MuteAnswer,
    ObservedAnswer,
    RegressionRow,
)
from ett_service.api.regression_detail_answers import (
    AttributionAnswer,
    ClockAnswer,
    ClocksAnswer,
    ExampleAnswer,
    GateAnswer,
    HistoryAnswer,
    NearMarkerAnswer,
    RegressionLinks,
    SideBySideAnswer,
    SuspectAnswer,
)
from ett_service.api.rendering import maybe_instant, seconds
from ett_service.core.intervals import DAY_US, SECOND_US, rfc3339
from ett_service.core.regressions.clocks import Moments, ResponseTime, ResponseTimes
from ett_service.core.regressions.finding import (
    Attribution,
    Finding,
    Gate,
    Impact,
    Side,
    SideBySide,
    Unit,
)
from ett_service.storage.regressions.findings import Change, Regression
from ett_service.storage.regressions.mutes import Mute, Muted

Names = Mapping[str, str]
"""Names of keys by their prefixes."""

_AROUND_US = 2 * DAY_US


def row_members(kept: Regression, names: Names, muted: Iterable[Muted]) -> dict[str, Any]:
    """Return the members of a finding in one line; *muted* is what is muted of its project now."""
    standing = kept.standing
    finding = standing.finding
    subject = finding.series.subject
    unit = subject.metric.unit
    covering = [one.until_us for one in muted if one.covers(finding.series, one.from_us)]
    return {
        "id": kept.id,
        "project": kept.project,
        "fingerprint": finding.fingerprint,
        **{name: value or None for name, value in subject._asdict().items()},
        "cohort": dict(kept.series.cohort),
        "verdict": standing.verdict,
        "state": standing.state,
        "severity": kept.severity,
        "unit": unit,
        "ratio": finite(finding.ratio),
        "interval": _interval(finding),
        "before": _side(finding.before, unit),
        "after": _side(finding.after, unit),
        "impact": _impact(finding.impact),
        "onset_at": rfc3339(standing.onset_us),
        "pending_at": rfc3339(standing.pending_us),
        "firing_at": maybe_instant(standing.firing_us),
        "resolved_at": maybe_instant(standing.resolved_us),
        "last_run_at": rfc3339(standing.last_run_us),
        "reopened": standing.reopened,
        "acknowledged_at": maybe_instant(kept.acknowledged_us),
        "acknowledged_by": kept.acknowledged_by,
        "acknowledged_by_name": names.get(kept.acknowledged_by or ""),
        "triage": kept.triage,
        "triage_at": maybe_instant(kept.triage_us),
        "triage_by": kept.triage_by,
        "triage_by_name": names.get(kept.triage_by or ""),
        "muted_until": maybe_instant(max(covering, default=None)),
    }


def row_answer(kept: Regression, names: Names, muted: Iterable[Muted]) -> RegressionRow:
    """Answer a finding in one line."""
    return RegressionRow(**row_members(kept, names, muted))


def makers(kept: Regression) -> list[str | None]:
    """Return the prefixes of the keys that a row names."""
    return [kept.acknowledged_by, kept.triage_by]


def finite(number: float | None) -> float | None:
    """Return a number that JSON has a word for, else None."""
    return number if number is not None and math.isfinite(number) else None


def gate_answers(gates: Iterable[Gate]) -> list[GateAnswer]:
    """Answer the conditions of a verdict."""
    return [
        GateAnswer(name=gate.name, value=finite(gate.value), limit=gate.limit, passed=gate.passed)
        for gate in gates
    ]


def attribution_answer(found: Attribution, project: str) -> AttributionAnswer:
    """Answer what a change is associated with."""
    return AttributionAnswer(
        phase_shares=dict(found.phase_shares),
        cohort_shares=dict(found.cohort_shares),
        suspects=[
            SuspectAnswer(
                dimension=one.dimension,
                value=one.value,
                explains=one.explains,
                attempts=one.attempts,
                first_seen_at=maybe_instant(one.first_seen_us),
            )
            for one in found.suspects
        ],
        markers=[
            NearMarkerAnswer(
                id=one.id, kind=one.kind, title=one.title, at=rfc3339(one.at_us), score=one.score
            )
            for one in found.markers
        ],
        examples=[
            ExampleAnswer(job=job, number=number, link=_job_link(job, project))
            for job, number in found.examples
        ],
        within_points=found.within_points,
        mix_points=found.mix_points,
        side_by_side=_beside(found.side_by_side),
    )


def _beside(found: SideBySide | None) -> SideBySideAnswer | None:
    if found is None:
        return None
    bounded = found.low > 0 and math.isfinite(found.high)
    return SideBySideAnswer(
        dimension=found.dimension,
        value=found.value,
        against=found.against,
        attempts=found.n,
        against_attempts=found.against_n,
        ratio=found.ratio,
        ratio_interval=IntervalAnswer(low=found.low, high=found.high) if bounded else None,
        p=found.p,
    )


def clocks_answer(found: ResponseTimes) -> ClocksAnswer:
    """Answer how long it took against what is promised."""
    return ClocksAnswer(
        detect=_clock(found.detect),
        acknowledge=_maybe_clock(found.acknowledge),
        resolve=_maybe_clock(found.resolve),
    )


def moments(kept: Regression) -> Moments:
    """Return the moments that the clocks are read from."""
    standing = kept.standing
    return Moments(
        standing.onset_us,
        standing.firing_us,
        kept.acknowledged_us,
        standing.resolved_us,
        kept.written_us,
    )


def history_answers(found: Sequence[Change], names: Names) -> list[HistoryAnswer]:
    """Answer what happened, the first first."""
    return [
        HistoryAnswer(
            at=rfc3339(one.at_us),
            what=one.what,
            by=one.by,
            by_name=names.get(one.by),
            why=one.why,
            version=one.version,
        )
        for one in found
    ]


def mute_answer(kept: Mute, names: Names) -> MuteAnswer:
    """Answer a mute, which ends when it was taken back."""
    return MuteAnswer(
        id=kept.id,
        project=kept.project,
        cohort=dict(kept.muted.cohort),
        phase=kept.muted.phase or None,
        **{"from": rfc3339(kept.muted.from_us)},
        until=rfc3339(kept.muted.until_us),
        why=kept.why,
        made_by=kept.made_by,
        made_by_name=names.get(kept.made_by),
        made_at=rfc3339(kept.made_us),
        taken_back_by=kept.taken_back_by,
        taken_back_by_name=names.get(kept.taken_back_by or ""),
        taken_back_at=maybe_instant(kept.taken_back_us),
    )


def links(kept: Regression) -> RegressionLinks:
    """Return where to read on."""
    finding, project = kept.standing.finding, ("project", kept.project)
    around = [
        ("from", rfc3339(kept.standing.onset_us - _AROUND_US)),
        ("to", rfc3339(kept.standing.onset_us + _AROUND_US)),
    ]
    both = [("from", rfc3339(finding.before.from_us)), ("to", rfc3339(finding.after.to_us))]
    where = [("where", f"{name}:{value}") for name, value in kept.series.cohort]
    return RegressionLinks(
        regression=f"/v1/regressions/{quote(kept.id, safe='')}?{urlencode([project])}",
        fleet=f"/v1/fleet/series?{urlencode([project, *both, *where, ('step', '1d')])}",
        markers=f"/v1/markers?{urlencode([project, *around])}",
    )


def _interval(finding: Finding) -> IntervalAnswer | None:
    low, high = finite(finding.low), finite(finding.high)
    return None if low is None or high is None else IntervalAnswer(low=low, high=high)


def _side(side: Side, unit: Unit) -> ObservedAnswer:
    return ObservedAnswer(
        n=side.n,
        days=side.days,
        median=_in_unit(side.median, unit),
        p90=_in_unit(side.p90, unit),
        **{"from": rfc3339(side.from_us), "to": rfc3339(side.to_us)},
    )


def _in_unit(value: float | None, unit: Unit) -> float | None:
    known = finite(value)
    return known / SECOND_US if known is not None and unit == "seconds" else known


def _impact(impact: Impact) -> ImpactAnswer:
    return ImpactAnswer(
        gpu_hours_per_week=finite(impact.gpu_hours_per_week),
        ett_points=finite(impact.ett_points),
        cost_per_week=finite(impact.cost_per_week),
        currency=impact.currency or None,
    )


def _maybe_clock(clock: ResponseTime | None) -> ClockAnswer | None:
    return None if clock is None else _clock(clock)


def _clock(clock: ResponseTime) -> ClockAnswer:
    return ClockAnswer(
        seconds=seconds(clock.us),
        limit_seconds=seconds(clock.limit_us),
        runs=clock.runs,
        breached=clock.breached,
    )


def _job_link(job: str, project: str) -> str:
    return f"/v1/jobs/{quote(job, safe='')}?{urlencode([('project', project)])}"
